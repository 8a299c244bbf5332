/**
 * Evaluations of the base model and the reported checkpoints → node-hours. Pure.
 *
 * Each is one endpoint on one node: start, attempts, end. A task choice by the model's own pass rates ("base", "sft")
 * needs attempts at the training tasks too, on an endpoint alike; they are counted here.
 */

import { peaksOf } from "../../../schemas/gpu-peaks.ts";
import type { ServingLayout } from "../../../schemas/layout.ts";
import { EXPECTED, type Values } from "./assumptions.ts";
import { meanAttempt, meanSolutionTokens, slowestAttempt } from "./attempts.ts";
import { type Batch, enginesOf, generationSeconds } from "./generation.ts";
import type { CostInput, StageEstimate } from "./input.ts";
import { startSeconds } from "./jobs.ts";
import { spread } from "./spread.ts";
import { duration, number } from "./text.ts";
import { generationWhy, lengthSource, rangeWhy } from "./training.ts";

/** Attempts at once where the caller gives no number: the default of modules/evaluation. */
const AT_ONCE = 16;

function evaluatedTasks({ evaluatedTasks, taskSet }: CostInput): number {
  return evaluatedTasks ?? taskSet.heldOut;
}

/**
 * The sentence about the expert model's endpoint, which runs elsewhere; nothing where the expert is a script. Its
 * attempts are those of the collect job: at training tasks too where SFT learns from them or RL's tasks are chosen by them.
 */
function expertNotCounted(input: CostInput): string[] {
  const { recipe, taskSet } = input;
  const { expert } = recipe;
  if (expert.kind !== "model") return [];
  const onTraining = recipe.kind === "sft-rl" || recipe.rl.tasks.passRateBand.of === "expert";
  const tasks = evaluatedTasks(input) + (onTraining ? taskSet.train : 0);
  return [
    `The expert's endpoint is not counted: ${number(tasks * expert.attempts)} attempts of ${expert.model} (${number(tasks)} tasks × ${expert.attempts}), wherever it runs.`,
  ];
}

/** All evaluations, one after another. */
export function evaluationEstimate(input: CostInput, layout: ServingLayout): StageEstimate {
  const { recipe, model, instance, contextTokens, taskSet } = input;
  const { evaluation } = recipe;
  const peaks = peaksOf(instance);
  const engines = enginesOf(layout.engine, layout.engine.tensorParallel * layout.engine.dataParallel, contextTokens);
  const solution = meanSolutionTokens(taskSet.solutionTokens);
  const limits = { contextTokens, maxTurns: evaluation.maxTurns, maxTokensPerTurn: evaluation.maxTokensPerTurn };
  const batch = (attempts: number, values: Values): Batch => {
    const mean = meanAttempt(limits, solution, values);
    const atOnce = input.evaluationAtOnce ?? AT_ONCE;
    return { attempts, atOnce, mean, slowest: slowestAttempt(limits, mean, values) };
  };
  const start = (values: Values) =>
    startSeconds(model, { weightReads: 1, readGbPerSecond: input.readGbPerSecond ?? 1, convert: false }, values).each;
  const run = (attempts: number, values: Values) =>
    generationSeconds(model, peaks, engines, batch(attempts, values), values);
  const endpoint = (attempts: number, values: Values) =>
    attempts === 0 ? 0 : start(values) + run(attempts, values).seconds;

  const checkpoints = 1 + new Set(recipe.report.map(({ stage, step }) => `${stage}-${step}`)).size;
  // No held-out task at all is refused elsewhere; one attempt keeps the arithmetic whole until then.
  const attempts = Math.max(1, evaluatedTasks(input) * evaluation.attempts);
  const probed = ["base", "sft"].includes(recipe.rl.tasks.passRateBand.of) ? taskSet.train * recipe.expert.attempts : 0;
  const all = (values: Values) => checkpoints * endpoint(attempts, values) + endpoint(probed, values);
  const one = (values: Values) => run(attempts, values).meanSeconds;
  const seconds = spread(all);
  const expected = run(attempts, EXPECTED);
  const expectedBatch = batch(attempts, EXPECTED);
  return {
    stage: "evaluation",
    nodes: layout.nodes,
    gpus: layout.nodes * layout.gpusPerNode,
    stepSeconds: spread(one).range,
    seconds,
    walltimeSeconds: null,
    leastWalltimeSeconds: null,
    why: [
      ...expertNotCounted(input),
      `An attempt has ${number(expectedBatch.mean.tokens)} tokens on average (${lengthSource(input)}), ${number(expectedBatch.mean.generated)} of them written in ${number(expectedBatch.mean.turns)} turns.`,
      generationWhy(
        "One evaluation",
        input,
        expected,
        { batch: expectedBatch },
        layout.engine.tensorParallel,
        expectedBatch.slowest.tokens,
      ),
      `${checkpoints} checkpoints (the base model and ${checkpoints - 1} reported) × (${duration(start(EXPECTED))} to start an endpoint + ${duration(expected.seconds)})${probed > 0 ? `, and ${number(probed)} attempts at training tasks (${recipe.expert.attempts} each) for the pass rates RL tasks are chosen by: ${duration(endpoint(probed, EXPECTED))}` : ""} = ${duration(all(EXPECTED))}.`,
      ...rangeWhy(seconds),
    ],
  };
}
