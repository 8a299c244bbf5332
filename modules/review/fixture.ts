/**
 * Plans for tests of the review: the reference case on H200 nodes with layouts and cost, at 128k and at 256k, and the
 * quickstart on one machine. Hand-made: layouts and money are plausible, not computed.
 */
import { digestJson } from "../../schemas/digest.ts";
import type { StageCost } from "../../schemas/estimate.ts";
import type { Fit, StageLayout } from "../../schemas/layout.ts";
import { type Plan, PlanBody } from "../../schemas/plan.ts";
import type { Preset } from "../../schemas/preset.ts";
import { SftRlRecipe } from "../../schemas/recipe.ts";
import { RecipeReview } from "../../schemas/review.ts";
import { AwsTarget, LocalTarget } from "../../schemas/target.ts";
import { reviewPlans, type Side } from "./review-plans.ts";

/** A plan's content, before its digest. */
export type Body = ReturnType<typeof PlanBody.parse>;

/** Checks a plan's content and gives it its digests. */
export function sealed(body: Body): Plan {
  const parsed = PlanBody.parse(body);
  const { recipe, taskSet, serving } = parsed;
  const measurementKey = digestJson({
    preset: recipe.evaluation,
    taskSet: [taskSet.digest, taskSet.heldOut, recipe.tasks.split],
    expert: recipe.expert,
    environments: taskSet.familyDigest,
    serving,
    harness: "1",
  });
  const keyed = { ...parsed, measurementKey };
  return { ...keyed, digest: digestJson(keyed) };
}

/** The same plan with something else in it. */
export function changed(plan: Plan, change: (body: Body) => void): Plan {
  const { digest: _digest, ...body } = structuredClone(plan);
  change(body);
  return sealed(body);
}

/** The preset of the cluster plans. */
export const agentic: Preset = {
  name: "agentic",
  attempts: 8,
  temperature: 1,
  topP: 1,
  maxTurns: 100,
  maxTokensPerTurn: 8192,
  seed: 0,
  failureRule: { retries: 3, exhausted: "counts-as-failure" },
};

const image = (name: string) => `nvcr.io/nvidia/${name}@sha256:${"0".repeat(64)}`;
const target = AwsTarget.parse({
  kind: "aws",
  name: "aws-p5en",
  region: "us-east-1",
  zones: ["us-east-1a"],
  instance: "p5en.48xlarge",
  maxNodes: 8,
  pricing: { kind: "on-demand" },
  images: { automodel: image("nemo-automodel"), nemoRl: image("nemo-rl"), vllm: image("vllm") },
  storage: {},
  environments: { host: "environments", port: 7601 },
});

const optimiser = { warmupSteps: 2, lora: { rank: 32, alpha: 64 }, saveEverySteps: 10 };
const recipe = SftRlRecipe.parse({
  kind: "sft-rl",
  description: "Reference case, SFT then GRPO.",
  model: "Qwen/Qwen3.8-27B",
  context: "128k",
  tasks: {
    kind: "dataset",
    family: "unreal",
    index: "task-sets/unreal.json",
    digest: digestJson("unreal"),
    split: { heldOut: 54 },
  },
  expert: { kind: "model", model: "moonshotai/Kimi-K3" },
  sft: { steps: 20, batchSize: 8, learningRate: 1e-4, ...optimiser },
  rl: {
    steps: 40,
    promptsPerStep: 16,
    rolloutsPerPrompt: 8,
    learningRate: 1e-5,
    maxTurns: 100,
    maxTokensPerTurn: 8192,
    ...optimiser,
  },
  report: [{ stage: "rl", step: 40 }],
  evaluation: agentic,
});

const memory = (terms: Record<string, number>, limitGib: number): Fit => ({
  phase: "train step",
  terms: Object.entries(terms).map(([name, gib]) => ({ name, gib, how: `${name} by the model's row` })),
  totalGib: Object.values(terms).reduce((sum, gib) => sum + gib, 0),
  limitGib,
  confidence: "derived",
  why: ["the smallest number of nodes that fits"],
  notes: [],
});

const degrees = { tensorParallel: 1, contextParallel: 8, pipelineParallel: 1, expertParallel: 1, dataParallel: 2 };
const engine = { tensorParallel: 4, dataParallel: 2, gpuMemoryUtilization: 0.9, kvCacheDtype: "auto" as const };

