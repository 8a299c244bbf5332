/**
 * Dataset: an index (schemas/dataset.ts) and what a recipe wants of it → what a plan says of its tasks.
 * Split first, then leave out what does not fit: a longer context only ever adds tasks, it never moves one from train
 * to held-out. Work grows with the number of tasks, hardly faster. Pure.
 */
import type { DatasetIndex, DatasetTask } from "../../schemas/dataset.ts";
import { digestJson } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { TaskSetSummary, TooLongTask } from "../../schemas/plan.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { checkDataset, datasetDigest } from "./dataset-index.ts";
import { type SplitSizes, splitTasks } from "./split.ts";

/** Near-copy groups of an index: group → ids. */
function groupsOf(index: DatasetIndex): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const { group, id } of index.tasks) {
    const members = groups.get(group);
    if (members) members.push(id);
    else groups.set(group, [id]);
  }
  return groups;
}

/** Who is in which split; whole near-copy groups, spread over project and difficulty. UserError: `split-impossible`. */
export function splitDataset(index: DatasetIndex, sizes: SplitSizes, seed: number): TaskSet["splits"] {
  return splitTasks(index.tasks, Object.fromEntries(groupsOf(index)), sizes, seed);
}

/** What a recipe wants of an index. */
export interface DatasetUse {
  readonly split: SplitSizes;
  /** Seed of the split. */
  readonly seed: number;
  readonly contextTokens: number;
  /** Pass-rate band of RL's tasks; `of` is a key of the index's pass rates, null where the run measures them. */
  readonly band: { readonly of: string | null; readonly min: number; readonly max: number };
  /** The expert, where a model is one: held-out tasks that it never solved are left out. */
  readonly expertModel: string | null;
  /** Key of pass rates by which tasks that were solved at every attempt are left out of RL; null for none. */
  readonly dropAlwaysSolvedBy?: string | null;
}

/** An index's tasks as a recipe uses them. */
export interface UsedDataset {
  readonly train: readonly DatasetTask[];
  readonly validation: readonly DatasetTask[];
  readonly heldOut: readonly DatasetTask[];
  /** Ids of training tasks in the band; null where the index does not tell. */
  readonly rlTasks: readonly string[] | null;
  /** Left out because their shortest known solution is longer than the context, the shortest first. */
  readonly tooLong: readonly TooLongTask[];
  /** Held-out tasks that fit and that the expert never solved; null where its pass rates are not known. */
  readonly heldOutUnsolved: readonly string[] | null;
}

/**
 * Splits an index and leaves out what cannot be used. UserErrors: `split-impossible`, `pass-rate-model-unknown`, and
 * `no-task-fits` or `no-rl-tasks` where nothing is left to measure or train on.
 */
export function useDataset(index: DatasetIndex, use: DatasetUse): UsedDataset {
  const issues = checkDataset(index, { passRates: neededRates(index, use) });
  if (issues.length > 0) throw new UserError(issues);
  const byId = new Map(index.tasks.map((task) => [task.id, task]));
  const tooLong: TooLongTask[] = [];
  const fitting = { train: [], validation: [], "held-out": [] } as Record<keyof TaskSet["splits"], DatasetTask[]>;
  const splits = splitDataset(index, use.split, use.seed);
  for (const split of ["train", "validation", "held-out"] as const) {
    for (const id of splits[split]) {
      const task = byId.get(id) as DatasetTask;
      const tokens = task.shortestSolutionTokens;
      if (tokens !== null && tokens > use.contextTokens) tooLong.push({ id, split, shortestSolutionTokens: tokens });
      else fitting[split].push(task);
    }
  }
  tooLong.sort((a, b) => a.shortestSolutionTokens - b.shortestSolutionTokens || (a.id < b.id ? -1 : 1));

  const { expertModel } = use;
  const expertKnown = expertModel !== null && hasRates(index, expertModel);
  const solved = (task: DatasetTask): boolean => !expertKnown || (rateOf(task, expertModel)?.passed ?? 0) > 0;
  const used = {
    train: fitting.train,
    validation: fitting.validation,
    heldOut: fitting["held-out"].filter(solved),
    rlTasks: rlTasksOf(index, fitting.train, use),
    tooLong,
    heldOutUnsolved: expertKnown ? fitting["held-out"].filter((task) => !solved(task)).map(({ id }) => id) : null,
  };
  const nothing = nothingLeft(used, use);
  if (nothing.length > 0) throw new UserError(nothing);
  return used;
}

