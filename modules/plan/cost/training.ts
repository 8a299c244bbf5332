/**
 * SFT and RL stage → seconds of a step and of the stage, as ranges, with the arithmetic in sentences. Pure.
 */

import { peaksOf } from "../../../schemas/gpu-peaks.ts";
import type { RlLayout, SftLayout } from "../../../schemas/layout.ts";
import type { SftRlRecipe } from "../../../schemas/recipe.ts";
import { cacheBytesPerToken } from "../fit/sizes.ts";
import { ASSUMPTIONS, EXPECTED, type Values } from "./assumptions.ts";
import { meanAttempt, meanSolutionTokens, slowestAttempt, trajectoryTokens } from "./attempts.ts";
import { imbalanceOf, splitBatch, trainFlops } from "./compute.ts";
import type { CostInput, StageEstimate } from "./input.ts";
import { jobsNeeded, saveSeconds, saves, shortestWalltimeSeconds, startSeconds } from "./jobs.ts";
import { mapBounds, type Spread, spread } from "./spread.ts";
import { type RlStep, type RlWork, rlStep, sftStep } from "./steps.ts";
import { about, duration, number, percent } from "./text.ts";

/** Every layout at these lengths recomputes all activations (nemo.md 6.1). */
const RECOMPUTE = true;

/** Said of every stage: what low and high are. */
const RANGE_RULE =
  "Low and high: each assumption alone at its fast and its slow value, the effects put together as the root of the sum of their squares";

/** The sentences about a range: how it is made, and what moves it most. */
export function rangeWhy({ causes }: Spread): string[] {
  const worst = causes
    .slice(0, 3)
    .map(
      ({ name, adds }) =>
        `${name} ${about(ASSUMPTIONS[name].expected)} → ${about(ASSUMPTIONS[name].slow)} adds ${duration(adds)} (${ASSUMPTIONS[name].what})`,
    );
  return [
    `${RANGE_RULE}. Least certain: ${worst.join("; ")}.`,
    "Unproven: the shares of peak speed and the environment's times are assumptions set against published runs of other models, not measured here.",
  ];
}

/** Says where the length of attempts is from. */
export function lengthSource(input: CostInput): string {
  const { solutionTokens } = input.taskSet;
  const mean = meanSolutionTokens(solutionTokens);
  return mean === null || solutionTokens === null
    ? `no solution's length is known: ${percent(EXPECTED.contextShare)} of the context is assumed`
    : `the ${number(solutionTokens.known)} shortest known solutions have ${number(mean)} on average (median ${number(solutionTokens.median)}, 90th percentile ${number(solutionTokens.p90)})`;
}

interface StageWork {
  readonly stage: "sft" | "rl";
  readonly nodes: number;
  readonly gpus: number;
  readonly steps: number;
  readonly saveEverySteps: number;
  readonly lora: boolean;
  readonly weightReads: number;
  readonly convert: boolean;
  readonly step: (values: Values) => number;
  readonly why: string[];
}

