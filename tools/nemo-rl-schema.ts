/**
 * tsx tools/nemo-rl-schema.ts KEYS.json: the list of NeMo-RL's configuration keys → the two JSON Schemas beside the
 * adapter, modules/trainers/nemo-rl/{v0.7.0,main}.schema.json. Reads KEYS.json, writes those two files. Run by hand
 * when the list changes; the schemas are committed, so that neither build nor tests need the list.
 *
 * A schema has two definitions, `grpo` and `sft`. NeMo-RL's own loader keeps unknown keys at every level and checks
 * few values; these schemas refuse both. No `anyOf` is made: an error then names one key and one rule.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { EXTRA_KEYS, FREE, OPTIONAL, TYPE_FIXES, VALUE_RULES } from "../modules/trainers/nemo-rl/schema-rules.ts";

interface Key {
  readonly type: string;
  readonly required: boolean;
  readonly allowed?: readonly unknown[] | null;
  readonly when?: string;
}
type Keys = Readonly<Record<string, Key>>;
type Schema = { [keyword: string]: unknown };

/** One key with the keys below it; "[]" is the item of a list. */
interface Node {
  key: Key | null;
  readonly children: Map<string, Node>;
}

const DIALECTS = {
  "v0.7.0": { grpo: "nemo_rl_grpo_v0_7_0", sft: "nemo_rl_sft_v0_7_0" },
  main: { grpo: "nemo_rl_grpo", sft: "nemo_rl_sft" },
} as const;

/** The list with what it has wrong put right. */
function corrected(keys: Keys): Keys {
  return Object.fromEntries(
    Object.entries(keys).map(([path, key]) => [
      path,
      { ...key, type: TYPE_FIXES[path] ?? key.type, required: key.required && !OPTIONAL.includes(path) },
    ]),
  );
}

function treeOf(keys: Keys): Node {
  const root: Node = { key: null, children: new Map() };
  for (const [path, key] of Object.entries(keys)) {
    let node = root;
    for (const part of path.replaceAll("[]", ".[]").split(".")) {
      const next: Node = node.children.get(part) ?? { key: null, children: new Map() };
      node.children.set(part, next);
      node = next;
    }
    node.key = key;
  }
  return root;
}

/** "a | list[b | c] | null" → its parts; a bar inside brackets does not split. */
function union(type: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let part = "";
  for (const letter of type) {
    if (letter === "[") depth += 1;
    if (letter === "]") depth -= 1;
    if (letter === "|" && depth === 0) {
      parts.push(part.trim());
      part = "";
    } else part += letter;
  }
  return [...parts, part.trim()];
}

const SCALARS: Readonly<Record<string, string>> = {
  str: "string",
  int: "integer",
  float: "number",
  bool: "boolean",
  true: "boolean",
  null: "null",
};

/** A Python class of keys, e.g. MegatronConfig. */
const isClass = (part: string): boolean => /^[A-Z]\w*$/.test(part) && part !== "Any";

/** One part of a type → JSON Schema; several parts are merged, as each speaks of another JSON type. */
function ofPart(part: string): Schema {
  if (part in SCALARS) return { type: [SCALARS[part]] };
  if (/^".*"$/.test(part)) return { type: ["string"] };
  if (part === "PathLike[Any]") return {};
  if (part === "mapping") return { type: ["object"] };
  if (part === "list") return { type: ["array"] };
  const list = /^list\[(.*)\]$/.exec(part);
  if (list?.[1] !== undefined) return { type: ["array"], items: ofType(list[1]) };
  const mapping = /^dict\[str, (.*)\]$/.exec(part);
  if (mapping?.[1] !== undefined) {
    const values = ofType(mapping[1]);
    return { type: ["object"], ...(Object.keys(values).length > 0 ? { additionalProperties: values } : {}) };
  }
  if (isClass(part)) return { type: ["object"] };
  if (part === "Any" || part.startsWith("Callable[")) return { any: true };
  throw new Error(`a type this tool does not know: ${part}`);
}

function ofType(type: string): Schema {
  const merged: Schema = {};
  const types = new Set<unknown>();
  for (const part of union(type)) {
    const { type: names, any, ...rest } = ofPart(part);
    if (any === true) return {};
    for (const name of (names as unknown[] | undefined) ?? []) types.add(name);
    Object.assign(merged, rest);
  }
  return { type: types.size === 1 ? [...types][0] : [...types], ...merged };
}

