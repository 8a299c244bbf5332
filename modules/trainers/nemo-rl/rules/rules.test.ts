import { describe, expect, test } from "vitest";
import { nemoRlFindings } from "../check.ts";
import { AS_SFT, changed, contextOf, GONE, ON_DTENSOR, stageInput, type Variation } from "../fixture.ts";
import { renderNemoRl } from "../render.ts";
import { NEMO_RULES, RULES } from "./index.ts";

/** The constraints on GRPO and SFT in NeMo's list of constraints; the eleven on Automodel are another adapter's. */
const CONSTRAINTS = [
  ...["backend-xor", "megatron-arch-env", "lora-needs-v2", "hsdp-needs-v2", "save-format-v1", "world-divides"],
  ...["tp4-mbs", "pack-xor-dynamic", "dynamic-pp1", "draft-megatron", "dt-cp-no-pack", "dt-cp-no-sp"],
  ...["dt-cp-no-vlm", "dt-cp-no-qwen35-dense", "dt-pack-no-vlm", "dt-no-yarn", "dt-lora-tp-triton", "dt-pack-fa2"],
  ...["mg-cp-needs-pack", "mg-pad-factor", "mg-chunk-defer", "mg-fused-no-pack", "mg-yarn-complete", "mg-recompute"],
  ...["mg-offload-modules", "mg-opt-offload", "mg-peft-dim-alpha", "mg-peft-exclude", "mg-router-replay"],
  ...["mg-precision", "vllm-world", "vllm-pp-async", "vllm-ep", "sampling-range", "fp8-rollout"],
  ...["noncolo-multinode", "noncolo-onenode", "async-backend", "async-no-dapo", "gym-async-http", "gym-no-max-val"],
  ...["gym-no-stop-strings", "val-sampling", "val-dataset", "batch-multiplier", "on-policy-ratio", "skip-ref"],
  ...["early-stop", "penalties-gym", "tis", "gspo", "cispo", "ckpt-metric", "ckpt-required", "sft-megatron-block"],
  "sft-noval",
];

/** A valid configuration, and the changes that break one rule of it. */
interface Case {
  readonly from?: Variation;
  /** Changes that keep it valid. */
  readonly base?: Readonly<Record<string, unknown>>;
  readonly change?: Readonly<Record<string, unknown>>;
  /** The job's environment, where it is what breaks the rule. */
  readonly env?: Record<string, string>;
  /** Nodes of the job, where they change with the configuration. */
  readonly nodes?: number;
}

const LORA = {
  enabled: true,
  target_modules: [],
  exclude_modules: [],
  match_all_linear: true,
  dim: 8,
  alpha: 16,
  dropout: 0,
  dropout_position: "post",
  lora_A_init: "xavier",
  use_triton: false,
};
const DYNAMIC = { enabled: true, train_mb_tokens: 131_072, logprob_mb_tokens: 131_072, sequence_length_round: 64 };
const PACKING = { enabled: true, train_mb_tokens: 131_072, algorithm: "modified_first_fit_decreasing" };
const YARN = {
  rope_type: "yarn",
  rope_theta: 1e6,
  factor: 4,
  original_max_position_embeddings: 32_768,
  truncate: true,
  beta_fast: 32,
  beta_slow: 1,
  mscale: 1,
  mscale_all_dim: 0,
};
const qwen3 = { model: "Qwen/Qwen3-32B" } as const;
const main = { dialect: "main" } as const;
const shared = { placement: "colocated" } as const;
const asynchronous = { placement: "async" } as const;
/** Unpacked sequences of which a mask is no trouble. */
const short = { "policy.max_total_sequence_length": 8192 };
const noGym = { "env.should_use_nemo_gym": false };
const split = { "policy.dtensor_cfg.context_parallel_size": 2 };
const megatronSft = { ...AS_SFT, "policy.megatron_cfg.use_linear_ce_fusion_loss": false };

