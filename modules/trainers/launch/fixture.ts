/** For tests: a recipe, a target, both stages, and a plan as compilePlan would make it. */
import { digestJson } from "../../../schemas/digest.ts";
import type { Job } from "../../../schemas/job.ts";
import type { RlLayout, ServingLayout, SftLayout } from "../../../schemas/layout.ts";
import { MODELS } from "../../../schemas/model.ts";
import type { Plan } from "../../../schemas/plan.ts";
import { Recipe } from "../../../schemas/recipe.ts";
import type { StageInput } from "../../../schemas/stage.ts";
import { ClusterTarget } from "../../../schemas/target.ts";
import { launchOf } from "./launch-of.ts";

const DIGEST = digestJson("fixture");
/** An image by digest. */
export const pinned = (name: string): string => `${name}@${DIGEST}`;

const trained = { learningRate: 1e-5, lora: { rank: 16 }, saveEverySteps: 20 };
/** A recipe of both stages at 128k. */
export const recipe = Recipe.parse({
  kind: "sft-rl",
  model: "Qwen/Qwen3.8-27B",
  context: "128k",
  tasks: { kind: "dataset", family: "github", index: "i.json", digest: DIGEST, split: { heldOut: 46 } },
  sft: { steps: 40, batchSize: 32, ...trained },
  rl: { steps: 40, promptsPerStep: 16, rolloutsPerPrompt: 8, maxTurns: 100, maxTokensPerTurn: 4096, ...trained },
  report: [{ stage: "rl", step: 40 }],
  evaluation: {
    ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 100, maxTokensPerTurn: 4096, seed: 0 },
    failureRule: { retries: 3, exhausted: "counts-as-failure" },
  },
});

/** A target of H100 nodes. */
export function targetOf(changes: Record<string, unknown> = {}): ClusterTarget {
  return ClusterTarget.parse({
    ...{ kind: "aws", name: "aws-p5", region: "us-east-1", zones: ["us-east-1a"], instance: "p5.48xlarge" },
    ...{ maxNodes: 8, pricing: { kind: "on-demand" }, storage: {} },
    images: {
      automodel: pinned("registry.example/nvidia/nemo-automodel"),
      nemoRl: pinned("registry.example/nvidia/nemo-rl"),
      vllm: pinned("vllm/vllm-openai"),
    },
    environments: { host: "environments.uplift.svc.cluster.local", port: 8080 },
    wandb: { entity: "lab", project: "uplift" },
    ...changes,
  });
}

const degrees = { pipelineParallel: 1, expertParallel: 1, sequenceParallel: true };
const engine = { gpuMemoryUtilization: 0.92, kvCacheDtype: "auto", concurrentSequences: 50 } as const;
const sftLayout: SftLayout = {
  ...{ kind: "sft", nodes: 2, gpusPerNode: 8, microBatch: 1 },
  train: { ...degrees, tensorParallel: 1, contextParallel: 8, dataParallel: 2, sequenceParallel: false },
};
const rlLayout: RlLayout = {
  ...{
    kind: "rl",
    nodes: 4,
    gpusPerNode: 8,
    generationNodes: 1,
    packing: true,
    sequenceDivisor: 32,
    logprobChunkTokens: 1024,
  },
  train: { ...degrees, tensorParallel: 4, contextParallel: 4, dataParallel: 1 },
  generation: { ...engine, tensorParallel: 4, dataParallel: 2 },
};
const servingLayout: ServingLayout = {
  ...{ kind: "serving", nodes: 1, gpusPerNode: 8, startupSeconds: 900 },
  engine: { ...engine, tensorParallel: 4, dataParallel: 2 },
};