/** What a plan says of an index's tasks. UserErrors as `useDataset`. */
export function summariseDataset(index: DatasetIndex, use: DatasetUse): TaskSetSummary {
  const used = useDataset(index, use);
  return {
    digest: datasetDigest(index),
    // Tools and graders lie elsewhere: all a plan knows of them is the family's name. Evaluations record what they met.
    familyDigest: digestJson({ family: index.family }),
    standIn: index.standIn,
    tasks: index.tasks.length,
    groups: groupsOf(index).size,
    train: used.train.length,
    validation: used.validation.length,
    heldOut: used.heldOut.length,
    heldOutUnsolved: used.heldOutUnsolved?.length ?? null,
    rlTasks: used.rlTasks?.length ?? null,
    tooLong: [...used.tooLong],
    solutionTokens: solutionTokens([...used.train, ...used.validation, ...used.heldOut]),
  };
}

/** Keys the recipe names that must be in the index: what the run itself measures need not. */
function neededRates(index: DatasetIndex, { band, expertModel }: DatasetUse): { path: string; model: string }[] {
  if (band.of === null || (band.of === expertModel && !hasRates(index, expertModel))) return [];
  return [{ path: "rl.tasks.passRateBand.of", model: band.of }];
}

function hasRates(index: DatasetIndex, model: string): boolean {
  return index.tasks.some((task) => rateOf(task, model) !== undefined);
}

/** A model may be called like a member every object has. */
function rateOf({ passRates }: DatasetTask, model: string): { passed: number; attempts: number } | undefined {
  return Object.hasOwn(passRates, model) ? passRates[model] : undefined;
}

function rlTasksOf(
  index: DatasetIndex,
  train: readonly DatasetTask[],
  { band: { of, min, max }, dropAlwaysSolvedBy = null }: DatasetUse,
): string[] | null {
  if (of === null || !hasRates(index, of)) return null;
  if (dropAlwaysSolvedBy !== null && !hasRates(index, dropAlwaysSolvedBy)) return null;
  return train
    .filter((task) => {
      const rate = rateOf(task, of);
      const first = dropAlwaysSolvedBy === null ? undefined : rateOf(task, dropAlwaysSolvedBy);
      const alwaysSolved = first !== undefined && first.passed === first.attempts;
      return rate !== undefined && !alwaysSolved && inBand(rate.passed / rate.attempts, min, max);
    })
    .map(({ id }) => id);
}

function inBand(rate: number, min: number, max: number): boolean {
  return rate >= min && rate <= max;
}

function nothingLeft(used: UsedDataset, { contextTokens, split, band }: DatasetUse): Issue[] {
  const issues: Issue[] = [];
  for (const [name, tasks] of [
    ["train", used.train],
    ["held-out", used.heldOut],
  ] as const) {
    if (tasks.length > 0 || (name === "held-out" && split.heldOut === 0)) continue;
    const own = used.tooLong.filter((task) => task.split === name);
    const unsolved = name === "held-out" ? (used.heldOutUnsolved?.length ?? 0) : 0;
    const shortest = own[0]?.shortestSolutionTokens;
    issues.push({
      code: "no-task-fits",
      path: "context",
      asked: `${name} tasks in a context of ${contextTokens} tokens`,
      found: `none is left: ${own.length} are longer, ${unsolved} were never solved by the expert`,
      allowed: shortest === undefined ? "tasks the expert solved at least once" : `at least ${shortest} tokens`,
      todo: shortest === undefined ? "hold out more tasks" : "raise the context, or use tasks that are shorter",
    });
  }
  if (used.rlTasks?.length === 0)
    issues.push({
      code: "no-rl-tasks",
      path: "rl.tasks.passRateBand",
      asked: `training tasks with a pass rate of ${band.of} from ${band.min} to ${band.max}`,
      found: `none of the ${used.train.length} training tasks that fit has one`,
      allowed: "a band in which at least one task lies",
      todo: "widen the band, or name another model's pass rate",
    });
  return issues;
}

/** Lengths of the shortest known solutions, by nearest rank. */
function solutionTokens(tasks: readonly DatasetTask[]): TaskSetSummary["solutionTokens"] {
  const known = tasks.flatMap(({ shortestSolutionTokens: tokens }) => (tokens === null ? [] : [tokens]));
  known.sort((a, b) => a - b);
  const rank = (share: number): number => known[Math.max(0, Math.ceil(share * known.length) - 1)] as number;
  return known.length === 0 ? null : { known: known.length, median: rank(0.5), p90: rank(0.9), max: rank(1) };
}
