/**
 * Evaluate: a checkpoint on every task to evaluate on, under the preset → an evaluation in the store.
 * The endpoint, the attempts and going on after a kill are measure.ts's.
 */
import { digestJson } from "../../../schemas/digest.ts";
import { Evaluation } from "../../../schemas/evaluation.ts";
import type { StepExecutor } from "../../runs/index.ts";
import { type Endpoints, measure } from "./measure.ts";
import { selectionOf } from "./selection.ts";
import type { StepTools } from "./step-tools.ts";

/** Object-store key of a finished evaluation. */
export function evaluationKey(id: string): string {
  return `evaluations/${id}.json`;
}

/** The executor. */
export function evaluate(tools: StepTools, endpoints: Endpoints): StepExecutor<"evaluate"> {
  return measure(tools, endpoints, {
    sharedKey({ run, job, resultOf }) {
      const { recipe, serving, taskSet } = run.plan;
      const conditions = digestJson({ preset: recipe.evaluation, serving, taskSet: taskSet.digest });
      return `evaluate ${resultOf(job.checkpoint).checkpoint} ${conditions}`;
    },
    preset: ({ run }) => run.plan.recipe.evaluation,
    tasks: async ({ run }) => (await selectionOf(tools, run)).heldOut,
    async made(id) {
      const key = evaluationKey(id);
      if (!(await tools.store.exists(key))) return null;
      const text = Buffer.from(await tools.store.get(key)).toString("utf8");
      return { ...resultOf(Evaluation.parse(JSON.parse(text))), reused: true };
    },
    async keep(evaluation) {
      await tools.store.put(evaluationKey(evaluation.id), JSON.stringify(evaluation));
      return resultOf(evaluation);
    },
  });
}

function resultOf({ id, model, results }: Evaluation): Record<string, unknown> {
  const passed = results.filter(({ outcome }) => outcome.kind === "passed").length;
  return { evaluation: id, checkpoint: model.checkpoint, attempts: results.length, passed };
}
