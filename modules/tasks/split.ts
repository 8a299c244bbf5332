/**
 * Split: tasks and their near-copy groups → train, validation, held-out.
 * Groups go whole to one side. Held-out and validation get exactly the asked number of tasks, spread over project ×
 * difficulty like the tasks themselves; train gets the rest. Depends on the seed and the tasks' content, not on their
 * order. Pure.
 */
import { type Issue, UserError } from "../../schemas/error.ts";
import type { SplitName, Task, TaskSet } from "../../schemas/task.ts";
import { random } from "./random.ts";

/** How many tasks the two measured splits must have. */
export interface SplitSizes {
  heldOut: number;
  validation: number;
}

type SplitTask = Pick<Task, "id" | "project" | "difficulty">;
type Group = { id: string; size: number; stratum: string };
type Stratum = { name: string; project: string; difficulty: number; tasks: number };

/**
 * Who is in which split, ids sorted. Throws a UserError `split-impossible` where whole groups cannot make the asked
 * sizes, nothing is left to train on, or a project or difficulty that could be measured would go unmeasured.
 */
export function splitTasks(
  tasks: readonly SplitTask[],
  groups: TaskSet["groups"],
  sizes: SplitSizes,
  seed: number,
): TaskSet["splits"] {
  const asked = `held-out ${sizes.heldOut} and validation ${sizes.validation} of ${tasks.length} tasks`;
  const refuse = (found: string, allowed: string, todo: string): UserError =>
    new UserError(impossible(asked, found, allowed, todo));
  for (const [path, size] of Object.entries(sizes)) {
    if (!Number.isInteger(size) || size < 0) {
      throw refuse(`${path} is ${size}`, "whole numbers of tasks, 0 or more", "ask for a whole number");
    }
  }
  const measured = sizes.heldOut + sizes.validation;
  if (measured >= tasks.length) {
    throw refuse(
      "no task is left to train on",
      `together at most ${Math.max(0, tasks.length - 1)}`,
      "generate more tasks or ask for fewer",
    );
  }
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const strata = stratify(tasks);
  let free = describeGroups(groups, byId, seed);
  const chosen: Record<"held-out" | "validation", Set<string>> = { "held-out": new Set(), validation: new Set() };
  for (const [split, size] of [
    ["held-out", sizes.heldOut],
    ["validation", sizes.validation],
  ] as const) {
    const picked = pickGroups(free, strata, size, seed, split);
    if (picked === null) {
      const reach = reachableBelow(free, size);
      throw refuse(
        `the ${free.length} near-copy groups still free (the largest with ${Math.max(0, ...free.map((group) => group.size))} tasks) cannot make ${split} ${size} without tearing one apart`,
        `whole groups only; the nearest smaller size is ${reach}`,
        `ask for ${split} ${reach}, or generate more tasks`,
      );
    }
    chosen[split] = picked;
    free = free.filter((group) => !picked.has(group.id));
  }
  if (free.length === 0) {
    throw refuse(
      "no near-copy group is left to train on",
      "at least one group for training",
      "generate more tasks or ask for fewer",
    );
  }
  const splits: TaskSet["splits"] = { train: [], validation: [], "held-out": [] };
  for (const [id, members] of Object.entries(groups)) {
    const split: SplitName = chosen["held-out"].has(id)
      ? "held-out"
      : chosen.validation.has(id)
        ? "validation"
        : "train";
    splits[split].push(...members);
  }
  for (const ids of Object.values(splits)) ids.sort();
  requireSpread(
    splits["held-out"].map((id) => byId.get(id) as SplitTask),
    tasks,
    sizes.heldOut,
    refuse,
  );
  return splits;
}

function impossible(asked: string, found: string, allowed: string, todo: string): Issue {
  return { code: "split-impossible", path: "tasks.split", asked, found, allowed, todo };
}

const stratumOf = (task: SplitTask): string => `${task.project} / ${task.difficulty}`;

