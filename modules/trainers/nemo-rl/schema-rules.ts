/**
 * What tools/nemo-rl-schema.ts adds to NeMo-RL's list of keys: keys that the code reads but the list lacks, sections
 * that stay open, and values that the real loader lets through although they fail, or do harm, hours later. Data only.
 */

type Rule = Readonly<Record<string, unknown>>;

const text = { type: "str", required: false } as const;
const flag = { type: "bool", required: false } as const;
const count = { type: "int", required: false } as const;

/** Arguments of the data sets' own constructors (nemo_rl/data/datasets/response_datasets/*.py). */
const DATASET_KEYS = Object.fromEntries(
  ["data.default", "data.train", "data.train[]", "data.validation", "data.validation[]"].flatMap((path) => [
    [`${path}.repeat`, count],
    [`${path}.max_samples`, count],
  ]),
);

/** Keys read by code that no typed section declares. */
export const EXTRA_KEYS = {
  ...DATASET_KEYS,
  // nemo_rl/models/megatron/train.py:518
  "policy.sequence_packing.fuse_loss": flag,
  // nemo_rl/models/automodel/setup.py:702
  "policy.dtensor_cfg.automodel_kwargs.attn_implementation": text,
  "policy.dtensor_cfg.automodel_kwargs.backend.rope_fusion": flag,
  // nemo_rl/models/generation/vllm/quantization/fp8.py:282
  "policy.generation.vllm_cfg.quantization_ignored_layer_kws": { type: "list[str]", required: false },
  // The converters read `hf_overrides` where training reads `hf_config_overrides` (examples/converters/*.py).
  "policy.hf_overrides": { type: "dict[str, Any]", required: false },
  // Every key here is an argument of wandb.init (nemo_rl/utils/logger.py, WandbLogger).
  "logger.wandb.id": text,
  "logger.wandb.resume": { type: "str", required: false, allowed: ["allow", "never", "must", "auto"] },
  "logger.wandb.group": text,
  "logger.wandb.job_type": text,
  "logger.wandb.notes": text,
  "logger.wandb.mode": { type: "str", required: false, allowed: ["online", "offline", "disabled", "shared"] },
  "logger.wandb.tags": { type: "list[str]", required: false },
  // Read with a default by the actor that starts Gym (nemo_rl/environments/nemo_gym.py).
  "env.nemo_gym.rollout_max_attempts_to_avoid_lp_nan": count,
  // Settings of Gym itself that NVIDIA's recipes use.
  "env.nemo_gym.use_absolute_ip": flag,
  "env.nemo_gym.uv_pip_set_python": flag,
  "env.nemo_gym.policy_max_input_tokens": count,
} as const;

/** Types that the list took from an exemplar's interpolation or null. */
export const TYPE_FIXES: Readonly<Record<string, string>> = {
  "policy.generation.mcore_generation_config.max_model_len": "int",
  "policy.megatron_cfg.moe_router_dtype": "str | null",
  "policy.generation.vllm_cfg.tool_parser_plugin": "str | null",
  "policy.generation.vllm_cfg.reasoning_parser_plugin": "str | null",
};

/** Keys that the types call required and nothing needs: every recipe that NVIDIA ships leaves them out. */
export const OPTIONAL: readonly string[] = [
  "data_plane.ack_timeout_ms",
  "data_plane.controller_address",
  "data_plane.observability",
  // Set by configure_generation_config before the types are looked at (nemo_rl/models/generation/__init__.py).
  "policy.generation.vllm_cfg.skip_tokenizer_init",
];

/** Sections that take names of the user's own, and what may stand under such a name. */
export const FREE: Readonly<Record<string, Rule | boolean>> = {
  // Environments by name (math, code …), beside the keys of Gym.
  env: { type: "object" },
  // Server instances by name; a bare value under a name that is no key is a misspelling.
  "env.nemo_gym": { type: "object" },
};

const atLeast1: Rule = { minimum: 1 };
const notNegative: Rule = { minimum: 0 };
const above0: Rule = { exclusiveMinimum: 0 };
const share: Rule = { minimum: 0, maximum: 1 };
const port: Rule = { minimum: 1, maximum: 65_535 };
const precision: Rule = { enum: ["bfloat16", "float16", "float32"] };

function each(paths: readonly string[], rule: Rule): Record<string, Rule> {
  return Object.fromEntries(paths.map((path) => [path, rule]));
}

