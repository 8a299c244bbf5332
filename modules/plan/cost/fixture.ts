/**
 * For tests: the reference case (Qwen3.8-27B on p5en) as an estimate's input. Layouts are plausible, not chosen by fit.
 */
import type { z } from "zod";
import { INSTANCES } from "../../../schemas/instance.ts";
import type { Fit, RlLayout, ServingLayout, SftLayout, StageLayout } from "../../../schemas/layout.ts";
import { MODELS } from "../../../schemas/model.ts";
import type { TaskSetSummary } from "../../../schemas/plan.ts";
import { Recipe, type SftRlRecipe } from "../../../schemas/recipe.ts";
import type { CostInput } from "./input.ts";

const fit: Fit = {
  phase: "train step",
  terms: [],
  totalGib: 0,
  limitGib: 0,
  confidence: "derived",
  why: [],
  notes: [],
};

/** FSDP2 with context parallelism; the rest is data parallel. */
export function sftLayout(nodes: number, contextParallel: number): SftLayout {
  const dataParallel = (nodes * 8) / contextParallel;
  const degrees = { tensorParallel: 1, contextParallel, pipelineParallel: 1, expertParallel: 1, dataParallel };
  return { kind: "sft", nodes, gpusPerNode: 8, train: { ...degrees, sequenceParallel: false }, microBatch: 1 };
}

/** Megatron TP4 × CP with vLLM TP4; `concurrentPerEngine` full-length sequences in each engine. */
export function rlLayout(
  nodes: number,
  contextParallel: number,
  concurrentPerEngine: number,
  generationNodes = 0,
): RlLayout {
  const dataParallel = ((nodes - generationNodes) * 8) / (4 * contextParallel);
  const engines = (generationNodes === 0 ? nodes : generationNodes) * 2;
  const degrees = { tensorParallel: 4, contextParallel, pipelineParallel: 1, expertParallel: 1, dataParallel };
  return {
    kind: "rl",
    nodes,
    gpusPerNode: 8,
    generationNodes,
    train: { ...degrees, sequenceParallel: true },
    generation: {
      tensorParallel: 4,
      dataParallel: engines,
      gpuMemoryUtilization: 0.6,
      kvCacheDtype: "auto",
      concurrentSequences: engines * concurrentPerEngine,
    },
    packing: true,
    sequenceDivisor: 8 * contextParallel,
    logprobChunkTokens: 2048,
  };
}

/** One node, TP4 × DP2. */
export function servingLayout(concurrentSequences: number): ServingLayout {
  return {
    kind: "serving",
    nodes: 1,
    gpusPerNode: 8,
    engine: {
      tensorParallel: 4,
      dataParallel: 2,
      gpuMemoryUtilization: 0.9,
      kvCacheDtype: "auto",
      concurrentSequences,
    },
    startupSeconds: 1200,
  };
}

/** Layouts with a fit that says nothing. */
export function stageLayouts(layouts: readonly (SftLayout | RlLayout | ServingLayout)[]): StageLayout[] {
  return layouts.map((layout) => ({ stage: layout.kind, layout, fit }));
}

type Written = z.input<typeof SftRlRecipe>;

/** SFT on 41 trajectories, then GRPO to step 40. */
export function githubRecipe(changes: Partial<Written> = {}): Recipe {
  const digest = `sha256:${"0".repeat(64)}`;
  return Recipe.parse({
    kind: "sft-rl",
    model: "Qwen/Qwen3.8-27B",
    context: "128k",
    tasks: { kind: "dataset", family: "github", index: "github.json", digest, split: { heldOut: 46 } },
    expert: { kind: "model", model: "moonshotai/Kimi-K3" },
    sft: {
      data: { maxTrajectories: 41 },
      steps: 20,
      batchSize: 8,
      learningRate: 1e-4,
      lora: { rank: 32 },
      saveEverySteps: 20,
    },
    rl: {
      steps: 40,
      promptsPerStep: 16,
      rolloutsPerPrompt: 8,
      learningRate: 1e-5,
      lora: { rank: 32 },
      maxTurns: 100,
      maxTokensPerTurn: 4096,
      saveEverySteps: 10,
    },
    report: [
      { stage: "sft", step: 20 },
      { stage: "rl", step: 40 },
    ],
    evaluation: {
      name: "github",
      attempts: 8,
      temperature: 1,
      topP: 1,
      maxTurns: 100,
      maxTokensPerTurn: 4096,
      seed: 0,
      failureRule: { retries: 2, exhausted: "counts-as-failure" },
    },
    ...changes,
  } satisfies Written);
}

/** 221 GitHub tasks. */
export const githubTasks: TaskSetSummary = {
  digest: `sha256:${"1".repeat(64)}`,
  familyDigest: `sha256:${"2".repeat(64)}`,
  standIn: true,
  tasks: 291,
  groups: 291,
  train: 221,
  validation: 24,
  heldOut: 46,
  heldOutUnsolved: null,
  rlTasks: 175,
  tooLong: [],
  solutionTokens: { known: 260, median: 38_000, p90: 90_000, max: 126_000 },
};

/** github-sft-rl on p5en, by the hour in us-east-1. */
export function githubInput(changes: Partial<CostInput> = {}): CostInput {
  return {
    recipe: githubRecipe(),
    model: MODELS["Qwen/Qwen3.8-27B"],
    contextTokens: 131_072,
    instance: INSTANCES["p5en.48xlarge"],
    pricing: { kind: "on-demand" },
    taskSet: githubTasks,
    layouts: stageLayouts([sftLayout(2, 8), rlLayout(4, 4, 25), servingLayout(110)]),
    region: "us-east-1",
    maxWalltimeSeconds: 24 * 3600,
    ...changes,
  };
}

/** unreal-256k-sft-rl: twice the context on 8 nodes, tasks chosen by the SFT model's pass rates. */
export function unreal256kInput(changes: Partial<CostInput> = {}): CostInput {
  const { rl } = githubRecipe();
  return githubInput({
    recipe: githubRecipe({
      context: "256k",
      rl: { ...rl, maxTurns: 200, tasks: { passRateBand: { of: "sft", min: 0.1, max: 0.9 } } },
    }),
    contextTokens: 262_144,
    taskSet: {
      ...githubTasks,
      tasks: 160,
      train: 90,
      validation: 16,
      heldOut: 54,
      rlTasks: null,
      solutionTokens: { known: 140, median: 105_000, p90: 210_000, max: 258_000 },
    },
    layouts: stageLayouts([sftLayout(4, 16), rlLayout(8, 8, 12), servingLayout(54)]),
    ...changes,
  });
}
