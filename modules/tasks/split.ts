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
      const largest = free.reduce((most, group) => Math.max(most, group.size), 0);
      const reach = nearestTotal(countSizes(free), size);
      throw refuse(
        `the ${free.length} near-copy groups still free (the largest with ${largest} tasks) cannot make ${split} ${size} without tearing one apart`,
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
    for (const member of members) splits[split].push(member);
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

/** Groups that are alike in what they count for: worth the same at every step. In seeded order, the next one last. */
type Pile = { size: number; cells: Cell[]; spread: readonly boolean[]; waiting: { id: string; rank: number }[] };

/**
 * Groups with exactly `size` tasks together, null if there are none. Taken one by one: first whatever covers a project
 * or difficulty that has nothing yet, then whatever brings projects, difficulties and strata nearest to their shares,
 * always so that the rest can still be filled exactly. Equal worth keeps the seeded order. Groups alike are looked at
 * once a step, so that 100,000 tasks take no longer than reading them.
 */
function pickGroups(free: readonly Group[], strata: readonly Stratum[], size: number, rng: Random): Set<string> | null {
  const sizes = countSizes(free);
  if (!canMake(sizes, size)) return null;
  const piles = pile(rng.shuffle(free), cellsOf(strata, size));
  const picked = new Set<string>();
  for (let missing = size; missing > 0; ) {
    const fits = new Map<number, boolean>();
    const leavesTheRest = (taken: number): boolean => {
      const known = fits.get(taken);
      if (known !== undefined) return known;
      take(sizes, taken, 1);
      const possible = canMake(sizes, missing - taken);
      take(sizes, taken, -1);
      fits.set(taken, possible);
      return possible;
    };
    let best: { pile: Pile; worth: number; rank: number } | null = null;
    for (const one of piles) {
      const next = one.waiting.at(-1);
      if (next === undefined || one.size > missing) continue;
      const worth = worthOf(one);
      if (best && (worth < best.worth || (worth === best.worth && next.rank > best.rank))) continue;
      if (leavesTheRest(one.size)) best = { pile: one, worth, rank: next.rank };
    }
    const group = best?.pile.waiting.pop();
    if (!best || !group) return null;
    picked.add(group.id);
    take(sizes, best.pile.size, 1);
    missing -= best.pile.size;
    for (const cell of best.pile.cells) cell.got += best.pile.size;
  }
  return picked;
}

function pile(shuffled: readonly Group[], cells: ReadonlyMap<string, Cell>): Pile[] {
  const piles = new Map<string, Pile>();
  shuffled.forEach(({ id, size, cells: names }, rank) => {
    const key = JSON.stringify([size, ...names]);
    const own = piles.get(key) ?? {
      size,
      cells: names.map((name) => cells.get(name) as Cell),
      spread: names.map((name) => !name.includes(BETWEEN)),
      waiting: [],
    };
    piles.set(key, own);
    own.waiting.push({ id, rank });
  });
  for (const { waiting } of piles.values()) waiting.reverse();
  return [...piles.values()];
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

/** How much, a task, such a group lowers the squared distances from the shares; covering something empty comes first. */
function worthOf({ size, cells, spread }: Pile): number {
  let worth = 0;
  cells.forEach(({ share, got }, index) => {
    worth += 2 * (share - got) - size;
    if (got === 0 && spread[index]) worth += COVERS;
  });
  return worth;
}

/** How many groups there are of each size. */
function countSizes(groups: readonly Group[]): Map<number, number> {
  const sizes = new Map<number, number>();
  for (const { size } of groups) sizes.set(size, (sizes.get(size) ?? 0) + 1);
  return sizes;
}

function take(sizes: Map<number, number>, size: number, groups: number): void {
  sizes.set(size, (sizes.get(size) ?? 0) - groups);
}

/** The most tasks that whole groups of these sizes have together without passing `target`. */
function nearestTotal(sizes: ReadonlyMap<number, number>, target: number): number {
  let total = target;
  while (!canMake(sizes, total)) total -= 1;
  return total;
}

/**
 * Whether whole groups of these sizes have exactly `target` tasks together. Groups are taken greedily until the target
 * is passed: where whole groups can make it, they can within 2 × the largest size + 1 groups of that (Eisenbrand and
 * Weismantel, Proximity Results and Faster Algorithms for Integer Programming Using the Steinitz Lemma, one
 * constraint), so that only this neighbourhood is searched and many groups cost no more than few.
 */
function canMake(sizes: ReadonlyMap<number, number>, target: number): boolean {
  const ascending = [...sizes].filter(([, groups]) => groups > 0).sort(([a], [b]) => a - b);
  // Every total up to `reach` can be made while the next size is at most one more: nearly always all there is to see.
  let reach = 0;
  for (const [size, groups] of ascending) {
    if (size > reach + 1) break;
    reach += size * groups;
  }
  if (reach >= target) return true;
  const near = 2 * (ascending.at(-1)?.[0] ?? 0) + 1;
  let greedy = target;
  let rest = target;
  const left = ascending.map(([size, groups]) => {
    const taken = Math.min(groups, Math.floor(greedy / size));
    greedy -= taken * size;
    const surely = Math.max(0, taken - near);
    rest -= surely * size;
    return { size, groups: Math.min(groups, taken + near + 1) - surely };
  });
  // used[t]: the fewest groups of the present size that a total of t needs; undefined where it cannot be made.
  let used: (number | undefined)[] = Array.from({ length: rest + 1 }, (_, total) => (total === 0 ? 0 : undefined));
  for (const { size, groups } of left) {
    used = used.map((count) => (count === undefined ? undefined : 0));
    for (let total = size; total <= rest; total += 1) {
      const before = used[total - size];
      if (used[total] === undefined && before !== undefined && before < groups) used[total] = before + 1;
    }
  }
  return used[rest] !== undefined;
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
