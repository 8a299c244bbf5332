/**
 * Statistics: attempts at tasks → scores and gains with 95 % intervals, clustered by task and paired. Pure.
 *
 * Attempts at one task are alike, so the task is the unit that varies: an attempt-wise standard error would be about
 * half of the real one (Miller, "Adding Error Bars to Evals", arXiv 2411.00640; measured 1.7 to 2.0 times on a public
 * board). Hence: mean per task, then mean, deviation and Student t over tasks.
 */
import tQuantile from "@stdlib/stats-base-dists-t-quantile";
import type { AttemptResult } from "../../schemas/evaluation.ts";
import type { Estimate, PairedGain } from "../../schemas/leaderboard.ts";

/** How attempts are counted: as the preset says, without those the infrastructure broke, or with a strict turn limit. */
export type Variant = "as-preset" | "without-infrastructure" | "turn-limit-as-failure";

/** Passed and counted attempts of each task; `leftOut` names tasks of which no attempt counts. */
export type Tally = {
  readonly tasks: ReadonlyMap<string, { readonly passed: number; readonly counted: number }>;
  readonly leftOut: readonly string[];
};

/** Counts each task's attempts under a variant; tasks in alphabetical order, whatever the order of the results. */
export function tally(results: readonly AttemptResult[], variant: Variant): Tally {
  const tasks = new Map<string, { passed: number; counted: number }>();
  for (const id of [...new Set(results.map((result) => result.taskId))].sort())
    tasks.set(id, { passed: 0, counted: 0 });
  for (const result of results) {
    const task = tasks.get(result.taskId);
    if (task === undefined) throw new Error(`task ${result.taskId} was not collected`);
    if (variant === "without-infrastructure" && result.outcome.kind === "infrastructure") continue;
    task.counted += 1;
    if (passes(result, variant)) task.passed += 1;
  }
  const leftOut = [...tasks].filter(([, task]) => task.counted === 0).map(([id]) => id);
  for (const id of leftOut) tasks.delete(id);
  return { tasks, leftOut };
}

function passes(result: AttemptResult, variant: Variant): boolean {
  if (variant === "turn-limit-as-failure" && result.hitTurnLimit) return false;
  return result.outcome.kind === "passed";
}

/** The mean over tasks of the mean per task, with its interval clipped to 0…1. */
export function scoreOf(counts: Tally): Estimate {
  return estimate(
    [...counts.tasks.values()].map((task) => task.passed / task.counted),
    { low: 0, high: 1 },
  );
}

/** One model's tally minus base's, task by task, on the tasks both have; interval clipped to -1…1. */
export function gainOf(model: Tally, base: Tally): Estimate {
  return estimate(
    inBoth(model, base).map(({ model, base }) => model.passed / model.counted - base.passed / base.counted),
    { low: -1, high: 1 },
  );
}

/** Everything the board says of a model against base. */
export function pairedGain(model: readonly AttemptResult[], base: readonly AttemptResult[]): PairedGain {
  const gainUnder = (variant: Variant) => gainOf(tally(model, variant), tally(base, variant));
  const gain = gainUnder("as-preset");
  const pairs = inBoth(tally(model, "as-preset"), tally(base, "as-preset"));
  // Compared as fractions of whole numbers: 1/3 and 2/6 are the same, and no rounding makes a task "better".
  const signs = pairs.map(({ model, base }) => Math.sign(model.passed * base.counted - base.passed * model.counted));
  const baseScore = meanOf(pairs.map(({ base }) => base.passed / base.counted));
  return {
    gain,
    tasksBetter: signs.filter((sign) => sign > 0).length,
    tasksSame: signs.filter((sign) => sign === 0).length,
    tasksWorse: signs.filter((sign) => sign < 0).length,
    failuresFixed: shareOfFailuresFixed(baseScore, gain.mean),
    gainWithoutInfrastructure: gainUnder("without-infrastructure"),
    gainTurnLimitAsFailure: gainUnder("turn-limit-as-failure"),
  };
}

/** gain / (1 - base): which share of base's failures is gone. Null where base failed nothing. */
export function shareOfFailuresFixed(base: number, gain: number): number | null {
  return base >= 1 ? null : gain / (1 - base);
}

/** True if the whole interval lies on one side of zero. */
export function excludesZero(gain: Estimate): boolean {
  return gain.low > 0 || gain.high < 0;
}

function inBoth(model: Tally, base: Tally) {
  return [...model.tasks].flatMap(([id, counts]) => {
    const other = base.tasks.get(id);
    return other === undefined ? [] : [{ model: counts, base: other }];
  });
}

/**
 * Mean of one value a task, with mean ± t(0.975, tasks - 1) × standard error, clipped to what is possible.
 * One task shows no spread, and no task shows nothing: then the interval is all that is possible.
 */
export function estimate(values: readonly number[], possible: { low: number; high: number }): Estimate {
  const mean = meanOf(values);
  const tasks = values.length;
  if (tasks < 2) return { mean, ...possible };
  const squares = values.map((value) => (value - mean) ** 2).sort((a, b) => a - b);
  const variance = squares.reduce((sum, square) => sum + square, 0) / (tasks - 1);
  const half = tQuantile(0.975, tasks - 1) * Math.sqrt(variance / tasks);
  return { mean, low: Math.max(possible.low, mean - half), high: Math.min(possible.high, mean + half) };
}

/** Sorted and relative to the smallest: the same to the last bit in any order, and exact where all are equal. */
function meanOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const smallest = sorted[0];
  if (smallest === undefined) return 0;
  return smallest + sorted.reduce((sum, value) => sum + (value - smallest), 0) / sorted.length;
}
