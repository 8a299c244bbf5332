/**
 * YAML document: a text → its value, where each field stands, and whatever in it would mean one thing here and another
 * to the next reader of the file. YAML 1.2, core schema. Pure.
 */
import { type Document, isAlias, isMap, isNode, isPair, isScalar, isSeq, LineCounter, parseAllDocuments } from "yaml";
import type { Issue } from "../../schemas/error.ts";
import { type Add, checkAliases, checkNode, type FieldPath } from "./yaml-checks.ts";

export type { FieldPath };

/** What to do about the commonest slips. */
const SYNTAX_REMEDIES: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: "indent with spaces; the rest of the file is read when that is done",
  BLOCK_AS_IMPLICIT_KEY: 'put a text that holds ": " in quotes',
};

/** A recipe has a few thousand characters. */
const MAX_CHARACTERS = 1024 * 1024;
/** The parser recurses: some thousand levels end the process, not with an error. */
const MAX_DEPTH = 100;
const MAX_INDENT = 400;
/** A mistake of the YAML itself, with the field it is about. */
export interface YamlMistake {
  readonly issue: Issue;
  readonly path: FieldPath;
  /** "12:5". */
  readonly position: string;
}

/** A document that could be read, perhaps with mistakes. */
export interface YamlDocument {
  /** Undefined where the mistakes leave none. */
  readonly value: unknown;
  readonly mistakes: readonly YamlMistake[];
  /**
   * "12:5", line and column from 1: of a scalar, of a mapping's or list's key, or of what comes nearest to a field that
   * is not there. `of` "key" means the field's name.
   */
  position(path: FieldPath, of?: "key" | "value"): string;
}

