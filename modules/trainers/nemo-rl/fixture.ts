/**
 * Stage inputs for tests: the reference case's RL stage on nodes with eight H200, and variations of it.
 */
import { MODELS, type Model } from "../../../schemas/model.ts";
import { Recipe, type RlRecipeInput } from "../../../schemas/recipe.ts";
import { StageInput } from "../../../schemas/stage.ts";
import { ClusterTarget } from "../../../schemas/target.ts";
import type { CheckContext } from "./check.ts";
import type { Dialect } from "./dialect.ts";

/** What a test may vary. */
export interface Variation {
  readonly dialect?: Dialect;
  readonly lora?: boolean;
  readonly placement?: "colocated" | "dedicated" | "async";
  readonly context?: 131_072 | 262_144;
  readonly model?: "Qwen/Qwen3.8-27B" | "Qwen/Qwen3-32B";
  readonly wandb?: boolean;
  readonly rl?: Partial<RlRecipeInput["rl"]>;
  readonly layout?: Partial<Extract<StageInput["layout"], { kind: "rl" }>>;
}

const DIGEST = `sha256:${"ab".repeat(32)}`;

const preset = {
  name: "reference",
  attempts: 8,
  temperature: 0.7,
  topP: 0.95,
  maxTurns: 100,
  maxTokensPerTurn: 8192,
  seed: 1,
  failureRule: { retries: 2, exhausted: "counts-as-failure" },
} as const;

/** A stage input as planning makes it. */
export function stageInput(variation: Variation = {}): StageInput {
  const { dialect = "v0.7.0", lora = true, placement = "dedicated", context = 131_072, wandb = true } = variation;
  const model: Model = MODELS[variation.model ?? "Qwen/Qwen3.8-27B"];
  const stretch = context / model.nativeContextTokens;
  const contextParallel = context === 131_072 ? 4 : 8;
  const trainNodes = contextParallel / 2;
  const generationNodes = placement === "colocated" ? 0 : 1;
  const recipe = Recipe.parse({
    kind: "rl",
    model: model.name,
    context,
    ...(stretch > 1 ? { rope: { type: "yarn", factor: 8, originalMaxTokens: 32_768 } } : {}),
    tasks: { kind: "dataset", family: "github", index: "github.json", digest: DIGEST, split: { heldOut: 46 } },
    rl: {
      steps: 40,
      promptsPerStep: 8,
      rolloutsPerPrompt: 8,
      maxTurns: 100,
      maxTokensPerTurn: 8192,
      learningRate: 1e-5,
      warmupSteps: 2,
      saveEverySteps: 10,
      ...(lora ? { lora: { rank: 32 } } : {}),
      rollouts:
        placement === "colocated"
          ? { placement: "colocated" }
          : { placement: "dedicated", ...(placement === "async" ? { async: { maxAgeSteps: 1 } } : {}) },
      ...variation.rl,
    },
    report: [{ stage: "rl", step: 40 }],
    evaluation: preset,
  });
  const target = ClusterTarget.parse({
    kind: "kubernetes",
    name: "test",
    kubeContext: "test",
    instance: "p5en.48xlarge",
    maxNodes: 16,
    pricing: { kind: "owned" },
    nemoRl: dialect,
    images: { automodel: "automodel", nemoRl: "nemo-rl", vllm: "vllm" },
    storage: {},
    environments: { host: "environments.uplift", port: 8080 },
    ...(wandb ? { wandb: { entity: "lab", project: "uplift" } } : {}),
  });
  return StageInput.parse({
    recipe,
    name: "github-rl",
    stage: "rl",
    model,
    contextTokens: context,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: how a plan writes the run's folder
    startFrom: "${RUN_DIR}/checkpoints/sft-40/",
    layout: {
      kind: "rl",
      nodes: trainNodes + generationNodes,
      gpusPerNode: 8,
      generationNodes,
      train: {
        tensorParallel: 4,
        contextParallel,
        pipelineParallel: 1,
        expertParallel: 1,
        dataParallel: 1,
        sequenceParallel: true,
      },
      generation: {
        tensorParallel: 4,
        dataParallel: 2,
        gpuMemoryUtilization: 0.8,
        kvCacheDtype: "auto",
        concurrentSequences: 26,
      },
      packing: true,
      sequenceDivisor: 2 * contextParallel * 4,
      logprobChunkTokens: 2048,
      ...variation.layout,
    },
    target,
    walltimeSeconds: 86_400,
    identity: "${" + "RUN_ID}-rl",
  });
}

/** What a rendered configuration of a stage input is checked against. */
export function contextOf(input: StageInput): CheckContext {
  return {
    dialect: input.target.nemoRl,
    world: { nodes: input.layout.nodes, gpusPerNode: input.layout.gpusPerNode },
    model: input.model,
    recipe: input.recipe,
    env: { TORCH_CUDA_ARCH_LIST: "9.0" },
  };
}

/** A value that is taken out of a configuration. */
export const GONE = Symbol("gone");

/** A configuration with values at paths changed, and those that are GONE taken out. */
export function changed(config: unknown, changes: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const result = structuredClone(config) as Record<string, unknown>;
  for (const [path, value] of Object.entries(changes)) {
    const keys = path.split(".");
    const last = keys.pop() ?? "";
    let section = result;
    for (const key of keys) {
      section[key] ??= {};
      section = section[key] as Record<string, unknown>;
    }
    if (value === GONE) delete section[last];
    else section[last] = structuredClone(value);
  }
  return result;
}

/** What turns a rendered configuration into one that DTensor trains. */
export const ON_DTENSOR: Readonly<Record<string, unknown>> = {
  "policy.megatron_cfg": { enabled: false },
  "policy.dtensor_cfg": {
    enabled: true,
    _v2: true,
    cpu_offload: false,
    sequence_parallel: false,
    activation_checkpointing: true,
    tensor_parallel_size: 1,
    context_parallel_size: 1,
    custom_parallel_plan: null,
  },
  "policy.sequence_packing": { enabled: false },
  "policy.hf_config_overrides": {},
  "policy.hf_overrides": GONE,
};

/** What turns a rendered configuration into one for NeMo-RL's SFT. */
export const AS_SFT: Readonly<Record<string, unknown>> = {
  grpo: GONE,
  loss_fn: GONE,
  env: GONE,
  "policy.generation": GONE,
  "policy.draft": GONE,
  "logger.num_val_samples_to_print": GONE,
  "data.train": { data_path: "/data/sft.jsonl" },
  "data.default": { dataset_name: "openai_format" },
  "data.add_bos": false,
  "data.add_eos": false,
  "data.add_generation_prompt": false,
  sft: {
    max_num_epochs: 1,
    max_num_steps: 40,
    val_period: 0,
    val_batches: 1,
    val_global_batch_size: 8,
    val_micro_batch_size: 1,
    val_at_start: false,
    val_at_end: false,
    seed: 0,
  },
};
