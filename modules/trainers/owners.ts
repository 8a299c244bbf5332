/**
 * Who decides a key of a trainer's configuration: a table of patterns → owner. Answers two questions with it: which
 * overrides contradict what the plan says, and which field of the recipe a mistake in the configuration comes from. Pure.
 */
import type { Issue } from "../../schemas/error.ts";
import { isMapping, valueAt } from "./config-path.ts";

/** What decides a key. */
interface Owner {
  /** "rl.steps", "the layout". */
  readonly name: string;
  /** Why an override of it would make the plan untrue. */
  readonly why: string;
  /** What to set instead of a field, or what a part of the plan follows from; null where nothing may be set. */
  readonly set: string | null;
  /** The recipe's field that the value comes from; null where it is none. */
  readonly field: string | null;
}

/**
 * Patterns of keys and their owner, null for keys that are free to override; the first row that matches decides.
 * "*" stands for one name or a part of it; "**" at the end for a section, itself and all below it.
 */
export type Owners = readonly (readonly [owner: Owner | null, ...patterns: string[]])[];

/** A field of the recipe as owner. `set`: where more than that field has a say. */
export function field(path: string, set = path): Owner {
  return { name: path, why: "the plan counts with it", set, field: path };
}

/** A part of the plan, or a field of the target, as owner. */
export function part(name: string, why: string, set: string | null = null): Owner {
  return { name, why, set, field: null };
}

/** Where a mistake of a configuration comes from. */
export interface Origin {
  readonly stage: "sft" | "rl";
  /** Stage → overrides, fields: what the owners' fields are read from. */
  readonly recipe: unknown;
  readonly overrides: unknown;
}

/** One name of a path against one of a pattern: "*" stands for any letters. */
function nameMatches(pattern: string, name: string): boolean {
  const [head = "", ...rest] = pattern.split("*");
  const tail = rest.at(-1);
  if (tail === undefined) return pattern === name;
  return name.length >= head.length + tail.length && name.startsWith(head) && name.endsWith(tail);
}

function matches(pattern: string, key: string): boolean {
  const names = key.split(".");
  const parts = pattern.split(".");
  const open = parts.at(-1) === "**";
  if (open) parts.pop();
  if (open ? names.length < parts.length : names.length !== parts.length) return false;
  return parts.every((one, index) => nameMatches(one, names[index] ?? ""));
}

/** The owner of a key; null where it is free, undefined where the table does not know it. */
export function ownerOf(owners: Owners, key: string): Owner | null | undefined {
  return owners.find(([, ...patterns]) => patterns.some((pattern) => matches(pattern, key)))?.[0];
}

/** The owner of something below a section, for an override that puts one value in the place of all of it. */
function ownerBelow(owners: Owners, section: string): Owner | null {
  const depth = section.split(".").length;
  const holds = (pattern: string): boolean => {
    const parts = pattern.split(".").filter((one) => one !== "**");
    return parts.length > depth && matches(parts.slice(0, depth).join("."), section);
  };
  return owners.find(([owner, ...patterns]) => owner !== null && patterns.some(holds))?.[0] ?? null;
}

/** Every key that overrides set, with its value: the ends of the tree. */
function overriddenKeys(overrides: unknown, above = ""): (readonly [key: string, value: unknown])[] {
  if (!isMapping(overrides)) return [];
  return Object.entries(overrides).flatMap(([name, value]) => {
    const key = above === "" ? name : `${above}.${name}`;
    const isSection = isMapping(value) && Object.keys(value).length > 0;
    return isSection ? overriddenKeys(value, key) : [[key, value] as const];
  });
}

/** A value as a message has it; long ones are cut. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function todoOf({ name, set, field: own }: Owner): string {
  if (set === null) return "remove the override";
  return own === null ? `remove the override; ${name} follows from ${set}` : `remove the override and set ${set}`;
}

/** An issue for each override of a key that something else decides. `code` is the trainer's. */
export function ownedOverrides(owners: Owners, { stage, overrides }: Origin, code: string): Issue[] {
  return overriddenKeys(overrides).flatMap(([key, value]): Issue[] => {
    const own = ownerOf(owners, key) ?? null;
    const owner = own ?? (isMapping(value) ? null : ownerBelow(owners, key));
    if (owner === null) return [];
    return [
      {
        code,
        path: `${stage}.overrides.${key}`,
        asked: `${key} is overridden with ${shown(value)}`,
        found:
          own === null
            ? `that takes the place of a whole section, parts of which ${owner.name} decides: ${owner.why}`
            : `${owner.name} decides it: ${owner.why}`,
        allowed: "overrides of keys that neither the recipe, the target nor the plan decides",
        todo: todoOf(owner),
      },
    ];
  });
}

/**
 * A configuration's mistakes together with its overrides of owned keys, one an override: a key that is not there, or must
 * not be named, has no owner to speak of, and what a value should be matters no more where it has one.
 */
export function joined(
  mistakes: readonly Issue[],
  owned: readonly Issue[],
  codes: { readonly unknown: readonly string[]; readonly value: string },
): Issue[] {
  const unknown = mistakes.filter(({ code }) => codes.unknown.includes(code));
  const kept = owned.filter(({ path }) => !unknown.some((one) => path === one.path || path.startsWith(`${one.path}.`)));
  const decided = new Set(kept.map(({ path }) => path));
  return [...mistakes.filter(({ code, path }) => code !== codes.value || !decided.has(path)), ...kept];
}

/** The part of a key that overrides write: all of it, or the section whose place they take; null where they leave it alone. */
function writtenPart(overrides: unknown, key: string): string | null {
  let value: unknown = overrides;
  const names: string[] = [];
  for (const name of key.split(".")) {
    // One value in the place of the section that has the key.
    if (!isMapping(value)) return names.length > 0 ? names.join(".") : null;
    if (!Object.hasOwn(value, name)) return null;
    value = value[name];
    names.push(name);
  }
  return key;
}

/** The recipe's path of a configuration's key: the override that wrote it, the field that owns it, else the stage. */
export function pathOf(owners: Owners, key: string, { stage, recipe, overrides }: Origin): string {
  const written = writtenPart(overrides, key);
  if (written !== null) return `${stage}.overrides.${written}`;
  const owner = ownerOf(owners, key);
  return owner?.field && valueAt(recipe, owner.field) !== undefined ? owner.field : stage;
}
