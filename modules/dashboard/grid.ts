/**
 * Grid: an evaluation, base's evaluation and a query → the tasks to show, filtered and sorted, each with its attempts
 * and the most telling pair to compare. Pure.
 */
import { z } from "zod";
import type { AttemptResult, EvaluatedTask, Evaluation } from "../../schemas/evaluation.ts";
import type { AttemptAddress } from "./addresses.ts";

/** What the address bar says; anything it cannot mean is the default. */
export const GridQuery = z.object({
  only: z.enum(["all", "changed", "better", "worse", "infrastructure", "turn-limit", "violations"]).catch("all"),
  sort: z.enum(["task", "project", "difficulty", "kind", "passed", "change"]).catch("task"),
  order: z.enum(["asc", "desc"]).catch("asc"),
  project: z.string().catch(""),
  kind: z.string().catch(""),
});
export type GridQuery = z.infer<typeof GridQuery>;

/** One task's line: its attempts in order, and how it did against base. */
export type GridTask = {
  readonly task: EvaluatedTask;
  readonly results: readonly AttemptResult[];
  readonly passed: number;
  /** Null where base was not evaluated on it. */
  readonly basePassed: number | null;
  /** Share of attempts passed, minus base's. */
  readonly change: number | null;
  /** Base on the left. */
  readonly compare: { readonly left: AttemptAddress; readonly right: AttemptAddress } | null;
};

/** The tasks a query asks for, in its order. */
export function gridOf(evaluation: Evaluation, base: Evaluation | null, query: GridQuery): GridTask[] {
  const results = byTask(evaluation);
  const baseResults = base === null ? null : byTask(base);
  const direction = query.order === "asc" ? 1 : -1;
  return evaluation.tasks
    .map((task) => gridTask(task, { evaluation, results: results.get(task.id) ?? [] }, base, baseResults?.get(task.id)))
    .filter((line) => isAskedFor(line, query))
    .sort((a, b) => direction * compareBy(a, b, query.sort) || compareText(a.task.id, b.task.id));
}

/** Names of tasks of which the infrastructure broke every attempt: the score without such attempts leaves them out. */
export function tasksWithoutAnswer(evaluation: Evaluation): string[] {
  return [...byTask(evaluation)]
    .filter(([, results]) => results.every((result) => result.outcome.kind === "infrastructure"))
    .map(([id]) => id)
    .sort();
}

function gridTask(
  task: EvaluatedTask,
  own: { evaluation: Evaluation; results: readonly AttemptResult[] },
  base: Evaluation | null,
  baseResults: readonly AttemptResult[] | undefined,
): GridTask {
  const passed = countPassed(own.results);
  if (base === null || baseResults === undefined) {
    return { task, results: own.results, passed, basePassed: null, change: null, compare: null };
  }
  const basePassed = countPassed(baseResults);
  const change = passed / own.results.length - basePassed / baseResults.length;
  // Where the model got better: base fails, it passes. Where it got worse: the other way round.
  const left = pick(baseResults, change < 0) ?? baseResults[0];
  const right = pick(own.results, change >= 0) ?? own.results[0];
  const compare =
    left === undefined || right === undefined
      ? null
      : { left: addressOf(base, left), right: addressOf(own.evaluation, right) };
  return { task, results: own.results, passed, basePassed, change, compare };
}

function pick(results: readonly AttemptResult[], passes: boolean): AttemptResult | undefined {
  return results.find((result) => result.outcome.kind === (passes ? "passed" : "failed"));
}

function addressOf(evaluation: Evaluation, result: AttemptResult): AttemptAddress {
  return { evaluationId: evaluation.id, task: result.taskId, attempt: result.attempt };
}

function isAskedFor({ task, results, change }: GridTask, query: GridQuery): boolean {
  if (query.project !== "" && task.project !== query.project) return false;
  if (query.kind !== "" && task.kind !== query.kind) return false;
  switch (query.only) {
    case "all":
      return true;
    case "changed":
      return change !== null && change !== 0;
    case "better":
      return change !== null && change > 0;
    case "worse":
      return change !== null && change < 0;
    case "infrastructure":
      return results.some((result) => result.outcome.kind === "infrastructure" || result.infrastructureRetries > 0);
    case "turn-limit":
      return results.some((result) => result.hitTurnLimit);
    case "violations":
      return results.some((result) => result.violations.length > 0);
  }
}

function compareBy(a: GridTask, b: GridTask, sort: GridQuery["sort"]): number {
  switch (sort) {
    case "task":
      return compareText(a.task.id, b.task.id);
    case "project":
      return compareText(a.task.project, b.task.project);
    case "difficulty":
      return a.task.difficulty - b.task.difficulty;
    case "kind":
      return compareText(a.task.kind, b.task.kind);
    case "passed":
      return a.passed - b.passed;
    case "change":
      return (a.change ?? 0) - (b.change ?? 0);
  }
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function countPassed(results: readonly AttemptResult[]): number {
  return results.filter((result) => result.outcome.kind === "passed").length;
}

function byTask(evaluation: Evaluation): Map<string, AttemptResult[]> {
  const tasks = new Map<string, AttemptResult[]>(evaluation.tasks.map((task) => [task.id, []]));
  for (const result of evaluation.results) tasks.get(result.taskId)?.push(result);
  for (const results of tasks.values()) results.sort((a, b) => a.attempt - b.attempt);
  return tasks;
}
