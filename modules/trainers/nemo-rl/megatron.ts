/**
 * Stage → policy.megatron_cfg: parallelism, memory, adapters, optimiser. Pure.
 * The block is complete: its keys have no defaults in code, and those of mixtures are read for dense models too.
 */
import type { RlLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import type { Dialect } from "./dialect.ts";

type Rl = Recipe["rl"];
type Degrees = RlLayout["train"];

/** From here on NVIDIA's recipes let go of cached memory at every change of phase, not only before generation. */
const LONG_CONTEXT_TOKENS = 131_072;

/** True for models whose checkpoint holds a vision tower that text alone never trains. */
function hasVision(model: Model): boolean {
  return model.visionParameters > 0;
}

/**
 * Linear layers of the language model, as Megatron names them. Where there is a vision tower its layers have the same
 * names, so the path says which are meant; DeltaNet layers have in_proj and out_proj in place of attention's.
 */
function loraTargets(model: Model): string[] {
  const names = [
    "linear_qkv",
    "linear_proj",
    "linear_fc1",
    "linear_fc2",
    ...(model.linearAttention === null ? [] : ["in_proj", "out_proj"]),
  ];
  return hasVision(model) ? names.map((name) => `*language_model.*.${name}`) : names;
}

function peft(rl: Rl, model: Model): Record<string, unknown> {
  if (rl.lora === undefined) return { enabled: false };
  return {
    enabled: true,
    target_modules: loraTargets(model),
    exclude_modules: [],
    dim: rl.lora.rank,
    alpha: rl.lora.alpha ?? 2 * rl.lora.rank,
    dropout: 0,
    dropout_position: "post",
    lora_A_init_method: "xavier",
    lora_B_init_method: "zero",
    a2a_experimental: false,
    // null: the adapters have the model's dtype. The exemplar's unquoted None would be the text "None".
    lora_dtype: null,
  };
}

function optimiser(rl: Rl): Record<string, unknown> {
  return {
    optimizer: "adam",
    lr: rl.learningRate,
    min_lr: rl.schedule === "constant" ? rl.learningRate : 0,
    weight_decay: rl.weightDecay,
    bf16: true,
    fp16: false,
    params_dtype: "float32",
    adam_beta1: 0.9,
    adam_beta2: 0.999,
    adam_eps: 1e-8,
    sgd_momentum: 0.9,
    use_distributed_optimizer: true,
    use_precision_aware_optimizer: true,
    clip_grad: rl.maxGradNorm,
    optimizer_cpu_offload: false,
    optimizer_offload_fraction: 0,
  };
}

function scheduler(rl: Rl): Record<string, unknown> {
  return {
    start_weight_decay: rl.weightDecay,
    end_weight_decay: rl.weightDecay,
    weight_decay_incr_style: "constant",
    lr_decay_style: rl.schedule,
    lr_decay_iters: rl.steps,
    lr_warmup_iters: rl.warmupSteps,
    // The first step trains at this rate, before the scheduler's first step; it rises by as much every step after.
    lr_warmup_init: rl.learningRate / (rl.warmupSteps + 1),
  };
}

/** Keys that main has and the release lacks. */
function newer(model: Model): Record<string, unknown> {
  return {
    model_overrides: {},
    // A folder that is listed as a checkpoint is then complete: nothing is written after it was announced.
    checkpoint: { async_save: false, ckpt_assume_constant_structure: true },
    use_fused_linear_logprobs: false,
    fused_linear_logprobs_chunk_size: 256,
    cuda_graph_impl: "none",
    cuda_graph_modules: [],
    cuda_graph_warmup_steps: 3,
    fine_grained_activation_offloading: false,
    offload_modules: null,
    use_gloo_process_groups: false,
    // Text alone never runs the vision tower; unfrozen, its buckets of gradients stay half full and step 2 fails
    // (NVIDIA-NeMo/RL pull request 4077). The release has no such key: see the rule vision-not-trained.
    ...(hasVision(model)
      ? {
          freeze_config: {
            freeze_vision_model: true,
            freeze_vision_projection: true,
            freeze_language_model: false,
          },
        }
      : {}),
  };
}

/** policy.megatron_cfg of a stage. */
export function megatronConfig(options: {
  readonly rl: Rl;
  readonly model: Model;
  readonly train: Degrees;
  readonly contextTokens: number;
  readonly dialect: Dialect;
}): Record<string, unknown> {
  const { rl, model, train, contextTokens, dialect } = options;
  return {
    enabled: true,
    force_reconvert_from_hf: false,
    empty_unused_memory_level: contextTokens >= LONG_CONTEXT_TOKENS ? 2 : 1,
    activation_checkpointing: true,
    recompute_granularity: "full",
    recompute_modules: null,
    tensor_model_parallel_size: train.tensorParallel,
    expert_tensor_parallel_size: 1,
    expert_model_parallel_size: train.expertParallel,
    pipeline_model_parallel_size: train.pipelineParallel,
    num_layers_in_first_pipeline_stage: null,
    num_layers_in_last_pipeline_stage: null,
    context_parallel_size: train.contextParallel,
    pipeline_dtype: "bfloat16",
    sequence_parallel: train.sequenceParallel,
    freeze_moe_router: true,
    moe_router_dtype: "fp64",
    moe_router_load_balancing_type: "none",
    moe_router_bias_update_rate: 0,
    moe_permute_fusion: true,
    moe_per_layer_logging: false,
    moe_enable_deepep: false,
    moe_token_dispatcher_type: "alltoall",
    moe_shared_expert_overlap: false,
    // Off in every Qwen3.5 recipe that NVIDIA ships: its rotary positions have three parts.
    apply_rope_fusion: model.family !== "qwen3.5",
    bias_activation_fusion: true,
    defer_fp32_logits: true,
    mtp_num_layers: 0,
    mtp_loss_scaling_factor: 0,
    mtp_use_repeated_layer: false,
    mtp_detach_heads: false,
    gradient_accumulation_fusion: false,
    use_fused_weighted_squared_relu: false,
    ...(dialect === "main" ? newer(model) : {}),
    peft: peft(rl, model),
    optimizer: optimiser(rl),
    scheduler: scheduler(rl),
    distributed_data_parallel_config: {
      grad_reduce_in_fp32: false,
      // Neither overlaps in NVIDIA's recipes of 128k tokens and more; with overlap a tower that never runs fails.
      overlap_grad_reduce: false,
      overlap_param_gather: false,
      use_custom_fsdp: false,
      data_parallel_sharding_strategy: "optim_grads_params",
    },
    fp8_cfg: { enabled: false, fp8: "e4m3", fp8_recipe: "blockwise", fp8_param: false },
    env_vars: null,
  };
}