const layouts: StageLayout[] = [
  {
    stage: "sft",
    layout: {
      kind: "sft",
      nodes: 2,
      gpusPerNode: 8,
      train: { ...degrees, sequenceParallel: false },
      microBatch: 1,
    },
    fit: memory({ weights: 51.7, activations: 10.7, logits: 8.1 }, 125.5),
  },
  {
    stage: "rl",
    layout: {
      kind: "rl",
      nodes: 4,
      gpusPerNode: 8,
      generationNodes: 0,
      train: { ...degrees, tensorParallel: 4, contextParallel: 4, sequenceParallel: true },
      generation: { ...engine, concurrentSequences: 104 },
      packing: true,
      sequenceDivisor: 32,
      logprobChunkTokens: 2048,
    },
    fit: memory({ "KV cache": 60.2, weights: 26.4 }, 125.5),
  },
  {
    stage: "serving",
    layout: {
      kind: "serving",
      nodes: 1,
      gpusPerNode: 8,
      engine: { ...engine, concurrentSequences: 26 },
      startupSeconds: 900,
    },
    fit: memory({ weights: 12.9, "KV cache": 104 }, 126.9),
  },
];

const range = (expected: number) => ({ low: expected * 0.7, expected, high: expected * 1.5 });
const priced = (stage: StageCost["stage"], nodes: number, hours: number, stepSeconds: number): StageCost => ({
  stage,
  nodes,
  gpus: nodes * 8,
  stepSeconds: range(stepSeconds),
  hours: range(hours),
  gpuHours: range(nodes * 8 * hours),
  dollars: range(nodes * hours * 63.3),
  why: ["tokens a step / tokens a second"],
});

/** Cost of the three stages, all of it from nodes and hours. */
export function costOf(stages: readonly StageCost[]): NonNullable<Body["estimate"]["cost"]> {
  const sum = (what: "hours" | "gpuHours" | "dollars") =>
    range(stages.reduce((total, stage) => total + stage[what].expected, 0));
  return {
    stages: [...stages],
    hours: sum("hours"),
    gpuHours: sum("gpuHours"),
    dollars: sum("dollars"),
    price: { dollarsPerNodeHour: 63.3, pricing: "on-demand", tableDate: "2026-07-20", source: "us-east-1, Linux" },
  };
}

const common = { needs: [] };
const train = (
  stage: "sft" | "rl",
  trainer: "automodel" | "nemo-rl",
  startFrom: string,
  config: object,
  nodes: number,
) => ({
  ...common,
  id: stage,
  kind: "train" as const,
  stage,
  trainer,
  startFrom,
  steps: recipe[stage].steps,
  saveEverySteps: 10,
  config: { ...config },
  launch: {
    image: trainer === "automodel" ? target.images.automodel : target.images.nemoRl,
    nodes,
    gpusPerNode: 8,
    partition: "gpu",
    account: "uplift",
    walltimeSeconds: 14_400,
    saveBeforeEndSeconds: 1800,
    signal: trainer === "automodel" ? "B:USR1@300" : null,
    mounts: ["/fsx:/fsx"],
    ports: [{ name: "ray", first: 1200, last: 1312 }],
    env: { NCCL_DEBUG: "WARN" },
    secrets: ["HF_TOKEN"],
    command: ["run", stage],
  },
});

/** The reference case at 128k on two to four nodes. */
export const clusterPlan: Plan = sealed({
  schemaVersion: 1,
  recipe,
  name: "unreal-sft-rl",
  target,
  contextTokens: 131_072,
  baseModel: { name: recipe.model, revision: null, digest: digestJson("model"), bytes: 55_560_000_000 },
  taskSet: {
    digest: digestJson("unreal"),
    familyDigest: digestJson("family"),
    standIn: true,
    tasks: 400,
    groups: 310,
    train: 300,
    validation: 24,
    heldOut: 54,
    heldOutUnsolved: null,
    rlTasks: 175,
    tooLong: Array.from({ length: 20 }, (_, index) => ({
      id: `unreal-long-${index + 1}`,
      split: "train" as const,
      shortestSolutionTokens: 140_000 + index * 7000,
    })),
    solutionTokens: { known: 378, median: 31_000, p90: 88_000, max: 130_400 },
  },
  serving: {
    server: "vllm",
    contextTokens: 131_072,
    dtype: "bfloat16",
    toolCallParser: "qwen3_coder",
    reasoningParser: "qwen3",
  },
  layouts,
  jobs: [
    { ...common, id: "base", kind: "checkpoint", name: recipe.model, stage: "base", step: 0, train: null },
    {
      ...common,
      id: "collect",
      kind: "collect",
      expert: "moonshotai/Kimi-K3",
      splits: ["train", "held-out"],
      attempts: 8,
      seed: 0,
      concurrency: 64,
    },
    {
      ...common,
      id: "select",
      kind: "select",
      evaluated: "held-out",
      sft: { maxPerTask: 4, maxLengthRatio: 2, maxTrajectories: null },
      rl: { of: "expert", min: 0.1, max: 0.9, dropAlwaysSolvedBy: null },
    },
    train("sft", "automodel", "base", { optimizer: { lr: 1e-4 }, dataset: { seq_length: 131_072 } }, 2),
    {
      ...common,
      id: "sft-20",
      kind: "checkpoint",
      name: "unreal-sft-rl SFT step 20",
      stage: "sft",
      step: 20,
      train: "sft",
    },
    train("rl", "nemo-rl", "sft-20", { grpo: { max_num_steps: 40, num_prompts_per_step: 16 } }, 4),
    {
      ...common,
      id: "rl-40",
      kind: "checkpoint",
      name: "unreal-sft-rl RL step 40",
      stage: "rl",
      step: 40,
      train: "rl",
    },
    { ...common, id: "evaluate-rl-40", kind: "evaluate", checkpoint: "rl-40" },
    { ...common, id: "publish-rl-40", kind: "publish", evaluate: "evaluate-rl-40" },
  ],
  measurementKey: digestJson(null),
  estimate: {
    attempts: { expert: 2832, probe: 0, rollouts: 5120, evaluation: 432 },
    cost: costOf([priced("sft", 2, 1, 90), priced("rl", 4, 12, 1080), priced("evaluation", 1, 4, 270)]),
  },
  warnings: [
    { code: "stand-in-tasks", path: "tasks", message: "the tasks are made up", todo: "give the index of real ones" },
  ],
});

