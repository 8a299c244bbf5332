/**
 * Two JSON values → every leaf that differs, with its path. Pure. This is what a review is checked against: a change
 * that no sentence tells is listed as it is, so nothing is hidden.
 */
import { canonicalJson } from "../../schemas/digest.ts";

/** One leaf that differs; `undefined` where a side has no such leaf. */
export interface LeafChange {
  readonly segments: readonly string[];
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** Lists whose members have a name of their own: an inserted job does not make every later one look changed. */
const MEMBER_NAMES: Readonly<Record<string, string>> = {
  jobs: "id",
  layouts: "stage",
  stages: "stage",
  terms: "name",
  tooLong: "id",
  ports: "name",
};

type Members = ReadonlyMap<string, unknown>;

/** Every leaf that differs, in the order of the first value's fields, then of the second's. */
export function leafChanges(before: unknown, after: unknown): LeafChange[] {
  return compare([], before, after);
}

/** Whether a path matches a pattern: "*" is one segment, "**" at the end is any rest, none included. */
export function matchesPath(segments: readonly string[], pattern: string): boolean {
  const wanted = pattern.split(".");
  for (const [index, part] of wanted.entries()) {
    if (part === "**") return true;
    const segment = segments[index];
    if (segment === undefined || (part !== "*" && part !== segment)) return false;
  }
  return wanted.length === segments.length;
}

/** Whether a leaf is at a path or below it. */
export function isBelow(segments: readonly string[], path: string): boolean {
  return `${segments.join(".")}.`.startsWith(`${path}.`);
}

/** The value at a path, lists entered by their members' names; undefined where there is none. */
export function valueAt(value: unknown, path: string): unknown {
  let here = value;
  let name = "";
  for (const segment of path.split(".")) {
    here = membersOf(here, name)?.get(segment);
    name = segment;
  }
  return here;
}

function compare(segments: readonly string[], before: unknown, after: unknown): LeafChange[] {
  const name = segments.at(-1) ?? "";
  const [old, now] = [membersOf(before, name), membersOf(after, name)];
  const sameKind = old !== null && now !== null && Array.isArray(before) === Array.isArray(after);
  const leaf = { segments, path: segments.join("."), before, after };
  if (!sameKind) {
    // A side that lacks a whole group: the other side's leaves, one by one.
    if ((before ?? null) === null && now !== null && now.size > 0) return below(segments, new Map(), now);
    if ((after ?? null) === null && old !== null && old.size > 0) return below(segments, old, new Map());
    return equal(before, after) ? [] : [leaf];
  }
  // Named differently on the two sides (a list that lost its names): as one leaf.
  if (Array.isArray(before) && isNamed(before, name) !== isNamed(after as unknown[], name))
    return equal(before, after) ? [] : [leaf];
  const changes = below(segments, old, now);
  if ((old.size === 0) !== (now.size === 0) || !Array.isArray(before)) return changes;
  const common = (one: Members, other: Members) => [...one.keys()].filter((key) => other.has(key));
  const [orderBefore, orderAfter] = [common(old, now), common(now, old)];
  if (equal(orderBefore, orderAfter)) return changes;
  return [...changes, leafOf([...segments, "(order)"], orderBefore, orderAfter)];
}

function below(segments: readonly string[], old: Members, now: Members): LeafChange[] {
  const keys = [...new Set([...old.keys(), ...now.keys()])];
  return keys.flatMap((key) => compare([...segments, key], old.get(key), now.get(key)));
}

function leafOf(segments: readonly string[], before: unknown, after: unknown): LeafChange {
  return { segments, path: segments.join("."), before, after };
}

/** The members of an object or of a list of objects; null for a leaf: a scalar, or a list of scalars. */
function membersOf(value: unknown, name: string): Members | null {
  if (typeof value !== "object" || value === null) return null;
  if (!Array.isArray(value)) return new Map(Object.entries(value).filter(([, member]) => member !== undefined));
  if (value.length > 0 && !value.some((member) => typeof member === "object" && member !== null)) return null;
  const key = MEMBER_NAMES[name];
  if (key !== undefined && isNamed(value, name))
    return new Map(value.map((member: Record<string, unknown>) => [String(member[key]), member]));
  return new Map(value.map((member, index) => [String(index), member]));
}

function isNamed(list: readonly unknown[], name: string): boolean {
  const key = MEMBER_NAMES[name];
  if (key === undefined) return false;
  const names = list.map((member) =>
    typeof member === "object" && member !== null ? (member as Record<string, unknown>)[key] : undefined,
  );
  return names.every((one) => typeof one === "string") && new Set(names).size === names.length;
}

function equal(before: unknown, after: unknown): boolean {
  if (before === undefined || after === undefined) return before === after;
  return canonicalJson(before) === canonicalJson(after);
}