function stratify(tasks: readonly SplitTask[]): Stratum[] {
  const strata = new Map<string, Stratum>();
  for (const task of tasks) {
    const name = stratumOf(task);
    const stratum = strata.get(name) ?? { name, project: task.project, difficulty: task.difficulty, tasks: 0 };
    stratum.tasks += 1;
    strata.set(name, stratum);
  }
  return [...strata.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Groups in a seeded order that depends on ids only; a group counts for the stratum of its first task. */
function describeGroups(groups: TaskSet["groups"], byId: ReadonlyMap<string, SplitTask>, seed: number): Group[] {
  const described = Object.entries(groups).map(([id, members]) => {
    const first = byId.get([...members].sort()[0] as string);
    if (!first) throw new TypeError(`group ${id} names a task that is not in the set`);
    return { id, size: members.length, stratum: stratumOf(first) };
  });
  return random(seed, "split", "groups").shuffle(described.sort((a, b) => (a.id < b.id ? -1 : 1)));
}

/** Groups with `size` tasks together, as near to every stratum's share as whole groups allow; null if impossible. */
function pickGroups(
  free: readonly Group[],
  strata: readonly Stratum[],
  size: number,
  seed: number,
  split: SplitName,
): Set<string> | null {
  const picked = new Set<string>();
  let missing = size;
  for (const [stratum, quota] of quotas(free, strata, size, seed, split)) {
    const own = free.filter((group) => group.stratum === stratum);
    const { ids, total } = bestSubset(own, quota);
    for (const id of ids) picked.add(id);
    missing -= total;
  }
  if (missing === 0) return picked;
  // Some stratum's groups did not fit its share; others make up for it.
  const rest = bestSubset(
    free.filter((group) => !picked.has(group.id)),
    missing,
  );
  if (rest.total === missing) return new Set([...picked, ...rest.ids]);
  const any = bestSubset(free, size);
  return any.total === size ? new Set(any.ids) : null;
}

/** Each stratum's share of `size`: proportional, remainders dealt so that projects and difficulties stay even. */
function quotas(
  free: readonly Group[],
  strata: readonly Stratum[],
  size: number,
  seed: number,
  split: SplitName,
): Map<string, number> {
  const all = strata.reduce((sum, stratum) => sum + stratum.tasks, 0);
  const room = new Map<string, number>();
  for (const group of free) room.set(group.stratum, (room.get(group.stratum) ?? 0) + group.size);
  const quota = new Map(
    strata.map(({ name, tasks }) => [name, Math.min(Math.floor((size * tasks) / all), room.get(name) ?? 0)]),
  );
  const shortfall = (of: (stratum: Stratum) => boolean): number => {
    const members = strata.filter(of);
    const ideal = members.reduce((sum, { tasks }) => sum + (size * tasks) / all, 0);
    return ideal - members.reduce((sum, { name }) => sum + (quota.get(name) ?? 0), 0);
  };
  const order = random(seed, "split", split).shuffle(strata);
  for (let dealt = [...quota.values()].reduce((sum, one) => sum + one, 0); dealt < size; dealt += 1) {
    const open = order.filter(({ name }) => (quota.get(name) ?? 0) < (room.get(name) ?? 0));
    const needs = open.map((stratum) => ({
      stratum,
      need:
        shortfall((one) => one.project === stratum.project) +
        shortfall((one) => one.difficulty === stratum.difficulty) +
        shortfall((one) => one === stratum),
    }));
    const neediest = needs.reduce<(typeof needs)[number] | null>(
      (best, one) => (best && best.need >= one.need ? best : one),
      null,
    );
    if (!neediest) break;
    quota.set(neediest.stratum.name, (quota.get(neediest.stratum.name) ?? 0) + 1);
  }
  return quota;
}

/** Whole groups that come nearest to `target` tasks without passing it; earlier groups are preferred. */
function bestSubset(groups: readonly Group[], target: number): { ids: string[]; total: number } {
  // way[t] is the last group added to reach t tasks, and the total before it.
  const way: ({ group: Group; before: number } | null | undefined)[] = [null];
  for (const group of groups) {
    for (let total = target; total >= group.size; total -= 1) {
      if (way[total] === undefined && way[total - group.size] !== undefined)
        way[total] = { group, before: total - group.size };
    }
    if (way[target] !== undefined) break;
  }
  let total = target;
  while (way[total] === undefined) total -= 1;
  const ids: string[] = [];
  for (let step = way[total]; step; step = way[step.before]) ids.push(step.group.id);
  return { ids, total };
}

function reachableBelow(groups: readonly Group[], size: number): number {
  return bestSubset(groups, size).total;
}

/** Once there is a held-out task for each project (or difficulty), none may go unmeasured. */
function requireSpread(
  heldOut: readonly SplitTask[],
  tasks: readonly SplitTask[],
  size: number,
  refuse: (found: string, allowed: string, todo: string) => UserError,
): void {
  for (const [word, valueIn] of [
    ["project", (task: SplitTask) => task.project],
    ["difficulty", (task: SplitTask) => String(task.difficulty)],
  ] as const) {
    const all = new Set(tasks.map(valueIn));
    const covered = new Set(heldOut.map(valueIn));
    const uncovered = [...all].filter((value) => !covered.has(value)).sort();
    if (uncovered.length > 0 && size >= all.size) {
      throw refuse(
        `the near-copy groups of ${word} ${uncovered.join(", ")} are too few or too large to give one to held-out`,
        `at least one held-out task for each ${word}`,
        `generate more tasks, or ask for more held-out tasks`,
      );
    }
  }
}
