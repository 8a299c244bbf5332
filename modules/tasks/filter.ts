/**
 * Filter: trajectories → those that SFT trains on, pass rates, and the tasks that RL and evaluation use.
 * Infrastructure outcomes are nobody's answer and count nowhere. Results do not depend on the input's order. Pure.
 */
import { UserError } from "../../schemas/error.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";

/** How SFT's trajectories are chosen. */
export interface SftRule {
  /** At most this many a task, so that easy tasks do not drown the others. */
  maxPerTask: number;
  /** None longer than this many times the task's shortest success. Length is `turns`, assistant messages. */
  maxLengthRatio: number;
}

/** What was kept and why the rest was not; the numbers add up to all trajectories. */
export interface SftReport {
  kept: number;
  dropped: { failed: number; infrastructure: number; tooLong: number; overQuota: number };
  /** Tasks with at least one kept trajectory. */
  tasks: number;
}

/** Successes only, the shortest first, then by attempt; at most `maxPerTask` a task, none too long. By task id. */
export function chooseSftTrajectories(
  trajectories: readonly Trajectory[],
  { maxPerTask, maxLengthRatio }: SftRule = { maxPerTask: 4, maxLengthRatio: 2 },
): { chosen: Trajectory[]; report: SftReport } {
  const report: SftReport = { kept: 0, dropped: { failed: 0, infrastructure: 0, tooLong: 0, overQuota: 0 }, tasks: 0 };
  const chosen: Trajectory[] = [];
  for (const [, own] of byTask(trajectories)) {
    const successes = own
      .filter(({ outcome }) => outcome.kind === "passed")
      .sort((a, b) => a.turns - b.turns || a.attempt - b.attempt);
    report.dropped.infrastructure += own.filter(({ outcome }) => outcome.kind === "infrastructure").length;
    report.dropped.failed += own.filter(({ outcome }) => outcome.kind === "failed").length;
    const limit = (successes[0]?.turns ?? 0) * maxLengthRatio;
    const short = successes.filter(({ turns }) => turns <= limit);
    const kept = short.slice(0, maxPerTask);
    report.dropped.tooLong += successes.length - short.length;
    report.dropped.overQuota += short.length - kept.length;
    report.kept += kept.length;
    if (kept.length > 0) report.tasks += 1;
    chosen.push(...kept);
  }
  return { chosen, report };
}

/** How often a task was solved, of the attempts that count. */
export interface PassRate {
  taskId: string;
  passed: number;
  /** Attempts that passed or failed. */
  attempts: number;
  /** passed / attempts; null where no attempt counts. */
  rate: number | null;
  /** Attempts that the infrastructure spoilt. */
  infrastructure: number;
}

/** Every attempted task's pass rate, by task id. */
export function passRates(trajectories: readonly Trajectory[]): PassRate[] {
  return byTask(trajectories).map(([taskId, own]) => {
    const passed = own.filter(({ outcome }) => outcome.kind === "passed").length;
    const infrastructure = own.filter(({ outcome }) => outcome.kind === "infrastructure").length;
    const attempts = own.length - infrastructure;
    return { taskId, passed, attempts, rate: attempts > 0 ? passed / attempts : null, infrastructure };
  });
}

/** Why tasks were not chosen for RL; with `chosen` the numbers add up to all tasks. */
export interface RlReport {
  chosen: number;
  below: number;
  above: number;
  /** No attempt counts. */
  unmeasured: number;
}

/**
 * Tasks whose pass rate lies in the band, both ends included: a group of rollouts that all pass or all fail teaches
 * GRPO nothing. Throws a UserError `no-rl-tasks` where none does.
 */
export function chooseRlTasks(
  rates: readonly PassRate[],
  { min, max }: { min: number; max: number },
): { ids: string[]; report: RlReport } {
  const report: RlReport = { chosen: 0, below: 0, above: 0, unmeasured: 0 };
  const ids: string[] = [];
  for (const { taskId, rate } of rates) {
    if (rate === null) report.unmeasured += 1;
    else if (rate < min) report.below += 1;
    else if (rate > max) report.above += 1;
    else ids.push(taskId);
  }
  report.chosen = ids.length;
  if (ids.length > 0) return { ids: ids.sort(), report };
  throw new UserError({
    code: "no-rl-tasks",
    path: "rl.passRate",
    asked: `tasks with a pass rate from ${min} to ${max} were asked for`,
    found: `none of ${rates.length} has one: ${report.below} below, ${report.above} above, ${report.unmeasured} unmeasured`,
    allowed: "a band in which at least one task lies",
    todo: "widen the band, or attempt more tasks",
  });
}

/** Held-out tasks that were solved at least once, and those that were not: no score on them would mean anything. */
export function heldOutSolvable(
  ids: readonly string[],
  rates: readonly PassRate[],
): { solvable: string[]; dropped: string[] } {
  const solved = new Set(rates.filter(({ passed }) => passed > 0).map(({ taskId }) => taskId));
  const sorted = [...new Set(ids)].sort();
  return { solvable: sorted.filter((id) => solved.has(id)), dropped: sorted.filter((id) => !solved.has(id)) };
}

/** Each task's trajectories; an attempt that is there twice counts once. Sorted by task id. */
function byTask(trajectories: readonly Trajectory[]): [string, Trajectory[]][] {
  const tasks = new Map<string, Map<number, Trajectory>>();
  for (const trajectory of trajectories) {
    const own = tasks.get(trajectory.taskId) ?? new Map<number, Trajectory>();
    tasks.set(trajectory.taskId, own);
    if (!own.has(trajectory.attempt)) own.set(trajectory.attempt, trajectory);
  }
  return [...tasks.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([taskId, own]): [string, Trajectory[]] => [taskId, [...own.values()]]);
}