const CASES: Readonly<Record<string, Case>> = {
  "backend-xor": { change: { "policy.megatron_cfg": { enabled: false } } },
  "megatron-arch-env": { env: {} },
  "lora-needs-v2": {
    base: { ...ON_DTENSOR, "policy.dtensor_cfg.lora_cfg": LORA, "checkpointing.model_save_format": null },
    change: { "policy.dtensor_cfg._v2": false },
  },
  "hsdp-needs-v2": { base: ON_DTENSOR, change: { "policy.dtensor_cfg.dp_replicate_size": 3 } },
  "save-format-v1": { base: ON_DTENSOR, change: { "policy.dtensor_cfg._v2": false } },
  "world-divides": { change: { "policy.megatron_cfg.pipeline_model_parallel_size": 3 } },
  "tp4-mbs": { change: { "policy.logprob_batch_size": 2 } },
  "pack-xor-dynamic": { change: { "policy.dynamic_batching": DYNAMIC } },
  "dynamic-pp1": {
    base: {
      "policy.megatron_cfg.context_parallel_size": 1,
      ...short,
      "policy.sequence_packing": { enabled: false },
      "policy.dynamic_batching": DYNAMIC,
    },
    change: { "policy.megatron_cfg.pipeline_model_parallel_size": 2 },
  },
  "draft-megatron": { change: { "policy.draft": { enabled: true, loss_weight: 0.1 } } },
  "dt-cp-no-pack": {
    from: qwen3,
    base: { ...ON_DTENSOR, ...split },
    change: { "policy.sequence_packing": PACKING },
  },
  "dt-cp-no-sp": {
    from: qwen3,
    base: { ...ON_DTENSOR, ...split, "policy.dtensor_cfg.tensor_parallel_size": 2 },
    change: { "policy.dtensor_cfg.sequence_parallel": true },
  },
  "dt-cp-no-vlm": {
    from: { ...qwen3, ...main },
    base: { ...ON_DTENSOR, ...split },
    change: { "policy.is_vlm": true },
  },
  "dt-cp-no-qwen35-dense": { base: ON_DTENSOR, change: split },
  "dt-pack-no-vlm": {
    base: { ...ON_DTENSOR, "policy.tokenizer.use_processor": true },
    change: { "policy.sequence_packing": PACKING },
  },
  "dt-no-yarn": {
    from: qwen3,
    base: ON_DTENSOR,
    change: {
      "policy.hf_config_overrides": { rope_scaling: YARN },
      "policy.hf_overrides": { rope_scaling: YARN },
    },
  },
  "dt-lora-tp-triton": {
    base: {
      ...ON_DTENSOR,
      "policy.dtensor_cfg.lora_cfg": LORA,
      "policy.dtensor_cfg.tensor_parallel_size": 2,
    },
    change: { "policy.dtensor_cfg.lora_cfg.use_triton": GONE },
  },
  "dt-pack-fa2": {
    base: { ...ON_DTENSOR, "policy.sequence_packing": PACKING },
    change: { "policy.dtensor_cfg.automodel_kwargs": { attn_implementation: "sdpa" } },
  },
  "mg-cp-needs-pack": { base: short, change: { "policy.sequence_packing": { enabled: false } } },
  "mg-pad-factor": { change: { "policy.make_sequence_length_divisible_by": 8 } },
  "mg-chunk-defer": { change: { "policy.megatron_cfg.defer_fp32_logits": false } },
  "mg-fused-no-pack": {
    from: main,
    base: { "policy.megatron_cfg.context_parallel_size": 1 },
    change: { "policy.megatron_cfg.use_fused_linear_logprobs": true },
  },
  "mg-yarn-complete": {
    from: qwen3,
    change: {
      "policy.hf_config_overrides.rope_scaling.rope_theta": GONE,
      "policy.hf_overrides.rope_scaling.rope_theta": GONE,
    },
  },
  "mg-recompute": { change: { "policy.megatron_cfg.recompute_granularity": "none" } },
  "mg-offload-modules": {
    from: main,
    change: {
      "policy.megatron_cfg.fine_grained_activation_offloading": true,
      "policy.megatron_cfg.offload_modules": ["core_attn", "moe_act"],
    },
  },
  "mg-opt-offload": { change: { "policy.megatron_cfg.optimizer.optimizer_cpu_offload": true } },
  "mg-peft-dim-alpha": { change: { "policy.megatron_cfg.peft.dim": GONE } },
  "mg-peft-exclude": { change: { "policy.megatron_cfg.peft.exclude_modules": ["*vision_model*"] } },
  "mg-router-replay": { change: { "policy.router_replay": { enabled: true } } },
  "mg-precision": { change: { "policy.megatron_cfg.optimizer.bf16": false } },
  "vllm-world": { change: { "policy.generation.vllm_cfg.tensor_parallel_size": 3 } },
  "vllm-pp-async": {
    base: { ...noGym, "policy.generation.vllm_cfg.async_engine": false },
    change: { "policy.generation.vllm_cfg.pipeline_parallel_size": 2 },
  },
  "vllm-ep": { change: { "policy.generation.vllm_cfg.expert_parallel_size": 8 } },
  "sampling-range": { change: { "policy.generation.top_k": 0 } },
  "fp8-rollout": {
    base: {
      "policy.generation.vllm_cfg.precision": "fp8",
      "loss_fn.use_importance_sampling_correction": true,
    },
    change: { "policy.generation.vllm_cfg.kv_cache_dtype": "fp8" },
  },
  "noncolo-multinode": { change: { "policy.generation.colocated.resources.gpus_per_node": 4 } },
  "noncolo-onenode": {
    nodes: 1,
    base: {
      "cluster.num_nodes": 1,
      "policy.generation.colocated.resources": { num_nodes: 1, gpus_per_node: 4 },
      "policy.megatron_cfg.context_parallel_size": 1,
    },
    change: { "policy.generation.colocated.resources.gpus_per_node": 8 },
  },
  "async-backend": { from: asynchronous, change: { "loss_fn.use_importance_sampling_correction": false } },
  "async-no-dapo": { from: asynchronous, change: { "grpo.use_dynamic_sampling": true } },
  "gym-async-http": { change: { "policy.generation.vllm_cfg.expose_http_server": false } },
  "gym-no-max-val": { change: { "grpo.max_val_samples": 64 } },
  "gym-no-stop-strings": { change: { "policy.generation.stop_strings": ["</answer>"] } },
  "val-sampling": { from: main, change: { "policy.generation.val_top_k": 5 } },
  "val-dataset": { change: { "grpo.val_period": 5 } },
  "batch-multiplier": { change: { "grpo.batch_multiplier": 2 } },
  "on-policy-ratio": {
    base: { "policy.train_global_batch_size": 32 },
    change: { "loss_fn.force_on_policy_ratio": true },
  },
  "skip-ref": { change: { "loss_fn.reference_policy_kl_penalty": 0.01 } },
  "early-stop": { from: main, change: { "grpo.stop_at_validation_metric": "accuracy" } },
  "penalties-gym": {
    from: main,
    base: noGym,
    change: { "reward_penalties.penalize_empty_final_answer": true },
  },
  tis: {
    change: {
      "loss_fn.truncated_importance_sampling_type": "tis",
      "loss_fn.truncated_importance_sampling_ratio": 2,
    },
  },
  gspo: { change: { "loss_fn.sequence_level_importance_ratios": true } },
  cispo: { base: { "loss_fn.use_cispo": true }, change: { "loss_fn.ratio_clip_c": 3 } },
  "ckpt-metric": { change: { "checkpointing.metric_name": "accuracy" } },
  "ckpt-required": { change: { "checkpointing.save_optimizer": GONE } },
  "sft-megatron-block": {
    from: shared,
    base: megatronSft,
    change: { "policy.megatron_cfg.use_linear_ce_fusion_loss": GONE },
  },
  "sft-noval": { from: shared, base: megatronSft, change: { "sft.val_period": 10 } },
};