/** The same recipe at 256k: twice the cache and context parallelism, SFT on twice the nodes, 18 tasks more. */
export const longContextPlan: Plan = changed(clusterPlan, (body) => {
  body.recipe.context = "256k";
  body.contextTokens = 262_144;
  body.serving.contextTokens = 262_144;
  body.taskSet.tooLong = body.taskSet.tooLong.slice(18);
  body.taskSet.train += 18;
  for (const { layout } of body.layouts) {
    if (layout.kind === "sft") {
      layout.nodes = 4;
      layout.train.contextParallel = 16;
    }
    if (layout.kind === "rl") layout.generation.concurrentSequences = 52;
    if (layout.kind === "serving") layout.engine.concurrentSequences = 13;
  }
  for (const job of body.jobs) {
    if (job.kind !== "train" || job.stage !== "sft" || job.launch === null) continue;
    job.launch.nodes = 4;
    job.config = { ...job.config, dataset: { seq_length: 262_144 } };
  }
  // 412 dollars more, all of it for SFT.
  const sftHours = (2 * 63.3 + 412) / (4 * 63.3);
  body.estimate.cost = costOf([
    priced("sft", 4, sftHours, 180),
    priced("rl", 4, 12, 1080),
    priced("evaluation", 1, 4, 270),
  ]);
});

/** The quickstart: no layouts, no price. */
export const localPlan: Plan = changed(clusterPlan, (body) => {
  body.name = "quickstart-sft-rl";
  body.target = LocalTarget.parse({ kind: "local", name: "local", slots: 2 });
  body.recipe = SftRlRecipe.parse({
    ...recipe,
    model: "quickstart-base",
    context: 1024,
    tasks: { kind: "generated", family: "repo-chores", seed: 7, count: 300, split: { heldOut: 48 } },
    expert: { kind: "scripted", attempts: 4 },
    evaluation: { ...agentic, name: "quickstart", maxTurns: 8, maxTokensPerTurn: 48, seed: 1000 },
  });
  body.contextTokens = 1024;
  body.baseModel = { name: "quickstart-base", revision: null, digest: digestJson("tiny"), bytes: 3_485_039 };
  body.taskSet = {
    ...body.taskSet,
    digest: digestJson("chores"),
    standIn: false,
    rlTasks: null,
    tooLong: [],
    solutionTokens: null,
  };
  body.serving = { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" };
  body.layouts = [];
  body.jobs = body.jobs.map((job) => (job.kind === "train" ? { ...job, trainer: "trl", launch: null } : job));
  body.estimate.cost = null;
  body.warnings = [];
});

/** A side that has a plan. */
export const side = (plan: Plan): Side => ({ kind: "plan", plan });

/** The review of two plans, as its schema has it. */
export const compare = (base: Plan, head: Plan, rest: Partial<Parameters<typeof reviewPlans>[0]> = {}): RecipeReview =>
  RecipeReview.parse(reviewPlans({ base: side(base), head: side(head), ...rest }));

/** The lines of one section. */
export const textsOf = (review: RecipeReview, section: string): string[] =>
  review.lines.filter((line) => line.section === section).map(({ text }) => text);
