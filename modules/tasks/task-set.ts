/**
 * Task set: family, seed and sizes → tasks with near-copy groups and splits, and its digest.
 * The digest is what evaluations are comparable by, so everything is checked here, once. Reads the family's folder.
 */
import { readFile } from "node:fs/promises";
import { type Digest, digestJson } from "../../schemas/digest.ts";
import { fromZod, type Issue, UserError } from "../../schemas/error.ts";
import { TaskSet } from "../../schemas/task.ts";
import { familyEntry, loadFamily } from "./families.ts";
import { nearCopyGroups } from "./near-copies.ts";
import { splitTasks } from "./split.ts";

/** What a task set is made from. */
export interface TaskSetRequest {
  /** A family's name, e.g. "repo-chores". */
  family: string;
  /** Any whole number; the same one gives the same tasks and splits. */
  seed: number;
  /** All tasks, near copies among them. */
  tasks: number;
  /** Held-out tasks. */
  heldOut: number;
  /** Validation tasks, on which settings are tuned. */
  validation: number;
}

/** Generates, groups, splits and checks. UserErrors: `unknown-family`, `task-count`, `split-impossible`. */
export async function buildTaskSet(request: TaskSetRequest): Promise<TaskSet> {
  const entry = familyEntry(request.family);
  if (!Number.isInteger(request.tasks) || request.tasks < 1 || request.tasks > 100_000) {
    throw new UserError({
      code: "task-count",
      path: "tasks.count",
      asked: `${request.tasks} tasks were asked for`,
      found: "that is no number of tasks that can be made",
      allowed: "a whole number from 1 to 100,000",
      todo: "ask for a number in that range",
    });
  }
  const { family, digest } = await loadFamily(entry.dir);
  const tasks = entry.generate(request.seed, request.tasks);
  const groups = nearCopyGroups(tasks);
  const splits = splitTasks(tasks, groups, { heldOut: request.heldOut, validation: request.validation }, request.seed);
  return checkTaskSet({
    schemaVersion: 1,
    family: { name: family.name, version: family.version, digest },
    source: { generator: `${family.name}@${family.version}`, seed: request.seed, tasks: request.tasks },
    tasks,
    groups,
    splits,
  });
}

/** The digest that names a task set, in evaluations and at the environment service. */
export function taskSetDigest(taskSet: TaskSet): Digest {
  return digestJson(taskSet);
}

/** A task set from a file; a UserError `task-set-unreadable` or `task-set-inconsistent` says what is wrong with it. */
export async function readTaskSet(path: string): Promise<TaskSet> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw unreadable(path, `reading it failed: ${error.code ?? error.message}`);
  });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw unreadable(path, `it is not JSON: ${(error as Error).message}`);
  }
  return checkTaskSet(json, path);
}

/** Parses a task set and checks what the schema cannot: unique ids, one group and one split a task, whole groups. */
export function checkTaskSet(value: unknown, where = "task set"): TaskSet {
  const parsed = TaskSet.safeParse(value);
  if (!parsed.success) throw fromZod(parsed.error, where, "task-set-unreadable");
  const { tasks, groups, splits } = parsed.data;
  const issues: Issue[] = [];
  const complain = (field: string, found: string, allowed: string): void => {
    issues.push({
      code: "task-set-inconsistent",
      path: `${where}: ${field}`,
      asked: "a task set that agrees with itself was expected",
      found,
      allowed,
      todo: "make the task set again",
    });
  };
  const ids = new Set(tasks.map((task) => task.id));
  if (ids.size !== tasks.length) complain("tasks", `${tasks.length - ids.size} task ids are used twice`, "unique ids");
  for (const task of tasks) {
    if (task.family !== parsed.data.family.name)
      complain(`tasks.${task.id}`, `it is of the family ${task.family}`, parsed.data.family.name);
  }
  const splitOf = placement(Object.entries(splits), ids, (id, found) =>
    complain(`splits (${id})`, found, "one split a task"),
  );
  placement(Object.entries(groups), ids, (id, found) => complain(`groups (${id})`, found, "one group a task"));
  for (const [group, members] of Object.entries(groups)) {
    const over = new Set(members.map((id) => splitOf.get(id)));
    if (over.size > 1)
      complain(`groups.${group}`, `its tasks lie in ${[...over].sort().join(" and ")}`, "one split a group");
  }
  if (issues.length > 0) throw new UserError(issues);
  return parsed.data;
}

/** Where each id lies; complains about ids that lie nowhere, twice, or are no task's. */
function placement(
  parts: readonly (readonly [string, readonly string[]])[],
  ids: ReadonlySet<string>,
  complain: (id: string, found: string) => void,
): Map<string, string> {
  const place = new Map<string, string>();
  for (const [part, members] of parts) {
    for (const id of members) {
      if (!ids.has(id)) complain(id, `${part} names a task that is not in the set`);
      if (place.has(id)) complain(id, `it lies in ${place.get(id)} and in ${part}`);
      place.set(id, part);
    }
  }
  for (const id of ids) if (!place.has(id)) complain(id, "it lies in none");
  return place;
}

function unreadable(path: string, found: string): UserError {
  return new UserError({
    code: "task-set-unreadable",
    path,
    asked: "a task set was expected",
    found,
    allowed: "a file that `generate` wrote",
    todo: "check the path, or make the task set again",
  });
}