/** Other ways to break the same constraints. */
const MORE: readonly (readonly [id: string, given: Case])[] = [
  [
    "backend-xor",
    { from: { placement: "colocated" }, base: ON_DTENSOR, change: { "policy.dtensor_cfg.enabled": false } },
  ],
  [
    "hsdp-needs-v2",
    {
      base: { ...ON_DTENSOR, "policy.dtensor_cfg.dp_replicate_size": 2, "checkpointing.model_save_format": null },
      change: { "policy.dtensor_cfg._v2": false },
    },
  ],
  ["draft-megatron", { base: ON_DTENSOR, change: { "policy.draft": { enabled: true } } }],
  [
    "dt-cp-no-vlm",
    { from: qwen3, base: { ...ON_DTENSOR, ...split }, change: { "policy.tokenizer.use_processor": true } },
  ],
  ["mg-cp-needs-pack", { from: main, change: { "policy.megatron_cfg.use_fused_linear_logprobs": true } }],
  ["mg-cp-needs-pack", { change: { "policy.megatron_cfg.use_linear_ce_fusion_loss": true } }],
  [
    "mg-fused-no-pack",
    {
      from: main,
      base: {
        ...short,
        "policy.megatron_cfg.context_parallel_size": 1,
        "policy.sequence_packing": { enabled: false },
      },
      change: {
        "policy.megatron_cfg.use_fused_linear_logprobs": true,
        "policy.generation.top_p": 0.9,
        "policy.generation.val_top_p": 0.9,
      },
    },
  ],
  ["mg-offload-modules", { from: main, change: { "policy.megatron_cfg.fine_grained_activation_offloading": true } }],
  ["mg-opt-offload", { from: main, change: { "policy.megatron_cfg.optimizer.overlap_cpu_optimizer_d2h_h2d": true } }],
  [
    "mg-opt-offload",
    {
      base: {
        "policy.megatron_cfg.optimizer.optimizer_cpu_offload": true,
        "policy.megatron_cfg.optimizer.optimizer_offload_fraction": 1,
      },
      change: { "policy.megatron_cfg.optimizer.optimizer_offload_fraction": 0.5 },
    },
  ],
  ["mg-peft-dim-alpha", { change: { "policy.megatron_cfg.peft.alpha": null } }],
  ["vllm-ep", { change: { "policy.generation.vllm_cfg.expert_parallel_size": 6 } }],
  ["sampling-range", { change: { "policy.generation.top_p": 0 } }],
  ["fp8-rollout", { change: { "policy.generation.vllm_cfg.precision": "fp8" } }],
  ["noncolo-multinode", { change: { "policy.generation.colocated.resources.num_nodes": 3 } }],
  [
    "async-backend",
    {
      from: shared,
      base: { "loss_fn.use_importance_sampling_correction": true },
      change: { "grpo.async_grpo.enabled": true },
    },
  ],
  ["gym-no-stop-strings", { change: { "policy.generation.top_k": 20 } }],
  ["val-sampling", { from: main, change: { "policy.generation.val_temperature": GONE } }],
  ["val-sampling", { from: main, base: noGym, change: { "policy.generation.val_temperature": 0.5 } }],
  ["val-dataset", { change: { "grpo.val_at_end": true } }],
  [
    "early-stop",
    {
      from: main,
      change: { "grpo.stop_at_validation_metric": "pass_k", "grpo.stop_at_validation_threshold": 0.9 },
    },
  ],
  ["penalties-gym", { from: main, change: { "reward_penalties.penalize_unwanted_tokens": true } }],
  [
    "tis",
    {
      base: { "loss_fn.use_importance_sampling_correction": true },
      change: {
        "loss_fn.truncated_importance_sampling_type": "icepop",
        "loss_fn.truncated_importance_sampling_ratio": 2,
      },
    },
  ],
  ["cispo", { base: { "loss_fn.use_cispo": true }, change: { "loss_fn.disable_ppo_ratio": true } }],
  ["sft-megatron-block", { from: shared, base: { ...AS_SFT, ...ON_DTENSOR }, change: { "policy.megatron_cfg": GONE } }],
];