/** Steps, saves and starts of a stage, as a range. */
function stageEstimate(input: CostInput, work: StageWork): StageEstimate {
  const { maxWalltimeSeconds } = input;
  const start = { weightReads: work.weightReads, readGbPerSecond: input.readGbPerSecond ?? 1, convert: work.convert };
  const count = saves(work.steps, work.saveEverySteps);
  const save = (values: Values) => saveSeconds(input.model, work.lora, work.nodes, values);
  const starts = (values: Values) => startSeconds(input.model, start, values);
  const steps = (values: Values) => work.steps * work.step(values) + count * save(values) + starts(values).conversion;

  // Jobs are counted bound by bound, after the bounds are found: a count jumps, and a jump in the middle of a range
  // would look like a cause.
  const oneJob = spread((values) => steps(values) + starts(values).each);
  const stepSeconds = spread(work.step).range;
  const each = spread((values) => starts(values).each).range;
  const jobs = mapBounds((bound) =>
    jobsNeeded(Math.max(0, oneJob.range[bound] - each[bound]), stepSeconds[bound], each[bound], maxWalltimeSeconds),
  );
  const seconds = {
    range: mapBounds((bound) => oneJob.range[bound] + (jobs[bound] - 1) * each[bound]),
    causes: oneJob.causes,
  };
  const walltimeSeconds = Math.min(Math.floor(maxWalltimeSeconds), Math.ceil(seconds.range.high / 3600) * 3600);
  const expected = { step: work.step(EXPECTED), save: save(EXPECTED), ...starts(EXPECTED) };
  const conversion = expected.conversion > 0 ? ` + ${duration(expected.conversion)} to convert the weights once` : "";
  return {
    stage: work.stage,
    nodes: work.nodes,
    gpus: work.gpus,
    stepSeconds,
    seconds,
    walltimeSeconds,
    why: [
      ...work.why,
      `Stage: ${work.steps} steps × ${duration(expected.step)} + ${count} ${count === 1 ? "save" : "saves"} × ${duration(expected.save)} + ${jobs.expected} ${jobs.expected === 1 ? "start" : "starts"} × ${duration(expected.each)}${conversion} = ${duration(seconds.range.expected)}.`,
      jobs.high > 1
        ? `A job may last ${duration(maxWalltimeSeconds)}: the stage takes ${jobs.expected === 1 ? "one job" : `${jobs.expected} jobs one after another`} as expected, ${jobs.high} by the high estimate; each goes on from the last checkpoint.`
        : `One job, with a limit of ${duration(walltimeSeconds)}: the high estimate rounded up to an hour.`,
      ...rangeWhy(seconds),
    ],
    leastWalltimeSeconds: shortestWalltimeSeconds(expected.step, expected),
  };
}

/** SFT on the expert's trajectories. */
export function sftEstimate(input: CostInput, recipe: SftRlRecipe, layout: SftLayout): StageEstimate {
  const { model, instance, contextTokens } = input;
  const { sft } = recipe;
  const peaks = peaksOf(instance);
  const lora = sft.lora !== undefined;
  const training = { lora, recompute: RECOMPUTE };
  const solution = meanSolutionTokens(input.taskSet.solutionTokens);
  const tokens = (values: Values) => trajectoryTokens(contextTokens, sft.data.maxLengthRatio, solution, values);
  const at = (values: Values) =>
    sftStep(model, peaks, layout, { sequences: sft.batchSize, tokens: tokens(values), training }, values);

  const gpus = layout.nodes * layout.gpusPerNode;
  const mean = tokens(EXPECTED);
  const split = splitBatch(gpus, layout.train.dataParallel, sft.batchSize);
  const why = [
    `A trajectory has ${number(mean)} tokens on average: ${lengthSource(input)}; SFT keeps successes up to ${sft.data.maxLengthRatio} times as long.`,
    `A token takes ${about(trainFlops(model, mean, training) / 1e9)} GFLOP: ${lora ? "6" : "8"} × ${about(model.activeParameters / 1e9)} G active parameters (forward, recomputation, ${lora ? "gradients of activations; frozen weights need none of their own" : "both gradients"}), the rest attention in ${model.fullAttentionLayers} of ${model.layers} layers.`,
    `Step: ${split.sequencesEach} of ${sft.batchSize} trajectories on each group of ${about(split.groupGpus)} GPUs, at ${percent(EXPECTED.trainMfu)} of ${number(peaks.bf16Teraflops)} TFLOP/s${split.groups > 1 ? `, × ${about(imbalanceOf(split, EXPECTED))} for unequal lengths` : ""} = ${duration(at(EXPECTED).trainSeconds)}; ${duration(EXPECTED.stepSeconds)} for data and optimizer.`,
  ];
  return stageEstimate(input, {
    stage: "sft",
    nodes: layout.nodes,
    gpus,
    steps: sft.steps,
    saveEverySteps: sft.saveEverySteps,
    lora,
    weightReads: 1,
    convert: false,
    step: (values) => at(values).seconds,
    why,
  });
}

