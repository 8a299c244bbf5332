/**
 * Written schema: what a person wrote → every way in which it is no recipe or target, by ajv against the JSON Schema in
 * schemas/generated. Of a union, only the branch whose kind matches is reported. Reads that file once; values are not
 * changed.
 */
import { readFileSync } from "node:fs";
import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import type { Issue } from "../../schemas/error.ts";
import { nearest } from "./did-you-mean.ts";

/** What a value at a place breaks, with the place: the field itself, or its name where the field should not be there. */
export interface SchemaMistake {
  readonly path: readonly (string | number)[];
  readonly of: "key" | "value";
  readonly issue: Omit<Issue, "path">;
}

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly exclusiveMinimum?: number;
  readonly minimum?: number;
  readonly format?: string;
  /** What text of the pattern is, in words (schemas/text.ts). */
  readonly patternErrorMessage?: string;
}

type Validate = ReturnType<Ajv2020["compile"]>;
interface Compiled {
  readonly validate: Validate;
  readonly schema: Schema;
}
const compiled = new Map<string, Compiled>();

/** What people write. */
export type Written = "recipe" | "target";

/** The page that says what its fields take. */
const PAGES: Record<Written, string> = { recipe: "docs/recipe-reference.md", target: "docs/targets.md" };

function schemaOf(noun: Written): Compiled {
  const known = compiled.get(noun);
  if (known) return known;
  const text = readFileSync(new URL(`../../schemas/generated/${noun}.schema.json`, import.meta.url), "utf8");
  const schema = withDiscriminators(JSON.parse(text)) as Schema & object;
  const ajv = new Ajv2020({ allErrors: true, verbose: true, discriminator: true, strict: true, strictRequired: false });
  // Dates and addresses are Zod's to check, when the rest is right.
  // Their patterns are in the schema too.
  ajv.addKeyword("patternErrorMessage");
  for (const format of ["date-time", "uri", "starts_with", "email", "cidrv4"]) ajv.addFormat(format, true);
  const made = { validate: ajv.compile(schema), schema };
  compiled.set(noun, made);
  return made;
}

/** Tells ajv by which field a union's branches are told apart: JSON Schema itself has no word for it. */
function withDiscriminators(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withDiscriminators);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withDiscriminators(member)]));
  const tag = "oneOf" in copy ? tagOf(copy as Schema) : undefined;
  return tag === undefined ? copy : { type: "object", ...copy, discriminator: { propertyName: tag } };
}

/** The field that has another constant in each branch of a union. */
function tagOf({ oneOf = [] }: Schema): string | undefined {
  const [first, ...others] = oneOf.map(({ properties = {} }) => properties);
  return Object.keys(first ?? {}).find((name) => [first, ...others].every((one) => one?.[name]?.const !== undefined));
}

/** Every mistake of a value, by where it stands in the schema; empty where it is what it should be. */
export function checkSchema(noun: Written, value: unknown): SchemaMistake[] {
  const { validate, schema } = schemaOf(noun);
  if (validate(value)) return [];
  const errors = validate.errors ?? [];
  const unions = errors.filter(({ keyword }) => keyword === "anyOf" || keyword === "oneOf");
  // The branches of a union without a kind all fail; the union's own error says what they would have taken.
  const told = errors.filter(
    (error) => !unions.some(({ schemaPath }) => error.schemaPath.startsWith(`${schemaPath}/`)),
  );
  const unknown = told.filter(({ keyword }) => keyword === "additionalProperties");
  return told
    .filter((error) => !isMisspeltElsewhere(error, unknown))
    .map((error) => mistakeOf(error, schema, value, PAGES[noun]));
}

/** A field that is missing because its name is misspelt is one mistake, not two. */
function isMisspeltElsewhere(error: ErrorObject, unknown: readonly ErrorObject[]): boolean {
  return (
    error.keyword === "required" &&
    unknown.some(
      (other) => other.instancePath === error.instancePath && suggestionFor(other) === error.params.missingProperty,
    )
  );
}

function suggestionFor(unknown: ErrorObject): string | undefined {
  return nearest(unknown.params.additionalProperty, fieldsOf(unknown.parentSchema as Schema));
}

