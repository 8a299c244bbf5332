/**
 * Completeness: an evaluation → what keeps it from being published: attempts missing, counted twice, of tasks nobody
 * evaluated, or nothing measured at all. A half-finished evaluation looks like a good one if nobody counts. Pure.
 */
import type { Issue } from "../../schemas/error.ts";
import type { AttemptResult, Evaluation } from "../../schemas/evaluation.ts";

/** No issue: every task has exactly the preset's attempts 0 … n-1, and at least one attempt reached an answer. */
export function incompleteness(evaluation: Evaluation): Issue[] {
  const { attempts } = evaluation.preset;
  const tasks = new Set(evaluation.tasks.map((task) => task.id));
  const seen = new Set<string>();
  const wrong: string[] = [];
  if (tasks.size !== evaluation.tasks.length) wrong.push("a task is listed twice");
  for (const result of evaluation.results) {
    const name = attemptName(result);
    if (!tasks.has(result.taskId)) wrong.push(`${name} is of a task that is not listed`);
    else if (result.attempt >= attempts) wrong.push(`${name} is beyond the preset's ${attempts} attempts`);
    else if (seen.has(name)) wrong.push(`${name} is there twice`);
    seen.add(name);
  }
  for (const taskId of tasks) {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const name = attemptName({ taskId, attempt });
      if (!seen.has(name)) wrong.push(`${name} is missing`);
    }
  }
  if (wrong.length > 0) {
    return [
      {
        code: "evaluation-incomplete",
        path: `evaluation ${evaluation.id}`,
        asked: `it was to be published with ${evaluation.results.length} results`,
        found: summary(wrong),
        allowed: `${tasks.size} tasks × ${attempts} attempts, each exactly once`,
        todo: "let the evaluation finish (running it again goes on where it stopped), then publish",
      },
    ];
  }
  if (evaluation.results.every((result) => result.outcome.kind === "infrastructure")) {
    return [
      {
        code: "evaluation-unmeasured",
        path: `evaluation ${evaluation.id}`,
        asked: "it was to be published",
        found: `the infrastructure broke all ${evaluation.results.length} attempts, so it says nothing of the model`,
        allowed: "an evaluation in which at least one attempt reached an answer",
        todo: "repair the environment service or the endpoint (see an attempt's trace), then evaluate again",
      },
    ];
  }
  return [];
}

function attemptName({ taskId, attempt }: Pick<AttemptResult, "taskId" | "attempt">): string {
  return `attempt ${attempt} of ${taskId}`;
}

function summary(wrong: readonly string[]): string {
  const shown = wrong.slice(0, 3).join("; ");
  return wrong.length > 3 ? `${shown}; and ${wrong.length - 3} more` : shown;
}
