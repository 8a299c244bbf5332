/**
 * Filter: trajectories → those that SFT trains on, pass rates, and the tasks that RL and evaluation use.
 * Infrastructure outcomes are nobody's answer and count nowhere. Results do not depend on the input's order. Pure.
 */
import { UserError } from "../../schemas/error.ts";
import type { Outcome, Trajectory } from "../../schemas/trajectory.ts";

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
  dropped: { failed: number; infrastructure: number; malformed: number; tooLong: number; overQuota: number };
  /** Tasks with at least one kept trajectory. */
  tasks: number;
}

/**
 * Successes only, the shortest first, then by attempt; at most `maxPerTask` a task, none too long. None with a tool call whose
 * arguments no service could read: it would teach such calls, and chat templates cannot render them. By task id.
 */
export function chooseSftTrajectories(
  trajectories: readonly Trajectory[],
  { maxPerTask, maxLengthRatio }: SftRule = { maxPerTask: 4, maxLengthRatio: 2 },
): { chosen: Trajectory[]; report: SftReport } {
  const dropped = { failed: 0, infrastructure: 0, malformed: 0, tooLong: 0, overQuota: 0 };
  const report: SftReport = { kept: 0, dropped, tasks: 0 };
  const chosen: Trajectory[] = [];
  for (const [, own] of byTask(trajectories)) {
    const passed = own.filter(({ outcome }) => outcome.kind === "passed");
    const successes = passed
      .filter(({ malformedToolCalls }) => malformedToolCalls === 0)
      .sort((a, b) => a.turns - b.turns || a.attempt - b.attempt);
    report.dropped.malformed += passed.length - successes.length;
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
  return ratesOf(
    byTask(trajectories).flatMap(([taskId, own]) => own.map(({ outcome }) => ({ taskId, outcome: outcome.kind }))),
  );
}

/** The same of attempts of which only the ends are known, each of them once. */
export function ratesOf(
  attempts: Iterable<{ readonly taskId: string; readonly outcome: Outcome["kind"] }>,
): PassRate[] {
  const counts = new Map<string, Record<Outcome["kind"], number>>();
  for (const { taskId, outcome } of attempts) {
    const own = counts.get(taskId) ?? { passed: 0, failed: 0, infrastructure: 0 };
    counts.set(taskId, own);
    own[outcome] += 1;
  }
  return [...counts.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([taskId, { passed, failed, infrastructure }]) => {
      const attempts = passed + failed;
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
    path: "rl.tasks.passRateBand",
    asked: `tasks with a pass rate from ${min} to ${max} were asked for`,
    found: `none of ${rates.length} has one: ${report.below} below, ${report.above} above, ${report.unmeasured} unmeasured`,
    allowed: "a band in which at least one task lies",
    todo: "widen the band, or attempt more tasks",
  });
}

/**
 * Leaves out the tasks that an earlier run solved at every attempt that counts: what it never fails teaches nothing
 * more. A task it did not attempt stays. Throws a UserError `too-few-rl-tasks` where fewer than a step needs are left.
 */
export function leaveOutAlwaysSolved(
  ids: readonly string[],
  earlier: { readonly rates: readonly PassRate[]; readonly run: string },
  promptsPerStep: number,
): { kept: string[]; dropped: string[] } {
  const always = new Set(
    earlier.rates.filter(({ passed, attempts }) => attempts > 0 && passed === attempts).map(({ taskId }) => taskId),
  );
  const kept = ids.filter((id) => !always.has(id));
  const dropped = ids.filter((id) => always.has(id));
  if (kept.length >= promptsPerStep) return { kept, dropped };
  throw new UserError({
    code: "too-few-rl-tasks",
    path: "rl.tasks.dropAlwaysSolvedBy",
    asked: `the tasks that ${earlier.run} solved at every attempt are left out`,
    found: `${kept.length} of the ${ids.length} tasks in the pass-rate band are left, and a step has ${promptsPerStep}`,
    allowed: `at least ${promptsPerStep} tasks (rl.promptsPerStep)`,
    todo: "widen rl.tasks.passRateBand, add tasks, lower rl.promptsPerStep, or leave dropAlwaysSolvedBy out",
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