/** A stage as planning hands it to a trainer's adapter. */
export function stageOf(stage: "sft" | "rl", changes: Partial<StageInput> = {}): StageInput {
  return {
    ...{ recipe, name: "github-sft-rl", stage, model: MODELS["Qwen/Qwen3.8-27B"], contextTokens: 131_072 },
    layout: stage === "sft" ? sftLayout : rlLayout,
    target: targetOf(),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
    startFrom: stage === "sft" ? "/fsx/models/Qwen--Qwen3.8-27B" : "${RUN_DIR}/checkpoints/sft-40",
    walltimeSeconds: 86_400,
    identity: `github-sft-rl-${stage}`,
    ...changes,
  };
}

/** Made-up configurations with what YAML readers differ on. */
export const configs = {
  sft: {
    recipe: "TrainFinetuneRecipeForNextTokenPrediction",
    step_scheduler: { max_steps: 40, preemption_signal: "SIGUSR1" },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
    checkpoint: { checkpoint_dir: "${RUN_DIR}/trainer/sft", enabled: true },
    optimizer: { _target_: "torch.optim.AdamW", lr: 1e-5, betas: [0.9, 0.95], weight_decay: 0 },
    wandb: { id: "010", resume: "allow", name: "yes", mode: "on" },
  },
  rl: {
    grpo: { max_num_steps: 40, num_generations_per_prompt: 8, max_val_samples: null },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
    checkpointing: { checkpoint_dir: "${oc.env:RUN_DIR}/trainer/rl", checkpoint_must_save_by: "00:23:26:00" },
    loss_fn: { ratio_clip_min: 0.2, reference_policy_kl_penalty: 1e-7 },
  },
} as const;

function trainJob(stage: "sft" | "rl", target: ClusterTarget): Job {
  return {
    ...{ id: stage, kind: "train", needs: [], stage, trainer: stage === "sft" ? "automodel" : "nemo-rl" },
    ...{ startFrom: stage === "sft" ? "base" : "sft-40", steps: 40, saveEverySteps: 20, config: configs[stage] },
    launch: launchOf(stageOf(stage, { target })),
  };
}

function checkpointJob(stage: "sft" | "rl", step: number): Job {
  const id = `${stage}-${step}`;
  return { id, kind: "checkpoint", needs: [], name: `github-sft-rl ${id}`, stage, step, train: stage };
}

/** A cluster's plan with the base model, both stages, a checkpoint of each and two evaluations. */
export function planOf(target: ClusterTarget = targetOf(), revision: string | null = null): Plan {
  return {
    ...{ schemaVersion: 1, recipe, name: "github-sft-rl", target, contextTokens: 131_072 },
    baseModel: { name: "Qwen/Qwen3.8-27B", revision, digest: DIGEST, bytes: 55_560_000_000 },
    taskSet: {
      ...{ digest: DIGEST, familyDigest: DIGEST, standIn: true, tasks: 300, groups: 250, train: 230, validation: 24 },
      ...{ heldOut: 46, heldOutUnsolved: null, rlTasks: 120, tooLong: [], solutionTokens: null },
    },
    serving: {
      ...{ server: "vllm", contextTokens: 131_072, dtype: "bfloat16", toolCallParser: "qwen3_coder" },
      ...{ reasoningParser: "qwen3", kvCacheDtype: "auto" },
    },
    layouts: [
      {
        ...{ stage: "serving", layout: servingLayout },
        fit: { phase: "serving", terms: [], totalGib: 60, limitGib: 70, confidence: "derived", why: [], notes: [] },
      },
    ],
    jobs: [
      { id: "base", kind: "checkpoint", needs: [], name: "Qwen/Qwen3.8-27B", stage: "base", step: 0, train: null },
      trainJob("sft", target),
      checkpointJob("sft", 40),
      trainJob("rl", target),
      checkpointJob("rl", 40),
      { id: "evaluate-base", kind: "evaluate", needs: [], checkpoint: "base" },
      { id: "evaluate-rl-40", kind: "evaluate", needs: [], checkpoint: "rl-40" },
    ],
    measurementKey: DIGEST,
    estimate: { attempts: { expert: 8, probe: 0, rollouts: 8, evaluation: 8 }, cost: null },
    warnings: [],
    digest: DIGEST,
  };
}
