/**
 * YAML checks: a parsed document → what in it would mean one thing here and another to the next reader of the file, and
 * aliases that cannot be followed. Pure.
 */
import { type Document, isAlias, isMap, isNode, isPair, isScalar, isSeq, type Node } from "yaml";
import type { Issue } from "../../schemas/error.ts";

/** A field's place in a document: keys and, in lists, numbers. */
export type FieldPath = readonly (string | number)[];

type Parts = Omit<Issue, "code" | "path">;
/** Takes one mistake: where in the text, of which field, and the issue's parts. */
export type Add = (offset: number, path: FieldPath, code: string, parts: Parts) => void;

/** Nodes once aliases are followed: ten aliases of ten aliases … are a short file with billions of them. */
const MAX_NODES = 20_000;

/** Tags that say what the value is anyway. */
const CORE_TAGS = ["str", "int", "float", "bool", "null", "map", "seq"].map((name) => `tag:yaml.org,2002:${name}`);

/** Plain scalars that YAML 1.1, which many tools still read, takes for something else than YAML 1.2 does. */
const SURPRISES: readonly { pattern: RegExp; found: (text: string) => string; todo: (text: string) => string }[] = [
  {
    pattern: /^(y|yes|n|no|on|off)$/i,
    found: (text) => `${text} is text in YAML 1.2 and true or false in YAML 1.1`,
    todo: (text) => `write ${/^(y|yes|on)$/i.test(text) ? "true" : "false"}, or "${text}" for the text`,
  },
  {
    pattern: /^[-+]?0[0-9_]+$/,
    found: (text) => `${text} is decimal in YAML 1.2 and octal in YAML 1.1`,
    todo: (text) => `write ${text.replace(/^([-+]?)0+(?=[0-9])/, "$1")}, or "${text}" for the text`,
  },
  {
    pattern: /^[-+]?[0-9]+_[0-9_]*(\.[0-9_]*)?$/,
    found: (text) => `${text} is text in YAML 1.2 and a number in YAML 1.1`,
    todo: (text) => `write ${text.replaceAll("_", "")}, or "${text}" for the text`,
  },
  {
    pattern: /^([-+]?0b[01_]+|0o[0-7]+)$/,
    found: (text) => `${text} is a number in one of YAML 1.1 and 1.2 and text in the other`,
    todo: (text) => `write the number in decimal digits, or "${text}" for the text`,
  },
  {
    pattern: /^[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?$/,
    found: (text) => `${text} is text in YAML 1.2 and a number to base 60 in YAML 1.1`,
    todo: (text) => `write "${text}" for the text, or the number in decimal digits`,
  },
  {
    pattern: /^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?$/,
    found: (text) => `${text} is text in YAML 1.2 and a date in YAML 1.1`,
    todo: (text) => `write "${text}"`,
  },
];

/** Whether aliases can be followed: each to an anchor before it, not to itself, and not to more than a file's worth. */
export function checkAliases(document: Document.Parsed, add: Add): boolean {
  const sizes = new Map<Node, number>();
  const within = new Set<Node>();
  let fine = true;
  const refuse = (node: Node, code: string, found: string, allowed: string): number => {
    if (fine || code === "yaml-syntax")
      add(node.range?.[0] ?? 0, [], code, {
        asked: "an alias repeats a value",
        found,
        allowed,
        todo: "write the value out",
      });
    fine = false;
    return 1;
  };
  const sizeOf = (node: unknown): number => {
    if (isPair(node)) return sizeOf(node.key) + sizeOf(node.value);
    if (!isNode(node)) return 0;
    const known = sizes.get(node);
    if (known !== undefined) return known;
    if (within.has(node))
      return refuse(node, "yaml-too-many-aliases", "this one lies inside itself", "a value that ends");
    within.add(node);
    let size = 1;
    if (isAlias(node)) {
      const source = node.resolve(document);
      size = source
        ? sizeOf(source)
        : refuse(node, "yaml-syntax", `there is no anchor &${node.source} before it`, "anchors of this file");
    } else if (isMap(node) || isSeq(node)) for (const item of node.items) size += sizeOf(item);
    within.delete(node);
    if (size > MAX_NODES && fine)
      refuse(
        node,
        "yaml-too-many-aliases",
        `aliases make ${size} values or more of this`,
        `at most ${MAX_NODES} values`,
      );
    sizes.set(node, size);
    return size;
  };
  sizeOf(document.contents);
  return fine;
}

/** Tags, keys and scalars that the next reader may read otherwise. */
export function checkNode(node: unknown, path: FieldPath, add: Add): void {
  if (!isNode(node)) return;
  const offset = node.range?.[0] ?? 0;
  if ("tag" in node && node.tag !== undefined && !CORE_TAGS.includes(node.tag))
    add(offset, path, "yaml-unsupported", {
      asked: `the tag ${node.tag}`,
      found: "a recipe's values are texts, numbers, true and false, lists and mappings",
      allowed: "no tag",
      todo: "remove the tag; quote the value to make it text",
    });
  if (isScalar(node))
    checkScalar(node.value, node.type === "PLAIN" && !node.tag ? node.source : undefined, offset, path, add);
  if (isSeq(node)) node.items.forEach((item, index) => void checkNode(item, [...path, index], add));
  if (!isMap(node)) return;
  for (const { key, value } of node.items) {
    const own = [...path, isScalar(key) ? String(key.source ?? key.value) : "?"];
    if (!isScalar(key) || typeof key.value !== "string" || key.value === "<<") {
      add(isNode(key) ? (key.range?.[0] ?? 0) : offset, own, "yaml-unsupported", {
        asked: "a field's name was expected",
        found: isScalar(key) && key.value === "<<" ? "<< merges mappings in YAML 1.1 only" : "this key is not text",
        allowed: "a field's name, as text",
        todo: isScalar(key) && key.value === "<<" ? "write the fields out" : "quote it, or correct it",
      });
    } else checkNode(key, own, add);
    checkNode(value, own, add);
  }
}

function checkScalar(value: unknown, plain: string | undefined, offset: number, path: FieldPath, add: Add): void {
  if (typeof value === "number" && !Number.isFinite(value))
    add(offset, path, "yaml-unsupported", {
      asked: `the value ${value}`,
      found: "a plan is JSON, which has no such number",
      allowed: "finite numbers",
      todo: "write a number, or leave the field out",
    });
  if (plain === undefined) return;
  // 1e-5 is not among them: text to readers of YAML 1.1, but so common that none of those can be used for recipes.
  const surprise = SURPRISES.find(({ pattern }) => pattern.test(plain));
  if (!surprise) return;
  add(offset, path, "yaml-ambiguous-value", {
    asked: "a value that every reader of YAML takes for the same was expected",
    found: surprise.found(plain),
    allowed: "true, false, decimal numbers, and quoted text",
    todo: surprise.todo(plain),
  });
}