function mistakeOf(error: ErrorObject, root: Schema, value: unknown, page: string): SchemaMistake {
  const path = error.instancePath.split("/").slice(1).map(unescapePointer);
  const field = nameOf(path);
  const schema = error.parentSchema as Schema;
  switch (error.keyword) {
    case "additionalProperties": {
      const name = String(error.params.additionalProperty);
      return { path: [...path, name], of: "key", issue: unknownField(name, path, error, root, value) };
    }
    case "required": {
      const name = String(error.params.missingProperty);
      const own = schema.properties?.[name];
      const issue = invalid(`${name} of ${field} is needed`, "it is missing", own ? describeSchema(own) : "any value");
      return { path, of: "key", issue: { ...issue, todo: `add ${name}` } };
    }
    case "discriminator": {
      const tag = String(error.params.tag);
      const kinds = (schema.oneOf ?? []).map((branch) => branch.properties?.[tag]?.const);
      const present = isObject(error.data) && Object.hasOwn(error.data, tag);
      const found = present ? describeValue(error.params.tagValue) : "it is missing";
      const issue = invalid(`${tag} of ${field} says which fields it has`, found, kinds.map(quote).join(" or "));
      const guess = nearest(String(error.params.tagValue), kinds.map(String));
      const todo = guess && present ? `did you mean ${quote(guess)}?` : present ? "use one of those" : `add ${tag}`;
      return { path: present ? [...path, tag] : path, of: present ? "value" : "key", issue: { ...issue, todo } };
    }
    default: {
      const asked = `a value that ${field} can have`;
      const issue = invalid(asked, describeValue(error.data), describeError(error, schema));
      const todo = hint(error.data, schema) ?? `correct this field; ${page} has all fields`;
      return { path, of: "value", issue: { ...issue, todo } };
    }
  }
}

function invalid(asked: string, found: string, allowed: string): SchemaMistake["issue"] {
  return { code: "recipe-invalid", asked, found, allowed, todo: "correct this field" };
}

function unknownField(
  name: string,
  path: readonly string[],
  error: ErrorObject,
  root: Schema,
  value: unknown,
): SchemaMistake["issue"] {
  const own = error.parentSchema as Schema;
  const tag = Object.entries(own.properties ?? {}).find(([, { const: kind }]) => kind !== undefined);
  const kind = tag ? ` of ${tag[0]} ${quote(tag[1].const)}` : "";
  const guess = suggestionFor(error);
  const otherKinds = unionsAt(root, path).flatMap(({ oneOf = [] }) => oneOf.filter((one) => one.properties?.[name]));
  const elsewhere = placesOf(name, branchOf(root, value)).filter((place) => place !== [...path, name].join("."));
  const todo = (): string => {
    if (guess) return `did you mean "${guess}"?`;
    const [other] = otherKinds;
    const otherTag = Object.entries(other?.properties ?? {}).find(([, { const: one }]) => one !== undefined);
    if (otherTag) return `remove it, or use ${otherTag[0]} ${quote(otherTag[1].const)}, which has it`;
    if (elsewhere.length > 0) return `move it: there is ${elsewhere.slice(0, 3).join(", ")}`;
    return "remove it or correct its spelling";
  };
  return {
    code: "recipe-unknown-field",
    asked: `the field "${name}" is set`,
    found: `${nameOf(path)}${kind} has no such field`,
    allowed: fieldsOf(own).join(", "),
    todo: todo(),
  };
}

/** What a field is called in a sentence. */
function nameOf(path: readonly string[]): string {
  const last = path.at(-1);
  return last === undefined ? "the file" : /^[0-9]+$/.test(last) ? path.slice(-2).join(".") : last;
}

/** The unions a field may be described by. */
function unionsAt(schema: Schema, path: readonly string[]): Schema[] {
  const [name, ...rest] = path;
  const branches = [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])];
  if (name === undefined) return schema.oneOf ? [schema] : [];
  const member = schema.properties?.[name] ?? schema.items;
  return [...(member ? unionsAt(member, rest) : []), ...branches.flatMap((branch) => unionsAt(branch, path))];
}

/** The branch of the recipe's kind. */
function branchOf(schema: Schema, value: unknown): Schema {
  const kind = isObject(value) ? value.kind : undefined;
  return schema.oneOf?.find(({ properties }) => properties?.kind?.const === kind) ?? schema;
}

