/**
 * Who decides each key of NeMo-RL's configuration. Data only. What is free changes neither memory, steps, checkpoints,
 * sampling, cost nor what a score is compared with; all else has an owner, also keys that are not rendered.
 */
import { field, type Owners, part } from "../owners.ts";

const layout = part("the layout", "the plan has added up its memory and its time", "rl.parallelism");
const checkpoints = part(
  "the list of declared checkpoints",
  "each is kept, found and exported where the plan says",
  "rl.saveEverySteps and report",
);
const launch = part("the launch", "nodes, ports and time limits of the job follow from the target", "the target");
const evaluation = part(
  "the evaluation",
  "it alone scores checkpoints, and the trainer's own scores would not be comparable",
);
const sampling = part(
  "the loss",
  "it takes rollouts for samples of the policy itself, at rl.temperature and with nothing cut off",
);
const model = field("model");
const rope = field("rope", "rope, or another model");
const tasks = field("rl.tasks", "tasks or rl.tasks");
const attempts = field("rl.promptsPerStep", "rl.promptsPerStep or rl.rolloutsPerPrompt");
const wandb = part("the target's wandb", "the plan names the run, and restarts find it by its id");

const M = "policy.megatron_cfg";
const G = "policy.generation";
const V = `${G}.vllm_cfg`;

/** Of GRPO and its loss. */
const ALGORITHM: Owners = [
  [field("rl.steps"), "grpo.max_num_steps", "grpo.max_num_epochs", "grpo.stop_at_validation_*"],
  [field("rl.promptsPerStep"), "grpo.num_prompts_per_step"],
  [field("rl.rolloutsPerPrompt"), "grpo.num_generations_per_prompt"],
  [field("rl.maxTurns"), "grpo.max_rollout_turns"],
  [field("seed"), "grpo.seed"],
  [attempts, "grpo.use_dynamic_sampling", "grpo.dynamic_sampling_max_gen_batches", "grpo.batch_multiplier"],
  [field("rl.klPenalty"), "grpo.skip_reference_policy_logprobs_calculation", "loss_fn.reference_policy_kl_penalty"],
  [null, "grpo.async_grpo.max_generation_failures"],
  [field("rl.rollouts.async.maxAgeSteps"), "grpo.async_grpo.max_trajectory_age_steps"],
  [field("rl.rollouts.async"), "grpo.async_grpo.**"],
  [evaluation, "grpo.val_*", "grpo.max_val_samples"],
  [
    null,
    ...["overlong_filtering", "advantage_clip_*", "adv_estimator.**", "normalize_rewards"].map((key) => `grpo.${key}`),
    ...["use_leave_one_out_baseline", "reward_shaping.**", "reward_scaling.**"].map((key) => `grpo.${key}`),
    ...["seq_logprob_error_threshold", "invalid_tool_call_advantage"].map((key) => `grpo.${key}`),
    ...["malformed_thinking_advantage", "calculate_advantages_on_gpu", "debug_payload_metrics"].map(
      (key) => `grpo.${key}`,
    ),
    "reward_penalties.**",
  ],
  [part("the recipe's rl block", "steps, attempts and cost are counted from it"), "grpo.**"],
  [field("rl.clip.low"), "loss_fn.ratio_clip_min"],
  [field("rl.clip.high"), "loss_fn.ratio_clip_max"],
  [null, "loss_fn.**"],
];

