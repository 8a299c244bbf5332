/**
 * Configuration → keys that NeMo-RL doesn't have, keys that it misses, values that it can't use. Reads the two JSON
 * Schemas beside this file, once each.
 *
 * The real loader keeps unknown keys at every level: a misspelt key trains with the default. Here it is a mistake.
 */
import { readFileSync } from "node:fs";
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { Issue } from "../../../schemas/error.ts";
import { isMapping, valueAt } from "../config-path.ts";
import { nearest } from "../nearest.ts";
import { COMMITS, type Dialect } from "./dialect.ts";

/** Which of NeMo-RL's drivers reads the configuration. */
type Algorithm = "grpo" | "sft";

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly enum?: readonly unknown[];
  readonly description?: string;
}
interface Document {
  readonly $defs: Readonly<Record<Algorithm, Node>>;
}

const documents = new Map<Dialect, Document>();
const validators = new Map<string, ValidateFunction>();

function documentOf(dialect: Dialect): Document {
  const known = documents.get(dialect);
  if (known !== undefined) return known;
  const read = JSON.parse(readFileSync(new URL(`./${dialect}.schema.json`, import.meta.url), "utf8")) as Document;
  documents.set(dialect, read);
  return read;
}

function validatorOf(dialect: Dialect, algorithm: Algorithm): ValidateFunction {
  const key = `${dialect} ${algorithm}`;
  const known = validators.get(key);
  if (known !== undefined) return known;
  const ajv = new Ajv2020({
    allErrors: true,
    allowUnionTypes: true,
    verbose: true,
    strictTypes: false,
    strictRequired: false,
  });
  const compiled = ajv.compile(documentOf(dialect).$defs[algorithm]);
  validators.set(key, compiled);
  return compiled;
}

/** What the schema says of a key; null where there is no such key. */
function nodeAt(dialect: Dialect, algorithm: Algorithm, keys: readonly string[]): Node | null {
  let node: Node | undefined = documentOf(dialect).$defs[algorithm];
  for (const key of keys) node = /^\d+$/.test(key) && node?.items !== undefined ? node.items : node?.properties?.[key];
  return node ?? null;
}

const keysOf = (pointer: string): string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));

/** The key that was meant, if at most every third letter has to change, whatever its case. */
function meantOf(name: string, names: readonly string[]): string | null {
  const lower = names.map((one) => one.toLowerCase());
  const near = nearest(name.toLowerCase(), lower, Math.max(1, Math.floor(name.length / 3)));
  return near === null ? null : (names[lower.indexOf(near)] ?? null);
}

function unknownKey(dialect: Dialect, algorithm: Algorithm, keys: readonly string[], value: unknown): Issue {
  const name = keys.at(-1) ?? "";
  const parent = keys.slice(0, -1).join(".") || "the top level";
  const names = Object.keys(nodeAt(dialect, algorithm, keys.slice(0, -1))?.properties ?? {});
  const meant = meantOf(name, names);
  const other: Dialect = dialect === "main" ? "v0.7.0" : "main";
  const elsewhere = nodeAt(other, algorithm, keys) !== null;
  return {
    code: "nemo-rl-unknown-key",
    path: keys.join("."),
    asked: `"${name}" is set to ${JSON.stringify(value)}`,
    found: `NeMo-RL ${dialect} has no such key at ${parent}${elsewhere ? `, only ${other} has` : ""}; its loader would ignore it`,
    allowed: names.length === 0 ? "nothing here" : names.join(", "),
    todo: elsewhere
      ? `render for ${other} (the target's nemoRl), or remove it`
      : meant === null
        ? "remove it"
        : `did you mean "${meant}"?`,
  };
}

/** What a value may be, from the keyword that refused it. */
function allowedBy({ keyword, params, parentSchema }: ErrorObject): string {
  const description = (parentSchema as Node | undefined)?.description;
  switch (keyword) {
    case "type":
      return `a value of type ${[params.type as string | string[]].flat().join(" or ")}`;
    case "enum":
      return (params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(", ");
    case "minimum":
      return `${params.limit} and more`;
    case "maximum":
      return `up to ${params.limit}`;
    case "exclusiveMinimum":
      return `more than ${params.limit}`;
    default:
      return description ?? `a value that matches ${String(params.pattern ?? keyword)}`;
  }
}

function badValue(dialect: Dialect, algorithm: Algorithm, error: ErrorObject): Issue {
  const keys = keysOf(error.instancePath);
  const name = keys.at(-1) ?? "";
  const value = error.data as unknown;
  const isOwnName = nodeAt(dialect, algorithm, keys) === null;
  const siblings = Object.keys(nodeAt(dialect, algorithm, keys.slice(0, -1))?.properties ?? {});
  const meant = isOwnName ? meantOf(name, siblings) : null;
  const isInterpolated = error.keyword === "type" && typeof value === "string" && value.includes("${");
  return {
    code: meant === null ? "nemo-rl-bad-value" : "nemo-rl-unknown-key",
    path: keys.join("."),
    asked: `"${name}" is set to ${isMapping(value) || Array.isArray(value) ? "a section" : JSON.stringify(value)}`,
    found: isInterpolated
      ? "an interpolated value can't be checked or compared before the job starts"
      : isOwnName
        ? `NeMo-RL ${dialect} has no such key, and a section of one's own holds keys`
        : `NeMo-RL ${dialect} can't use that${error.keyword === "type" ? "" : ", though its loader takes it"}`,
    allowed: allowedBy(error),
    todo: meant !== null ? `did you mean "${meant}"?` : isInterpolated ? "write the value itself" : "correct the value",
  };
}

/** The mistakes that the schema of a dialect finds; paths are the keys'. */
export function schemaFindings(dialect: Dialect, algorithm: Algorithm, config: unknown): Issue[] {
  const validate = validatorOf(dialect, algorithm);
  if (validate(config)) return [];
  const findings = (validate.errors ?? []).flatMap((error): Issue[] => {
    const keys = keysOf(error.instancePath);
    if (error.keyword === "if") return [];
    if (error.keyword === "additionalProperties") {
      const path = [...keys, error.params.additionalProperty as string];
      return [unknownKey(dialect, algorithm, path, (error.data as Record<string, unknown>)[path.at(-1) ?? ""])];
    }
    if (error.keyword !== "required") return [badValue(dialect, algorithm, error)];
    const path = [...keys, error.params.missingProperty as string].join(".");
    return [
      {
        code: "nemo-rl-missing-key",
        path,
        asked: keys.length === 0 ? "a configuration" : `a section ${keys.join(".")}`,
        found: `"${error.params.missingProperty}" is not written, and NeMo-RL ${dialect} has no default for it`,
        allowed: `a value; see the exemplar of NVIDIA-NeMo/RL at ${COMMITS[dialect].slice(0, 8)}`,
        todo:
          valueAt(config, keys.join(".")) === null ? "write the section" : "write the key, or remove what overrides it",
      },
    ];
  });
  return findings.filter(
    (finding, index) =>
      findings.findIndex(({ path, code }) => path === finding.path && code === finding.code) === index,
  );
}
