/**
 * Stage input → the NeMo-RL configuration of its GRPO run, as a complete document. Pure.
 *
 * It inherits no exemplar: sections that are typed dictionaries have no defaults in code, so every required key is
 * written, and the file means the same whatever exemplar the image carries. Numbers are written out, not interpolated,
 * so that they can be checked and compared.
 */

import type { RlLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import { ofLanguageModel, type Rope, ropeParameters } from "../../../schemas/rope.ts";
import type { StageInput } from "../../../schemas/stage.ts";
import { deepMerge } from "../config-path.ts";
import { saveMargin } from "../time-limit.ts";
import { type Dialect, PORTS } from "./dialect.ts";
import { generationConfig } from "./generation.ts";
import { megatronConfig } from "./megatron.ts";
import { configPath, fromEnvironment, RUN_FOLDER } from "./paths.ts";

/**
 * The model's settings that a RoPE block changes. Training and vLLM read `hf_config_overrides`, the converters that export
 * a checkpoint read `hf_overrides`: both get this. Megatron asserts YaRN's complete set. A text model's has the name that
 * NeMo-RL looks for; for one with vision it is unproven (no GPU here) that the bridge reads it below text_config.
 */
function ropeOverrides(rope: Rope, model: Model): Record<string, unknown> {
  const complete = {
    ...ropeParameters(rope, model.rotary),
    truncate: true,
    // mscale 1 and mscale_all_dim 0: attention is scaled by YaRN's own formula, as NVIDIA's YaRN recipes have it.
    mscale: 1,
    mscale_all_dim: 0,
  };
  const name = model.visionParameters > 0 ? "rope_parameters" : "rope_scaling";
  return ofLanguageModel({ [name]: complete }, model);
}

/** "01:23:15:00": days, hours, minutes, seconds. */
function daysAndTime(seconds: number): string {
  const parts = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  return [...parts, seconds % 60].map((part) => String(part).padStart(2, "0")).join(":");
}

/** True where rollouts go on while the trainer works. */
function isAsync({ rollouts }: StageInput["recipe"]["rl"]): boolean {
  return rollouts.placement === "dedicated" && rollouts.async !== undefined;
}

function grpo({ recipe: { rl, seed } }: StageInput, dialect: Dialect): Record<string, unknown> {
  const asynchronous = rl.rollouts.placement === "dedicated" ? rl.rollouts.async : undefined;
  const main = dialect === "main";
  return {
    num_prompts_per_step: rl.promptsPerStep,
    num_generations_per_prompt: rl.rolloutsPerPrompt,
    max_rollout_turns: rl.maxTurns,
    // An epoch has at least one step, so the steps end the run, never the epochs.
    max_num_epochs: rl.steps,
    max_num_steps: rl.steps,
    normalize_rewards: true,
    use_leave_one_out_baseline: true,
    // Checkpoints are declared before training and measured by the evaluation; the trainer validates nothing.
    val_period: 0,
    val_at_start: false,
    val_at_end: false,
    max_val_samples: null,
    val_batch_size: null,
    ...(main
      ? {
          val_start_at: -1,
          val_num_generations_per_prompt: 1,
          stop_at_validation_metric: null,
          stop_at_validation_threshold: null,
        }
      : {}),
    seed,
    overlong_filtering: false,
    advantage_clip_low: null,
    advantage_clip_high: null,
    use_dynamic_sampling: false,
    dynamic_sampling_max_gen_batches: 10,
    batch_multiplier: 1,
    reward_shaping: { enabled: false },
    reward_scaling: { enabled: false },
    adv_estimator: {
      name: "grpo",
      normalize_rewards: true,
      use_leave_one_out_baseline: true,
      minus_baseline: true,
    },
    seq_logprob_error_threshold: null,
    invalid_tool_call_advantage: null,
    malformed_thinking_advantage: null,
    skip_reference_policy_logprobs_calculation: rl.klPenalty === 0,
    async_grpo: {
      enabled: asynchronous !== undefined,
      max_trajectory_age_steps: asynchronous?.maxAgeSteps ?? 1,
      // Otherwise every update waits for the longest attempt under way, and a greater age brings nothing.
      in_flight_weight_updates: asynchronous !== undefined,
      recompute_kv_cache_after_weight_updates: false,
      ...(main ? { max_generation_failures: 0 } : {}),
    },
  };
}

function lossFn({ recipe: { rl } }: StageInput, isOffPolicy: boolean): Record<string, unknown> {
  return {
    reference_policy_kl_penalty: rl.klPenalty,
    reference_policy_kl_type: "k3",
    kl_input_clamp_value: 20,
    kl_output_clamp_value: 10,
    ratio_clip_min: rl.clip.low,
    ratio_clip_max: rl.clip.high,
    ratio_clip_c: null,
    use_on_policy_kl_approximation: false,
    use_importance_sampling_correction: isOffPolicy,
    truncated_importance_sampling_type: null,
    truncated_importance_sampling_ratio: null,
    truncated_importance_sampling_ratio_min: null,
    sequence_level_importance_ratios: false,
    token_level_loss: true,
    force_on_policy_ratio: false,
    use_kl_in_reward: false,
    use_cispo: false,
    disable_ppo_ratio: false,
    positive_example_nll_weight: 0,
  };
}

function policy(input: StageInput, layout: RlLayout, dialect: Dialect): Record<string, unknown> {
  const { recipe, model, contextTokens } = input;
  const { rl, rope } = recipe;
  const overrides = rope === undefined ? {} : ropeOverrides(rope, model);
  const startFrom = configPath(input.startFrom);
  return {
    model_name: startFrom,
    tokenizer: { name: startFrom, chat_template_kwargs: null },
    hf_config_overrides: overrides,
    ...(rope === undefined ? {} : { hf_overrides: overrides }),
    // One optimiser step a GRPO step.
    train_global_batch_size: rl.promptsPerStep * rl.rolloutsPerPrompt,
    train_micro_batch_size: 1,
    generation_batch_size: 32,
    logprob_batch_size: 1,
    logprob_chunk_size: layout.logprobChunkTokens,
    max_total_sequence_length: contextTokens,
    make_sequence_length_divisible_by: layout.sequenceDivisor,
    precision: "bfloat16",
    max_grad_norm: rl.maxGradNorm,
    // Colocated generation always moves the optimiser out of the way.
    offload_optimizer_for_logprob: layout.generationNodes > 0,
    dtensor_cfg: { enabled: false },
    megatron_cfg: megatronConfig({ rl, model, train: layout.train, contextTokens, dialect }),
    draft: { enabled: false },
    dynamic_batching: { enabled: false },
    sequence_packing: layout.packing
      ? {
          enabled: true,
          train_mb_tokens: contextTokens,
          logprob_mb_tokens: contextTokens,
          algorithm: "modified_first_fit_decreasing",
          sequence_length_round: 64,
          ...(dialect === "main" ? { microbatch_order: "packer" } : {}),
        }
      : { enabled: false },
    // DTensor's; Megatron has its own in megatron_cfg.
    optimizer: null,
    scheduler: null,
    generation: generationConfig({ rl, model, layout, contextTokens, dialect }),
  };
}

function checkpointing(input: StageInput): Record<string, unknown> {
  const { rl } = input.recipe;
  return {
    enabled: true,
    checkpoint_dir: `${RUN_FOLDER}/trainer/rl`,
    metric_name: null,
    higher_is_better: true,
    // As many as there can be: the loader refuses null here, and no declared checkpoint may be dropped.
    keep_top_k: rl.steps,
    save_period: rl.saveEverySteps,
    // The launch has the same number, and is refused where no time is left (walltime-too-short).
    checkpoint_must_save_by: daysAndTime(Math.max(0, input.walltimeSeconds - saveMargin(input).seconds)),
    model_save_format: "safetensors",
    save_consolidated: false,
    save_optimizer: true,
  };
}

function logger({ target, name, identity }: StageInput): Record<string, unknown> {
  const { wandb } = target;
  return {
    log_dir: `${RUN_FOLDER}/logs/rl`,
    num_val_samples_to_print: 0,
    wandb_enabled: wandb !== undefined,
    tensorboard_enabled: true,
    mlflow_enabled: false,
    swanlab_enabled: false,
    monitor_gpus: true,
    // All of it goes to wandb.init: the same id and "allow" continue one run over restarts. An id takes no colon.
    wandb:
      wandb === undefined
        ? {}
        : {
            entity: wandb.entity,
            project: wandb.project,
            name: `${name}-rl`,
            id: fromEnvironment(identity),
            resume: "allow",
          },
    tensorboard: {},
    gpu_monitoring: { collection_interval: 10, flush_interval: 10 },
  };
}

function data({ recipe: { rl } }: StageInput): Record<string, unknown> {
  return {
    max_input_seq_length: null,
    shuffle: true,
    num_workers: 1,
    use_multiple_dataloader: false,
    train: {
      data_path: `${RUN_FOLDER}/data/rl-train.jsonl`,
      // The asynchronous collector stops for good after the first epoch (NVIDIA-NeMo/RL issue 2899); a file with one
      // step's tasks, this many times over, is long enough for all steps.
      ...(isAsync(rl) ? { repeat: rl.steps } : {}),
    },
    validation: null,
    default: {
      dataset_name: "NemoGymDataset",
      env_name: "nemo_gym",
      processor: "nemo_gym_data_processor",
      prompt_file: null,
      system_prompt_file: null,
    },
  };
}

const env = {
  should_use_nemo_gym: true,
  should_log_nemo_gym_responses: false,
  nemo_gym: {
    skip_venv_if_present: true,
    config_paths: [
      "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml",
      `${RUN_FOLDER}/gym/uplift.yaml`,
    ],
  },
};

/** The GRPO stage's whole configuration; the recipe's overrides are merged in last. */
export function renderNemoRl(input: StageInput): Record<string, unknown> {
  const { layout, target } = input;
  if (layout.kind !== "rl") throw new Error(`NeMo-RL renders the RL stage, not a layout of kind ${layout.kind}`);
  const dialect = target.nemoRl;
  const [low, high] = PORTS[dialect].master;
  const config = {
    grpo: grpo(input, dialect),
    // Old weights, or weights rounded to fp8, are another policy than the one that is trained.
    loss_fn: lossFn(input, isAsync(input.recipe.rl) || layout.generation.kvCacheDtype === "fp8"),
    checkpointing: checkpointing(input),
    policy: policy(input, layout, dialect),
    data: data(input),
    env,
    logger: logger(input),
    cluster: {
      gpus_per_node: layout.gpusPerNode,
      // Training and generation together.
      num_nodes: layout.nodes,
      master_port_range_low: low,
      master_port_range_high: high,
      segment_size: null,
    },
  };
  return deepMerge(structuredClone(config), input.recipe.rl.overrides ?? {});
}