/** Values that the real loader lets through. */
export const VALUE_RULES: Readonly<Record<string, Rule>> = {
  ...each(
    [
      "grpo.num_prompts_per_step",
      "grpo.num_generations_per_prompt",
      "grpo.max_num_steps",
      "grpo.max_num_epochs",
      "grpo.max_rollout_turns",
      "grpo.dynamic_sampling_max_gen_batches",
      "grpo.async_grpo.max_trajectory_age_steps",
      "sft.max_num_steps",
      "sft.max_num_epochs",
      "sft.val_global_batch_size",
      "sft.val_micro_batch_size",
      "policy.train_global_batch_size",
      "policy.train_micro_batch_size",
      "policy.generation_batch_size",
      "policy.max_total_sequence_length",
      "policy.make_sequence_length_divisible_by",
      "policy.dtensor_cfg.tensor_parallel_size",
      "policy.dtensor_cfg.context_parallel_size",
      "policy.dtensor_cfg.expert_parallel_size",
      "policy.dtensor_cfg.dp_replicate_size",
      "policy.dtensor_cfg.lora_cfg.dim",
      "policy.megatron_cfg.tensor_model_parallel_size",
      "policy.megatron_cfg.pipeline_model_parallel_size",
      "policy.megatron_cfg.context_parallel_size",
      "policy.megatron_cfg.expert_model_parallel_size",
      "policy.megatron_cfg.expert_tensor_parallel_size",
      "policy.megatron_cfg.peft.dim",
      "policy.sequence_packing.train_mb_tokens",
      "policy.sequence_packing.logprob_mb_tokens",
      "policy.generation.max_new_tokens",
      "policy.generation.vllm_cfg.tensor_parallel_size",
      "policy.generation.vllm_cfg.pipeline_parallel_size",
      "policy.generation.vllm_cfg.expert_parallel_size",
      "policy.generation.vllm_cfg.max_model_len",
      "checkpointing.save_period",
      "checkpointing.keep_top_k",
      "cluster.num_nodes",
      "cluster.gpus_per_node",
    ],
    atLeast1,
  ),
  ...each(["policy.logprob_batch_size", "policy.logprob_chunk_size", "data.train.repeat"], atLeast1),
  ...each(
    [
      "data.num_workers",
      "loss_fn.reference_policy_kl_penalty",
      "policy.megatron_cfg.empty_unused_memory_level",
      "policy.megatron_cfg.optimizer.min_lr",
      "policy.megatron_cfg.optimizer.weight_decay",
      "policy.megatron_cfg.scheduler.lr_warmup_iters",
      "policy.megatron_cfg.scheduler.lr_warmup_init",
      "loss_fn.ratio_clip_min",
      "loss_fn.ratio_clip_max",
    ],
    notNegative,
  ),
  ...each(["policy.max_grad_norm", "policy.megatron_cfg.optimizer.lr", "policy.generation.temperature"], above0),
  ...each(
    [
      "policy.megatron_cfg.optimizer.adam_beta1",
      "policy.megatron_cfg.optimizer.adam_beta2",
      "policy.megatron_cfg.peft.dropout",
      "policy.dtensor_cfg.lora_cfg.dropout",
    ],
    share,
  ),
  "policy.generation.vllm_cfg.gpu_memory_utilization": { exclusiveMinimum: 0, maximum: 1 },
  ...each(
    [
      "cluster.master_port_range_low",
      "cluster.master_port_range_high",
      "policy.generation.port_range_low",
      "policy.generation.port_range_high",
      "env.nemo_gym.port_range_low",
      "env.nemo_gym.port_range_high",
    ],
    port,
  ),
  // "bf16" is accepted by the loader and known to nothing behind it.
  ...each(["policy.precision", "policy.megatron_cfg.pipeline_dtype"], precision),
  "policy.generation.vllm_cfg.precision": { enum: ["bfloat16", "float16", "float32", "fp8"] },
  "policy.generation.backend": { enum: ["vllm", "megatron"] },
  "policy.megatron_cfg.optimizer.optimizer": { enum: ["adam", "sgd"] },
  "policy.megatron_cfg.scheduler.lr_decay_style": { enum: ["constant", "linear", "cosine", "inverse-square-root"] },
  "policy.megatron_cfg.scheduler.weight_decay_incr_style": { enum: ["constant", "linear", "cosine"] },
  "loss_fn.reference_policy_kl_type": { enum: ["k1", "k2", "k3"] },
  "loss_fn.truncated_importance_sampling_type": { enum: ["tis", "icepop", "seq-mask-tis", null] },
  // Remote-code module names are made from the last part of the path, which a trailing slash leaves empty.
  ...each(["policy.model_name", "policy.tokenizer.name"], {
    pattern: "[^/]$",
    description: "a path without a slash at its end",
  }),
  // nemo_rl/utils/timer.py: days, hours, minutes, seconds.
  "checkpointing.checkpoint_must_save_by": {
    pattern: "^[0-9]{2}:[0-9]{2}:[0-9]{2}:[0-9]{2}$",
    description: "days, hours, minutes and seconds, e.g. 00:03:30:00",
  },
};
