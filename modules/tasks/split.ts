/**
 * Split: tasks and their near-copy groups → train, validation, held-out.
 * Groups go whole to one side. Held-out and validation get exactly the asked number of tasks, spread over project ×
 * difficulty like the tasks themselves; train gets the rest. Depends on the seed, not on
 * the order of tasks or groups. Pure.
 */
import { type Issue, UserError } from "../../schemas/error.ts";
import type { SplitName, Task, TaskSet } from "../../schemas/task.ts";
import { type Random, random } from "./random.ts";

/** How many tasks the two measured splits must have. */
export interface SplitSizes {
  heldOut: number;
  validation: number;
}

type SplitTask = Pick<Task, "id" | "project" | "difficulty">;
type Group = { id: string; size: number; cells: string[] };
type Stratum = { cells: string[]; tasks: number };
/** A project, difficulty or stratum: how many tasks it should and does have in a split. */
type Cell = { share: number; got: number };

/** Joins project and difficulty in a stratum's name; no project or difficulty has it in its own. */
const BETWEEN = " × ";
/** Worth more than any closeness to shares. */
const COVERS = 1e6;

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
  let free = describeGroups(groups, byId);
  const chosen: Record<"held-out" | "validation", Set<string>> = { "held-out": new Set(), validation: new Set() };
  for (const [split, size] of [
    ["held-out", sizes.heldOut],
    ["validation", sizes.validation],
  ] as const) {
    const picked = pickGroups(free, strata, size, random(seed, "split", split));
    if (picked === null) {
      const reach = bestSubset(free, size).total;
      throw refuse(
        `the ${free.length} near-copy groups still free (the largest with ${Math.max(0, ...free.map((group) => group.size))} tasks) cannot make ${split} ${size} without tearing one apart`,
        `whole groups only; the nearest smaller size is ${reach}`,
        `ask for ${split} ${reach}, or generate more tasks`,
      );
    }
    chosen[split] = picked;
    free = free.filter((group) => !picked.has(group.id));
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

/** The cells a task counts in: its project, its difficulty, and both together. */
function cellsFor(task: SplitTask): string[] {
  return [`project ${task.project}`, `difficulty ${task.difficulty}`, `${task.project}${BETWEEN}${task.difficulty}`];
}

function stratify(tasks: readonly SplitTask[]): Stratum[] {
  const strata = new Map<string, Stratum>();
  for (const task of tasks) {
    const cells = cellsFor(task);
    const name = cells.join();
    const stratum = strata.get(name) ?? { cells, tasks: 0 };
    stratum.tasks += 1;
    strata.set(name, stratum);
  }
  return [...strata.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, stratum]) => stratum);
}

/** Groups by id; a group counts for the project and difficulty of its first task. */
function describeGroups(groups: TaskSet["groups"], byId: ReadonlyMap<string, SplitTask>): Group[] {
  return Object.entries(groups)
    .map(([id, members]) => {
      const first = byId.get([...members].sort()[0] as string);
      if (!first) throw new TypeError(`group ${id} names a task that is not in the set`);
      return { id, size: members.length, cells: cellsFor(first) };
    })
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

/**
 * Groups with exactly `size` tasks together, null if there are none. Taken one by one: first whatever covers a project
 * or difficulty that has nothing yet, then whatever brings projects, difficulties and strata nearest to their shares,
 * always so that the rest can still be filled exactly.
 */
function pickGroups(free: readonly Group[], strata: readonly Stratum[], size: number, rng: Random): Set<string> | null {
  if (bestSubset(free, size).total !== size) return null;
  const cells = cellsOf(strata, size);
  const picked = new Set<string>();
  let rest = rng.shuffle(free);
  for (let missing = size; missing > 0; ) {
    const ranked = rest
      .filter((group) => group.size <= missing)
      .map((group) => ({ group, worth: worthOf(group, cells) }))
      // Equal worth keeps the seeded order: sorting is stable.
      .sort((a, b) => b.worth - a.worth);
    const best = ranked.find(({ group }) => {
      const others = rest.filter((one) => one !== group);
      return bestSubset(others, missing - group.size).total === missing - group.size;
    });
    if (!best) return null;
    const { group } = best;
    picked.add(group.id);
    rest = rest.filter((one) => one !== group);
    missing -= group.size;
    for (const cell of group.cells) (cells.get(cell) as Cell).got += group.size;
  }
  return picked;
}

/** Every project, difficulty and stratum, with its share of `size`. */
function cellsOf(strata: readonly Stratum[], size: number): Map<string, Cell> {
  const all = strata.reduce((sum, stratum) => sum + stratum.tasks, 0);
  const cells = new Map<string, Cell>();
  for (const stratum of strata) {
    for (const name of stratum.cells) {
      const cell = cells.get(name) ?? { share: 0, got: 0 };
      cell.share += (size * stratum.tasks) / all;
      cells.set(name, cell);
    }
  }
  return cells;
}

/** How much, a task, a group lowers the squared distances from the shares; covering something empty comes first. */
function worthOf(group: Group, cells: ReadonlyMap<string, Cell>): number {
  let worth = 0;
  for (const name of group.cells) {
    const { share, got } = cells.get(name) as Cell;
    worth += 2 * (share - got) - group.size;
    if (got === 0 && !name.includes(BETWEEN)) worth += COVERS;
  }
  return worth;
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