/** GRPO. */
export function rlEstimate(input: CostInput, layout: RlLayout): StageEstimate {
  const { model, instance, contextTokens, recipe } = input;
  const { rl } = recipe;
  const peaks = peaksOf(instance);
  const limits = { contextTokens, maxTurns: rl.maxTurns, maxTokensPerTurn: rl.maxTokensPerTurn };
  const solution = meanSolutionTokens(input.taskSet.solutionTokens);
  const attempts = rl.promptsPerStep * rl.rolloutsPerPrompt;
  const work = (values: Values): RlWork => {
    const mean = meanAttempt(limits, solution, values);
    return {
      contextTokens,
      batch: { attempts, atOnce: null, mean, slowest: slowestAttempt(limits, mean, values) },
      training: { lora: rl.lora !== undefined, recompute: RECOMPUTE },
      referencePass: rl.klPenalty > 0,
      async: rl.rollouts.placement === "dedicated" && rl.rollouts.async !== undefined,
    };
  };
  const at = (values: Values): RlStep => rlStep(model, peaks, layout, work(values), values);
  return stageEstimate(input, {
    stage: "rl",
    nodes: layout.nodes,
    gpus: layout.nodes * layout.gpusPerNode,
    steps: rl.steps,
    saveEverySteps: rl.saveEverySteps,
    lora: rl.lora !== undefined,
    weightReads: 2,
    convert: true,
    step: (values) => at(values).seconds,
    why: rlWhy(input, layout, work(EXPECTED), at(EXPECTED)),
  });
}

function rlWhy(input: CostInput, layout: RlLayout, work: RlWork, step: RlStep): string[] {
  const { model } = input;
  const peaks = peaksOf(input.instance);
  const { batch } = work;
  const { mean, slowest } = batch;
  const { split, rowTokens } = step;
  const padded = layout.packing ? "" : " (not packed: each is padded to the longest of its step)";
  const together =
    layout.generationNodes === 0
      ? "Rollouts share the trainer's GPUs, so the phases add up"
      : work.async
        ? "Rollouts go on beside training, so the longer of the two counts"
        : "Rollouts and training wait for each other, so the phases add up";
  return [
    `A rollout has ${number(mean.tokens)} tokens on average (${lengthSource(input)}; × ${EXPECTED.stretch} where known, at most the context): ${number(mean.generated)} written in ${number(mean.turns)} turns.`,
    generationWhy("Rollouts", input, step.generation, work, layout.generation.tensorParallel, slowest.tokens),
    `Training: ${split.sequencesEach} rollouts on each of ${split.groups} groups of ${about(split.groupGpus)} GPUs × ${number(rowTokens)} tokens${padded} × ${about(trainFlops(model, rowTokens, work.training) / 1e9)} GFLOP at ${percent(EXPECTED.trainMfu)} of ${number(peaks.bf16Teraflops)} TFLOP/s${split.groups > 1 && layout.packing ? `, × ${about(imbalanceOf(split, EXPECTED))} for unequal lengths` : ""} = ${duration(step.trainSeconds)}; log-probabilities, ${work.referencePass ? "2 passes (policy and, for the KL penalty, reference)" : "1 pass"}: ${duration(step.logprobSeconds)}.`,
    `${together}; with ${duration(step.refitSeconds)} for new weights to reach the engines${step.switchSeconds > 0 ? `, ${duration(step.switchSeconds)} to change places` : ""} and ${duration(EXPECTED.stepSeconds)} for the rest: ${duration(step.seconds)} a step. Validation while training is not counted.`,
  ];
}

/** The sentence about a batch of attempts. */
export function generationWhy(
  what: string,
  input: CostInput,
  generation: RlStep["generation"],
  work: Pick<RlWork, "batch">,
  tensorParallel: number,
  slowestTokens: number,
): string {
  const { batch } = work;
  const cache = cacheBytesPerToken(input.model, 2) / 1024;
  return `${what}: ${number(batch.attempts)} attempts, ${number(generation.active)} at once; a written token takes ${number(generation.secondsPerToken * 1000, 1)} ms on ${tensorParallel} GPUs (weights and a cache of up to ${about(cache)} KiB a token read at ${percent(EXPECTED.bandwidthShare)} of ${number(peaksOf(input.instance).memoryGbPerSecond)} GB/s, + ${number(EXPECTED.tokenOverhead * 1000)} ms), a turn ${duration(EXPECTED.turnSeconds)} of the environment: ${duration(generation.meanSeconds)} the mean attempt, ${duration(generation.slowestSeconds)} the slowest (${number(slowestTokens)} tokens), which the batch waits for; with ${duration(generation.prefillSeconds)} of prefill ${duration(generation.seconds)} in all.`;
}