/** Rules of ours: what the real trainer does not check. */
const OUR_CASES: Readonly<Record<string, Case>> = {
  "cluster-is-world": { nodes: 4 },
  "lengths-nest": { change: { "policy.generation.vllm_cfg.max_model_len": 131_071 } },
  "longest-fits-a-pack": { change: { "policy.sequence_packing.train_mb_tokens": 65_536 } },
  "mask-is-small": {
    base: {
      ...short,
      "policy.megatron_cfg.context_parallel_size": 1,
      "policy.sequence_packing": { enabled: false },
    },
    change: { "policy.max_total_sequence_length": 8224 },
  },
  "batch-divides": {
    base: { "policy.megatron_cfg.context_parallel_size": 2, "policy.make_sequence_length_divisible_by": 16 },
    change: {
      "grpo.num_prompts_per_step": 1,
      "grpo.num_generations_per_prompt": 9,
      "policy.train_global_batch_size": 9,
    },
  },
  "step-divides": { change: { "policy.train_global_batch_size": 48 } },
  "warmup-ends": { change: { "policy.megatron_cfg.scheduler.lr_warmup_iters": 40 } },
  "yarn-reaches": {
    from: qwen3,
    change: {
      "policy.hf_config_overrides.rope_scaling.factor": 2,
      "policy.hf_overrides.rope_scaling.factor": 2,
    },
  },
  "yarn-exports": { from: qwen3, change: { "policy.hf_overrides": GONE } },
  "vision-frozen": { from: main, change: { "policy.megatron_cfg.freeze_config.freeze_vision_model": false } },
  "vision-not-trained": {
    from: { lora: false },
    change: { "policy.megatron_cfg.optimizer.weight_decay": 0.01 },
  },
  "adapters-on-text": { change: { "policy.megatron_cfg.peft.target_modules": ["linear_qkv"] } },
  "no-expandable-segments": {
    from: { placement: "colocated" },
    env: { TORCH_CUDA_ARCH_LIST: "9.0", PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True" },
  },
};

function issuesOf({ from, base, change, env, nodes }: Case): {
  before: unknown[];
  after: ReturnType<typeof nemoRlFindings>;
} {
  const input = stageInput(from);
  const context = contextOf(input);
  const valid = changed(renderNemoRl(input), base ?? {});
  const world = { ...context.world, ...(nodes === undefined || change === undefined ? {} : { nodes }) };
  const broken = changed(valid, change ?? {});
  return {
    before: nemoRlFindings(valid, { ...context, world }),
    after: nemoRlFindings(broken, {
      ...context,
      world: { ...world, nodes: nodes ?? world.nodes },
      env: env ?? context.env,
    }),
  };
}

describe("a constraint of NeMo-RL is broken by itself", () => {
  test.each([...Object.entries(CASES), ...MORE])("%s", (id, given) => {
    const { before, after } = issuesOf(given);
    expect(before).toEqual([]);
    expect(after.map(({ code, allowed }) => ({ code, id: /\(([\w-]+): [^()]*.*\)$/.exec(allowed)?.[1] }))).toEqual([
      { code: "nemo-rl-constraint", id },
    ]);
    for (const part of Object.values(after[0] ?? {})) expect(part).not.toBe("");
  });
});

describe("a rule of ours is broken by itself", () => {
  test.each(Object.entries(OUR_CASES))("%s", (id, given) => {
    const { before, after } = issuesOf(given);
    expect(before).toEqual([]);
    expect(after.map(({ code, allowed }) => ({ code, known: allowed.includes(`(${id}: `) }))).toEqual([
      { code: "nemo-rl-inconsistent", known: true },
    ]);
  });
});

test("every constraint has a rule and a test that breaks it", () => {
  const sorted = [...CONSTRAINTS].sort();
  expect(CONSTRAINTS).toHaveLength(56);
  expect(NEMO_RULES.map(({ id }) => id).sort()).toEqual(sorted);
  expect(Object.keys(CASES).sort()).toEqual(sorted);
  expect(
    RULES.filter((rule) => !NEMO_RULES.includes(rule))
      .map(({ id }) => id)
      .sort(),
  ).toEqual(Object.keys(OUR_CASES).sort());
});
