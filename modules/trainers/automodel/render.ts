/**
 * A recipe's SFT stage → the configuration of nemo-automodel 0.7.0, a plain object that becomes
 * `sft.automodel.yaml`. Paths begin with the environment variable RUN_DIR, which Automodel fills in while loading. Pure.
 *
 * A default of Automodel that matters is written out, so that the file says what is trained.
 */
import type { Model } from "../../../schemas/model.ts";
import type { SftRlRecipe } from "../../../schemas/recipe.ts";
import { ofLanguageModel, ropeParameters } from "../../../schemas/rope.ts";
import type { StageInput } from "../../../schemas/stage.ts";
import { type Config, deepMerge } from "../config-path.ts";
import { architectureOf } from "./architecture.ts";

/** The recipe class for text: it takes chat datasets, also for a model that could see. */
export const RECIPE_CLASS = "TrainFinetuneRecipeForNextTokenPrediction";

/** The run's folder on shared storage, as Automodel's loader fills it in from the job's environment. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: it is not for JavaScript to fill in.
export const RUN_DIR = "${RUN_DIR}";

/** Where the stage's checkpoints lie: epoch_E_step_S folders, S counted from 0 (step 40 of a recipe is S = 39). */
const CHECKPOINT_DIR = `${RUN_DIR}/trainer/sft`;

/** What a job's batch script forwards to the workers before Slurm's limit; Automodel saves and ends at the next step. */
export const PREEMPTION_SIGNAL = "SIGUSR1";

/**
 * Minutes a collective operation may take; the default is 1. Ranks wait for each other while 56 GB of weights are read
 * and while a checkpoint is written; NVIDIA's long-context recipes set 10 to 120.
 */
const TIMEOUT_MINUTES = 60;

/** NVIDIA's recipes for this family; AdamW's 0.999 averages over more steps than a short SFT has. */
const ADAM_BETAS = [0.9, 0.95];

/**
 * Automodel's ChatDataset with every tool call's arguments: launch/files/chat_data.py, on the job's PYTHONPATH. By its module's
 * name: no variable is filled in under _target_, and what is loaded by its path is not found again by the loader's processes.
 */
export const CHAT_DATASET = "chat_data.ToolChatDatasetConfig";

/** Workers that tokenize ahead: a trajectory's mask costs a rendering of each of its prefixes. */
const DATALOADER_WORKERS = 4;

/** Modules that are no part of a language model, by NVIDIA's exclusion list for vision-language models. */
const NOT_LANGUAGE = ["*vision_tower*", "*vision*", "*visual*", "*image_encoder*", "*audio*", "*lm_head*"];

/** The configuration of an SFT stage, the recipe's overrides included. Throws where the stage is no SFT: a defect. */
export function renderAutomodel(input: StageInput): Record<string, unknown> {
  const { recipe, layout } = input;
  if (recipe.kind !== "sft-rl" || input.stage !== "sft" || layout.kind !== "sft")
    throw new TypeError(`Automodel runs SFT stages; this is ${input.stage} of a recipe of kind ${recipe.kind}`);
  return deepMerge(rendered(input, recipe, layout), recipe.sft.overrides ?? {});
}