/** Reads the one document of a text. `file` begins every issue's path. */
export function readYamlDocument(text: string, file: string): YamlDocument {
  const lines = new LineCounter();
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${Math.max(1, line)}:${Math.max(1, col)}`;
  };
  const mistakes: YamlMistake[] = [];
  const add: Add = (offset, path, code, parts) => {
    const field = path.length > 0 ? `: ${path.join(".")}` : "";
    const position = at(offset);
    mistakes.push({ path, position, issue: { code, path: `${file}:${position}${field}`, ...parts } });
  };
  const unreadable = { value: undefined, mistakes, position: () => "1:1" };

  const tooMuch = text.length > MAX_CHARACTERS ? `it has ${text.length} characters` : tooDeep(text);
  if (tooMuch !== null) {
    add(0, [], "yaml-too-large", {
      asked: "a recipe was expected",
      found: tooMuch,
      allowed: `at most ${MAX_CHARACTERS} characters and ${MAX_DEPTH} levels`,
      todo: "check that this is the file you mean",
    });
    return unreadable;
  }
  const parsed = parseAllDocuments(text, {
    ...{ version: "1.2", schema: "core", merge: false, uniqueKeys: true, strict: true },
    ...{ lineCounter: lines, prettyErrors: false, logLevel: "silent" },
  });
  const documents: Document.Parsed[] = Array.isArray(parsed) ? parsed : [];
  const [document, second] = documents;
  const errors = documents.flatMap((one) => one.errors);
  // What stands behind a tab is read as something else: its mistakes are none.
  const tab = errors.find(({ code }) => code === "TAB_AS_INDENT");
  for (const { code, message, pos } of tab ? [tab] : errors) {
    if (code === "DUPLICATE_KEY") {
      const path = document?.contents ? pathOfKey(document.contents, pos[0]) : [];
      add(pos[0], path, "yaml-duplicate-key", {
        asked: "each field is set once",
        found: `"${path.at(-1) ?? ""}" is set a second time here`,
        allowed: "one value a field",
        todo: "remove one of the two",
      });
    } else
      add(pos[0], [], "yaml-syntax", {
        asked: "the file is read as YAML 1.2",
        found: message.charAt(0).toLowerCase() + message.slice(1),
        allowed: "one YAML mapping",
        todo: SYNTAX_REMEDIES[code] ?? "correct it; an editor with YAML support shows the place",
      });
  }
  if (second)
    add(second.range[0], [], "yaml-several-documents", {
      asked: "a file is one recipe",
      found: `a second document begins here, of ${documents.length}`,
      allowed: "one document, with at most one ---",
      todo: "move it to a file of its own",
    });
  if (document && document.directives.yaml.version !== "1.2")
    add(0, [], "yaml-unsupported", {
      asked: `a %YAML ${document.directives.yaml.version} directive`,
      found: "recipes are YAML 1.2: other versions read the same words as other values",
      allowed: "no directive, or %YAML 1.2",
      todo: "remove the directive",
    });
  if (!isMap(document?.contents) && !mistakes.some(({ issue }) => issue.code === "yaml-syntax"))
    add(document?.contents?.range[0] ?? 0, [], "yaml-not-a-mapping", {
      asked: "a recipe was expected",
      found: document?.contents
        ? `the file holds ${isSeq(document.contents) ? "a list" : "one value"}`
        : "the file is empty",
      allowed: 'a mapping of a recipe\'s fields, the first perhaps kind: "sft-rl"',
      todo: "write the recipe's fields at the left margin",
    });
  if (!document || !isMap(document.contents)) return unreadable;

  const position = (path: FieldPath, of: "key" | "value" = "value"): string => at(offsetOf(document, path, of));
  const followed = checkAliases(document, add);
  checkNode(document.contents, [], add);
  const readable = followed && !mistakes.some(({ issue }) => issue.code === "yaml-syntax");
  return { value: readable ? document.toJS({ maxAliasCount: -1 }) : undefined, mistakes, position };
}

/** What is nested too deeply, found without the parser: brackets that are open at once, dashes and spaces of a line. */
function tooDeep(text: string): string | null {
  let open = 0;
  for (const line of text.split("\n")) {
    const [margin = ""] = /^[\s?:-]*/.exec(line) ?? [];
    const indicators = margin.replace(/\s/g, "").length;
    for (const letter of line) open = Math.max(0, open + (/[[{]/.test(letter) ? 1 : /[\]}]/.test(letter) ? -1 : 0));
    if (open > MAX_DEPTH || indicators > MAX_DEPTH || margin.length > MAX_INDENT)
      return `it is nested more than ${MAX_DEPTH} levels deep`;
  }
  return null;
}

/** The path of the field whose name stands at an offset. */
function pathOfKey(node: unknown, offset: number): FieldPath {
  const items = isMap(node) || isSeq(node) ? node.items : [];
  for (const [index, item] of items.entries()) {
    const name = isPair(item) ? (isScalar(item.key) ? String(item.key.value) : "?") : index;
    if (isPair(item) && isScalar(item.key) && item.key.range?.[0] === offset) return [name];
    const rest = pathOfKey(isPair(item) ? item.value : item, offset);
    if (rest.length > 0) return [name, ...rest];
  }
  return [];
}

/** Where a field, or as much of it as there is, stands. */
function offsetOf(document: Document.Parsed, path: FieldPath, of: "key" | "value"): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (let done = 0; done < path.length; ) {
    const parent = isAlias(node) ? node.resolve(document) : node;
    if (isMap(parent)) {
      // A key may have dots of its own: the longest name that there is.
      let taken = path.length - done;
      const named = (count: number) =>
        parent.items.findLast(
          ({ key }) => isScalar(key) && String(key.value) === path.slice(done, done + count).join("."),
        );
      while (taken > 0 && !named(taken)) taken -= 1;
      const pair = named(taken);
      if (taken === 0 || !pair) return offset;
      done += taken;
      node = pair.value;
      const key = isNode(pair.key) ? (pair.key.range?.[0] ?? offset) : offset;
      const isLast = done === path.length;
      offset = isScalar(node) && node.source !== "" && !(isLast && of === "key") ? (node.range?.[0] ?? key) : key;
    } else if (isSeq(parent)) {
      const item = parent.items[Number(path[done])];
      if (!isNode(item)) return offset;
      done += 1;
      node = item;
      offset = item.range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}