/** The keys below a node that must be there under a condition; null where there is none. */
function requiredUnder(node: Node, when: string | undefined, path: string): Schema | null {
  const required: string[] = [];
  const properties: Schema = {};
  for (const [name, child] of node.children) {
    if (name === "[]" || child.key === null) continue;
    if (child.key.required && child.key.when === when && !alternatives(node)) required.push(name);
    const inner = requiredUnder(child, when, `${path}.${name}`);
    if (inner !== null) properties[name] = inner;
  }
  if (required.length === 0 && Object.keys(properties).length === 0) return null;
  return {
    ...(required.length > 0 ? { required } : {}),
    ...(Object.keys(properties).length > 0 ? { properties } : {}),
  };
}

/** True where a node is one of several classes, each with keys of its own: which are needed can't be said. */
function alternatives(node: Node): boolean {
  const classes = node.key === null ? [] : union(node.key.type).filter((part) => isClass(part));
  return classes.filter((name) => !name.endsWith("Disabled")).length > 1;
}

/** The condition under which a node's own keys are needed, as JSON Schema says it. */
function conditionAt(node: Node, path: string): { name: string; when: string; test: Schema } | null {
  for (const child of node.children.values()) {
    const when = child.key?.when;
    const match = when === undefined ? null : /^(.*)\.(\w+) == (?:(true)|'(\w+)')$/.exec(when);
    if (match === null || match[1] !== path || when === undefined) continue;
    const name = match[2] as string;
    return {
      name,
      when,
      test: { properties: { [name]: { const: match[3] === "true" ? true : match[4] } }, required: [name] },
    };
  }
  return null;
}

function schemaOf(node: Node, path: string): Schema {
  const schema: Schema = node.key === null ? { type: "object" } : ofType(node.key.type);
  // Where a class has a twin for "disabled", the key that tells them apart is either.
  const isSwitch = path.endsWith(".enabled") && node.key?.type === "true";
  const allowed = isSwitch ? null : node.key?.allowed;
  if (Array.isArray(allowed) && !allowed.some((value) => String(value).startsWith("("))) schema.enum = allowed;
  Object.assign(schema, VALUE_RULES[path.replaceAll(".[]", "[]")] ?? {});

  const named = [...node.children].filter(([name]) => name !== "[]" && !name.startsWith("<"));
  if (named.length > 0) {
    schema.properties = Object.fromEntries(named.map(([name, child]) => [name, schemaOf(child, below(path, name))]));
    const free = FREE[path];
    if (free !== undefined) schema.additionalProperties = free;
    else if (node.key === null || !/dict\[str, Any\]/.test(node.key.type)) schema.additionalProperties ??= false;
    const needed = requiredUnder(node, undefined, path);
    if (needed?.required !== undefined) schema.required = needed.required;
  } else if (node.key !== null && union(node.key.type).some(isClass)) schema.additionalProperties = false;
  const item = node.children.get("[]");
  if (item !== undefined) {
    const items = schemaOf(item, `${path}.[]`);
    schema.items = { type: "object", properties: items.properties, additionalProperties: false };
  }
  const condition = conditionAt(node, path);
  const needed = condition === null ? null : requiredUnder(node, condition.when, path);
  if (condition !== null && needed !== null)
    // The switch itself is always needed: without it none of the classes is meant.
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    Object.assign(schema, { required: [condition.name], if: condition.test, then: needed });
  return schema;
}

const below = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);

/** env.nemo_gym is needed, with its config_paths, where Gym is used; the list says so of config_paths only. */
function gymCondition(schema: Schema): void {
  const env = (schema.properties as { env?: Schema }).env;
  if (env === undefined) return;
  Object.assign(env, {
    if: { properties: { should_use_nemo_gym: { const: true } }, required: ["should_use_nemo_gym"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { required: ["nemo_gym"], properties: { nemo_gym: { required: ["config_paths"] } } },
  });
}

const [source] = process.argv.slice(2);
if (source === undefined) throw new Error("usage: tsx tools/nemo-rl-schema.ts KEYS.json");
const list = JSON.parse(await readFile(source, "utf8")) as Readonly<Record<string, Keys>>;
const meta = list.meta as unknown as { sources: Readonly<Record<string, { commit: string }>> };
for (const [dialect, sections] of Object.entries(DIALECTS)) {
  const definitions = Object.entries(sections).map(([algorithm, section]) => {
    const keys = list[section];
    if (keys === undefined) throw new Error(`${source} has no section ${section}`);
    const schema = schemaOf(treeOf(corrected({ ...keys, ...EXTRA_KEYS })), "");
    gymCondition(schema);
    return [algorithm, schema];
  });
  const text = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $comment: `Made by tools/nemo-rl-schema.ts. NVIDIA-NeMo/RL at ${meta.sources[sections.grpo]?.commit}.`,
    $defs: Object.fromEntries(definitions),
  };
  const path = join(import.meta.dirname, `../modules/trainers/nemo-rl/${dialect}.schema.json`);
  await writeFile(path, `${JSON.stringify(text, null, 1)}\n`);
  process.stdout.write(`${path}\n`);
}