function rendered(input: StageInput, { sft, seed, rope }: SftRlRecipe, layout: SftLayout): Config {
  const { model, target } = input;
  const { train } = layout;
  const architecture = architectureOf(model);
  // A pipeline needs at least as many micro batches as stages.
  const localBatchSize = layout.microBatch * train.pipelineParallel;
  const fusedLoss = train.pipelineParallel === 1 || architecture.fusedLossInPipeline;
  return {
    recipe: RECIPE_CLASS,
    // The recipe class reads this one; `rng` is what NVIDIA's examples write, and the class leaves it alone.
    seed,
    rng: { _target_: "nemo_automodel.components.training.rng.StatefulRNG", seed, ranked: true },
    dist_env: { backend: "nccl", timeout_minutes: TIMEOUT_MINUTES },
    step_scheduler: {
      max_steps: sft.steps,
      // As many passes over the data as the steps need; the default would stop after 10.
      num_epochs: null,
      global_batch_size: sft.batchSize,
      local_batch_size: localBatchSize,
      ckpt_every_steps: sft.saveEverySteps,
      // Only what the recipe declares, and what a preemption forces.
      save_checkpoint_every_epoch: false,
      // There is no validation set: the tasks held back are scored by evaluation, not by their loss.
      validate_on_checkpoint: false,
      val_every_steps: null,
      log_remote_every_steps: 1,
      preemption_signal: PREEMPTION_SIGNAL,
    },
    model: modelSection(input, sft, rope),
    ...(sft.lora ? { peft: peftSection(model, sft.lora, train.tensorParallel) } : {}),
    // The vision tower sees no image in text-only training: nothing of it may move.
    ...(model.visionParameters > 0
      ? { freeze_config: { freeze_vision_tower: true, freeze_audio_tower: true, freeze_language_model: false } }
      : {}),
    distributed: {
      strategy: "fsdp2",
      dp_size: train.dataParallel,
      dp_replicate_size: 1,
      tp_size: train.tensorParallel,
      cp_size: train.contextParallel,
      pp_size: train.pipelineParallel,
      ep_size: train.expertParallel,
      sequence_parallel: train.sequenceParallel && architecture.sequenceParallel,
      activation_checkpointing: true,
      // Deferred, each GPU keeps whole gradients between micro batches: out of memory on NVIDIA's 32B run at 128k.
      defer_fsdp_grad_sync: false,
      ...(train.pipelineParallel > 1
        ? { pipeline: { pp_schedule: "1f1b", pp_microbatch_size: layout.microBatch } }
        : {}),
    },
    // Workspaces and kernel choices are made while memory is still free, not at the first step's peak.
    prewarm: { cublas_backward: true, comm_groups: true, fla_gdn_autotune: model.linearAttention !== null },
    loss_fn: {
      // Logits of 131,072 tokens over 248,320 words are 121 GiB in float32: the fused loss never holds them.
      _target_: fusedLoss
        ? "nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy"
        : // The trainer would fall back to this by itself, with a warning only.
          "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy",
    },
    dataset: {
      _target_: CHAT_DATASET,
      path_or_dataset_id: `${RUN_DIR}/data/sft.jsonl`,
      seq_length: input.contextTokens,
      // A cut trajectory has no end, and a model trained on it does not stop: the dataset leaves longer ones out and says how many.
      truncation: "do_not_truncate",
      padding: "do_not_pad",
      // Every assistant turn is trained on, its thoughts too, and the history stays as it was written.
      mask_history: false,
      mask_reasoning_content: false,
      // What the template puts before an answer is never generated by the model.
      mask_generation_prompt: true,
      skip_invalid_samples: false,
    },
    // Packing with context parallelism needs attention kernels that this model's path does not use.
    packed_sequence: { packed_sequence_size: 0 },
    dataloader: {
      _target_: "torchdata.stateful_dataloader.StatefulDataLoader",
      shuffle: true,
      drop_last: false,
      num_workers: DATALOADER_WORKERS,
      persistent_workers: true,
      pin_memory: true,
      collate_fn: {
        _target_: "nemo_automodel.components.datasets.utils.default_collater",
        // Each GPU of a sequence takes one chunk from its head and one from its tail.
        ...(train.contextParallel > 1 ? { pad_seq_len_divisible: 2 * train.contextParallel } : {}),
      },
    },
    optimizer: {
      _target_: "torch.optim.AdamW",
      lr: sft.learningRate,
      betas: ADAM_BETAS,
      eps: 1e-8,
      weight_decay: sft.weightDecay,
    },
    lr_scheduler: {
      lr_decay_style: sft.schedule,
      lr_warmup_steps: sft.warmupSteps,
      lr_decay_steps: sft.steps,
      // By default it would start at a tenth and end at a hundredth of the peak. The first step trains at this rate,
      // before the scheduler's first step, and it rises by as much every step after (components/optim/scheduler.py).
      init_lr: sft.learningRate / (sft.warmupSteps + 1),
      max_lr: sft.learningRate,
      min_lr: 0,
    },
    clip_grad_norm: { max_norm: sft.maxGradNorm },
    checkpoint: {
      enabled: true,
      checkpoint_dir: CHECKPOINT_DIR,
      model_save_format: "safetensors",
      // Adapters are whole as they are. Full weights are joined at every save: any of them may be reported.
      save_consolidated: sft.lora ? false : "every",
      consolidation_timeout_minutes: TIMEOUT_MINUTES,
      is_async: false,
      // All are kept: a bound counts the newest only, and saves forced by preemption would push declared ones out.
      max_recent_checkpoints: null,
      // The newest complete one of this run's own folder, so that a job that was ended goes on.
      restore_from: null,
    },
    ...(target.wandb ? { wandb: wandbSection(input, target.wandb) } : {}),
  };
}

