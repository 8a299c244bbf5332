/**
 * Reviewed plan: a plan.json that somebody has read, and the plan that would be run now → the same, or a UserError
 * that names what differs. Reads the file it is given.
 */
import { readFile } from "node:fs/promises";
import { digestJson, shortDigest } from "../../schemas/digest.ts";
import { fromZod, type Issue, UserError } from "../../schemas/error.ts";
import { Plan } from "../../schemas/plan.ts";

/** Differences that the message names; the digest says whether there are any. */
const NAMED = 6;
/** A value in a message is cut at this many characters. */
const SHOWN = 40;

/** Reads a plan.json; UserError `plan-file-invalid` where it is none, or was edited by hand. */
export async function readReviewedPlan(file: string): Promise<Plan> {
  const invalid = (found: string) =>
    new UserError({
      code: "plan-file-invalid",
      path: file,
      asked: "this file is read as the plan that was reviewed",
      found,
      allowed: "plan.json exactly as `uplift plan --out` wrote it with this version",
      todo: "make it again with uplift plan RECIPE --out FOLDER, and review that",
    });
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw invalid(error.code === "ENOENT" ? "there is no such file" : `it cannot be read (${error.code})`);
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid("it is not JSON");
  }
  const parsed = Plan.safeParse(value);
  if (!parsed.success) throw fromZod(parsed.error, file, "plan-file-invalid");
  const { digest, ...body } = parsed.data;
  if (digestJson(body) !== digest) throw invalid("its content has another digest than it names: it was edited");
  return parsed.data;
}

/** Throws UserError `plan-differs` unless the recipe, planned now, is byte for byte the plan that was reviewed. */
export function requireReviewed(planned: Plan, reviewed: Plan, file: string): void {
  if (planned.digest === reviewed.digest) return;
  const all = differences(reviewed, planned);
  const more = all.length > NAMED ? ` and ${all.length - NAMED} more` : "";
  const issue: Issue = {
    code: "plan-differs",
    path: file,
    asked: `the plan ${shortDigest(reviewed.digest)}, which was reviewed, is trained`,
    found: `${planned.name} is now the plan ${shortDigest(planned.digest)}; what differs: ${all.slice(0, NAMED).join("; ")}${more}`,
    allowed: "a recipe, target, tasks and base model that give the same plan",
    todo: "go back to what was reviewed (also --target, --server and --validate), or review the difference (uplift diff) and write the plan again (uplift plan --out)",
  };
  throw new UserError(issue);
}

/** Where two plans differ, "recipe.rl.steps 20 → 30", in order of path; the digest over everything is left out. */
export function differences(before: Plan, after: Plan): string[] {
  const { digest: _before, ...old } = before;
  const { digest: _after, ...now } = after;
  return leafDifferences(old, now, SHOWN);
}

/** Where two values of JSON differ, each value cut at `shown` characters, in order of path. */
export function leafDifferences(before: unknown, after: unknown, shown: number): string[] {
  return [...walk(before, after, "", shown)];
}

function* walk(before: unknown, after: unknown, path: string, length: number): Generator<string> {
  const [old, now] = [membersOf(before), membersOf(after)];
  if (old === null || now === null) {
    if (JSON.stringify(before) !== JSON.stringify(after))
      yield `${path} ${shown(before, length)} → ${shown(after, length)}`;
    return;
  }
  for (const name of [...new Set([...old.keys(), ...now.keys()])].sort())
    yield* walk(old.get(name), now.get(name), path === "" ? name : `${path}.${name}`, length);
}

/** The members of an object; of a list, by id where its items have one: a job more shifts no other. Null for values. */
function membersOf(value: unknown): Map<string, unknown> | null {
  if (Array.isArray(value)) return new Map(value.map((item, index) => [idOf(item) ?? String(index), item]));
  if (typeof value !== "object" || value === null) return null;
  return new Map(Object.entries(value).filter(([, member]) => member !== undefined));
}

function idOf(item: unknown): string | null {
  const id = typeof item === "object" && item !== null && "id" in item ? item.id : null;
  return typeof id === "string" ? id : null;
}

function shown(value: unknown, length: number): string {
  if (value === undefined) return "(not there)";
  const text = JSON.stringify(value);
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
