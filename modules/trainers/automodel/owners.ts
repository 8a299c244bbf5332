/**
 * Who decides each key of Automodel's configuration. Data only. What is free changes neither memory, steps, checkpoints,
 * data, cost nor what a score is compared with; all else has an owner, also keys that are not rendered.
 */
import { field, type Owners, part } from "../owners.ts";

const layout = part("the layout", "the plan has added up its memory and its time", "sft.parallelism");
const checkpoints = part(
  "the list of declared checkpoints",
  "each is kept, found and exported where the plan says",
  "sft.saveEverySteps and report",
);
const evaluation = part("the evaluation", "it alone scores checkpoints, on tasks that are held out");
const recipeClass = part("the trainer", "chat trajectories need this class of Automodel's");
const wandb = part("the target's wandb", "the plan names the run, and restarts find it by its id");
const model = field("model");
const data = field("sft.data");
const learningRate = field("sft.learningRate");
const steps = field("sft.steps");
const schedule = field("sft.schedule");

/** The first row that matches a key decides. */
export const AUTOMODEL_OWNERS: Owners = [
  [recipeClass, "recipe.**"],
  [field("seed"), "seed", "rng.**"],
  [null, "dist_env.timeout_minutes"],
  [layout, "dist_env.**"],

  [steps, "step_scheduler.max_steps", "step_scheduler.num_epochs", "step_scheduler.start_*"],
  [field("sft.batchSize"), "step_scheduler.global_batch_size"],
  [field("sft.saveEverySteps"), "step_scheduler.ckpt_every_steps"],
  [layout, "step_scheduler.local_batch_size"],
  [checkpoints, "step_scheduler.save_checkpoint_every_epoch"],
  [evaluation, "step_scheduler.val*", "validation_data*.**", "tool_call_eval.**"],
  [
    null,
    ...["gc_every_steps", "log_remote_every_steps", "loss_average_window_steps", "preemption_signal"].map(
      (key) => `step_scheduler.${key}`,
    ),
  ],
  [steps, "step_scheduler.**"],

  // Dropout and the routers' own loss: what a model's configuration says of training alone.
  [
    null,
    ...["attention_dropout", "router_aux_loss_coef"].flatMap((key) => [`model.${key}`, `model.text_config.${key}`]),
  ],
  [field("rope"), "model.rope_parameters.**", "model.text_config.rope_parameters.**"],
  [
    layout,
    "model.torch_dtype",
    "model.attn_implementation",
    "model.backend.**",
    "model.use_*",
    "model.*output_hidden*",
  ],
  [model, "model.**", "processor.**", "embedding_row_repair.**"],

  [field("sft.lora.rank"), "peft.dim", "peft.moe_rank_scaling"],
  [field("sft.lora.alpha"), "peft.alpha"],
  [null, "peft.dropout*", "peft.lora_A_init", "peft.use_triton"],
  [field("sft.lora", "sft.lora; its modules follow from the model"), "peft.**"],
  [layout, "freeze_config.**"],

  [field("sft.parallelism.tensorParallel"), "distributed.tp_size"],
  [field("sft.parallelism.contextParallel"), "distributed.cp_size"],
  [field("sft.parallelism.pipelineParallel"), "distributed.pp_size"],
  [layout, "distributed.**", "prewarm.**", "loss_fn.**", "packed_sequence.**", "sdpa_method.**"],
  [layout, "compile.**", "fp8.**", "quantization.**", "qat.**"],

  [field("context"), "dataset.seq_length"],
  [model, "dataset.chat_template", "dataset.tokenizer.**", "dataset.start_of_turn_token"],
  [null, "dataset.mask_*"],
  [data, "dataset.**", "domain_mixture.**"],
  [null, ...["num_workers", "persistent_workers", "pin_memory", "prefetch_factor"].map((key) => `dataloader.${key}`)],
  [layout, "dataloader.batch_size", "dataloader.collate_fn.**"],
  [data, "dataloader.**"],

  [learningRate, "optimizer.lr", "lr_scheduler.max_lr"],
  [field("sft.weightDecay"), "optimizer.weight_decay", "lr_scheduler.*wd", "lr_scheduler.wd_*"],
  // Those that may take AdamW's place keep as much for each weight: see targets.ts.
  [null, "optimizer._target_", "optimizer.betas", "optimizer.eps"],
  [layout, "optimizer.**"],
  [field("sft.warmupSteps"), "lr_scheduler.lr_warmup_steps", "lr_scheduler.init_lr"],
  [steps, "lr_scheduler.lr_decay_steps"],
  [schedule, "lr_scheduler.**"],
  [field("sft.maxGradNorm"), "clip_grad_norm.**"],

  [null, "checkpoint.consolidation_timeout_minutes"],
  [checkpoints, "checkpoint.**"],
  [wandb, ...["entity", "project", "id", "resume", "dir"].map((key) => `wandb.${key}`)],
  [null, "wandb.**", "mlflow.**", "comet.**", "mfu.**", "nvtx", "neftune.**", "moe_metrics.**"],
];