type SftLayout = Extract<StageInput["layout"], { kind: "sft" }>;

function modelSection(input: StageInput, sft: SftRlRecipe["sft"], rope: SftRlRecipe["rope"]): Config {
  const { model } = input;
  const architecture = architectureOf(model);
  // Automodel puts the mapping in place of the model's own: it merges one level only (_transformers/model_init.py).
  const stretched = rope ? { rope_parameters: ropeParameters(rope, model.rotary) } : {};
  return {
    // Picks the class by the checkpoint's own architecture: Qwen3.5's conditional-generation class, which can share
    // sequences; asking for the text-only class by name would lose that.
    _target_: "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
    pretrained_model_name_or_path: input.startFrom,
    // Frozen weights are read, never rounded. Trained ones stay in float32 under bfloat16 arithmetic: AdamW's small
    // updates would round away in bfloat16 (Automodel's guide to mixed precision).
    torch_dtype: sft.lora ? "bfloat16" : "float32",
    // Context parallelism works on this attention; flash_attention_2 goes past it.
    attn_implementation: "sdpa",
    // What the fused loss works on.
    output_hidden_states: true,
    ...(architecture.native
      ? {
          backend: {
            _target_: "nemo_automodel.components.models.common.BackendConfig",
            attn: "sdpa",
            linear: "torch",
            rms_norm: "torch",
            rope_fusion: false,
          },
        }
      : {}),
    // The extra head that predicts further tokens: its logits cost memory, and neither rollouts nor evaluation use it.
    ...(model.family === "qwen3.5" ? { num_nextn_predict_layers: 0 } : {}),
    ...ofLanguageModel(model.visionParameters > 0 ? { output_hidden_states: true, ...stretched } : stretched, model),
  };
}

/** Adapters on the language model's linear modules only. Targets and exclusions exclude each other in Automodel. */
function peftSection(model: Model, lora: { rank: number; alpha?: number | undefined }, tensorParallel: number): Config {
  const { languageLayers } = architectureOf(model);
  return {
    _target_: "nemo_automodel.components._peft.lora.PeftConfig",
    ...(languageLayers ? { target_modules: [languageLayers] } : { exclude_modules: NOT_LANGUAGE }),
    match_all_linear: false,
    dim: lora.rank,
    alpha: lora.alpha ?? 2 * lora.rank,
    dropout: 0,
    // Its kernels know nothing of weights split over GPUs.
    use_triton: tensorParallel === 1,
  };
}

/** One W&B run for all jobs of the stage: a restart finds it by its id. */
function wandbSection({ name, identity }: StageInput, wandb: { entity: string; project: string }): Config {
  return {
    entity: wandb.entity,
    project: wandb.project,
    name: `${name}-sft`,
    id: identity,
    resume: "allow",
    dir: `${RUN_DIR}/logs`,
  };
}