/** Where in a recipe fields of this name are, "tasks.split.heldOut". */
function placesOf(name: string, schema: Schema, at = ""): string[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([key, member]) => [
    ...(key === name ? [`${at}${key}`] : []),
    ...placesOf(name, member, `${at}${key}.`),
  ]);
  const inside = [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])].flatMap((branch) => placesOf(name, branch, at));
  return [...new Set([...own, ...inside])];
}

function fieldsOf(schema: Schema): string[] {
  return Object.keys(schema.properties ?? {});
}

/** What a field may be, from the rule that was broken. */
function describeError({ keyword, params }: ErrorObject, schema: Schema): string {
  switch (keyword) {
    case "minimum":
      return `at least ${params.limit}`;
    case "maximum":
      return `at most ${params.limit}`;
    case "exclusiveMinimum":
      return `more than ${params.limit}`;
    case "exclusiveMaximum":
      return `less than ${params.limit}`;
    case "minItems":
      return `at least ${params.limit} of them`;
    case "pattern":
      return schema.patternErrorMessage ?? ofFormat(schema.format, String(params.pattern));
    default:
      return describeSchema(schema);
  }
}

/** What text of one of Zod's own formats is. */
function ofFormat(format: string | undefined, pattern: string): string {
  switch (format) {
    case "date-time":
      return "a date and time such as 2026-12-01T11:30:00Z";
    case "email":
      return "an e-mail address";
    case "cidrv4":
      return "a range of IPv4 addresses such as 10.0.0.0/16";
    case "starts_with":
      return `text that begins with ${pattern.replace(/^\^|\.\*$/g, "").replaceAll("\\", "")}`;
    default:
      return "text of another form";
  }
}

/** What a schema takes, for a person. */
function describeSchema(schema: Schema): string {
  if (schema.const !== undefined) return quote(schema.const);
  if (schema.enum) return schema.enum.map(quote).join(" or ");
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches?.every(({ properties }) => properties))
    return `a mapping with ${tagOf(schema) ?? "one"} of ${branches.map((one) => quote(one.properties?.[tagOf(schema) ?? ""]?.const)).join(" or ")}`;
  if (branches) return branches.map(describeSchema).join(" or ");
  const limit =
    schema.exclusiveMinimum !== undefined
      ? ` above ${schema.exclusiveMinimum}`
      : (schema.minimum ?? -1) >= 0
        ? ` from ${schema.minimum}`
        : "";
  switch (schema.type) {
    case "integer":
      return `a whole number${limit}`;
    case "number":
      return `a number${limit}`;
    case "string":
      return "text";
    case "boolean":
      return "true or false";
    case "array":
      return "a list";
    case "object":
      return schema.properties ? `a mapping with ${Object.keys(schema.properties).join(", ")}` : "a mapping";
    default:
      return "any value";
  }
}

function describeValue(value: unknown): string {
  if (value === null || value === undefined) return "it is empty";
  if (Array.isArray(value)) return `it is a list of ${value.length}`;
  if (typeof value === "object") return "it is a mapping";
  const shown = JSON.stringify(value);
  return `it is ${typeof value === "string" ? "the text" : typeof value === "number" ? "the number" : "the truth value"} ${shown.length > 80 ? `${shown.slice(0, 77)}…` : shown}`;
}

/** What to do about a value of the wrong type that is nearly right. */
function hint(value: unknown, schema: Schema): string | undefined {
  const options = [schema, ...(schema.anyOf ?? [])];
  const takes = (type: string) => options.some((one) => one.type === type && !one.enum);
  const words = options.flatMap((one) => one.enum ?? (one.const === undefined ? [] : [one.const])).map(String);
  if (typeof value !== "string") return takes("string") && typeof value === "number" ? "put it in quotes" : undefined;
  if (value.trim() !== "" && Number.isFinite(Number(value)) && (takes("integer") || takes("number")))
    return "remove the quotes";
  const guess = nearest(value, words);
  return guess === undefined ? undefined : `did you mean ${quote(guess)}?`;
}

function unescapePointer(segment: string): string {
  return segment.replaceAll("~1", "/").replaceAll("~0", "~");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function quote(value: unknown): string {
  return JSON.stringify(value) ?? "nothing";
}