/** Of Megatron, which trains. */
const TRAINING: Owners = [
  [field("rl.parallelism.tensorParallel"), `${M}.tensor_model_parallel_size`],
  [field("rl.parallelism.contextParallel"), `${M}.context_parallel_size`],
  [field("rl.parallelism.pipelineParallel"), `${M}.pipeline_model_parallel_size`],
  [field("rl.learningRate"), `${M}.optimizer.lr`],
  [field("rl.schedule"), `${M}.optimizer.min_lr`, `${M}.scheduler.lr_decay_style`],
  [field("rl.steps"), `${M}.scheduler.lr_decay_iters`],
  [field("rl.warmupSteps"), `${M}.scheduler.lr_warmup_*`],
  [field("rl.weightDecay"), `${M}.optimizer.weight_decay`, `${M}.scheduler.*`],
  [field("rl.maxGradNorm"), `${M}.optimizer.clip_grad`, "policy.max_grad_norm"],
  [field("rl.lora.rank"), `${M}.peft.dim`],
  [field("rl.lora.alpha"), `${M}.peft.alpha`],
  [field("rl.lora"), `${M}.peft.enabled`],
  [null, `${M}.optimizer.adam_*`, `${M}.peft.dropout*`, `${M}.peft.lora_*_init_method`],
  [null, `${M}.moe_per_layer_logging`, `${M}.moe_router_bias_update_rate`, `${M}.moe_router_load_balancing_type`],
  [layout, `${M}.env_vars.PYTORCH_*`],
  [null, `${M}.env_vars.**`],
  [checkpoints, `${M}.checkpoint.**`],
  [layout, `${M}.**`],
];

/** Of vLLM, which generates. */
const GENERATION: Owners = [
  [field("rl.temperature"), `${G}.temperature`, `${G}.val_temperature`],
  [sampling, ...["top_*", "val_top_*", "stop_*", "bad_words"].map((key) => `${G}.${key}`), `${V}.logprobs_mode`],
  [field("rl.maxTokensPerTurn"), `${G}.max_new_tokens`],
  [field("rl.rollouts.nodes"), `${G}.colocated.resources.num_nodes`],
  [field("rl.rollouts.placement"), `${G}.colocated.**`],
  [launch, `${G}.port_range_*`],
  [field("context"), `${V}.max_model_len`],
  [model, `${V}.http_server_serving_chat_kwargs.**`, `${V}.tool_parser_plugin`, `${V}.reasoning_parser_plugin`],
  [null, `${V}.enable_vllm_metrics_logger`, `${V}.vllm_metrics_logger_interval`, `${V}.use_tqdm`],
  [layout, `${V}.env_vars.PYTORCH_*`],
  [null, `${V}.env_vars.**`, `${G}.vllm_kwargs.disable_log_stats`, `${G}._debug_payload_metrics`],
  [layout, `${G}.**`],
];

/** The first row that matches a key decides. */
export const NEMO_RL_OWNERS: Owners = [
  ...ALGORITHM,
  [field("rl.saveEverySteps"), "checkpointing.save_period", "checkpointing.ft_save_period"],
  [launch, "checkpointing.checkpoint_must_save_by"],
  [checkpoints, "checkpointing.**"],
  [model, "policy.model_name", "policy.tokenizer.**", "policy.pretrained_checkpoint.**"],
  [rope, "policy.hf_config_overrides.**", "policy.hf_overrides.**"],
  [attempts, "policy.train_global_batch_size"],
  [field("context"), "policy.max_total_sequence_length"],
  [null, "policy.sequence_packing.algorithm", "policy.sequence_packing.microbatch_order"],
  ...TRAINING,
  ...GENERATION,
  [layout, "policy.**", "on_policy_distillation.**"],
  [null, "data.num_workers"],
  [tasks, "data.**"],
  [
    null,
    "env.should_log_nemo_gym_responses",
    ...["global_aiohttp_connector_limit*", "use_absolute_ip", "uv_*"].map((key) => `env.nemo_gym.${key}`),
    "env.nemo_gym.rollout_max_attempts_to_avoid_lp_nan",
  ],
  [launch, "env.nemo_gym.port_range_*", "env.nemo_gym.num_gpu_nodes", "env.nemo_gym.default_host"],
  [tasks, "env.**"],
  [wandb, "logger.wandb_enabled", ...["entity", "project", "id", "resume"].map((key) => `logger.wandb.${key}`)],
  [part("the run's folder", "its logs are looked for there"), "logger.log_dir"],
  [null, "logger.**"],
  [field("rl.parallelism.nodes"), "cluster.num_nodes"],
  [launch, "cluster.**", "data_plane.**"],
];
