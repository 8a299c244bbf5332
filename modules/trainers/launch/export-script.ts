/**
 * Export script: a checkpoint job of a cluster's plan → what Slurm runs to turn the trainer's output into a merged,
 * verified Hugging Face model in RUN_DIR/checkpoints, with the plan's RoPE block in its config.json. The same plan
 * gives the same bytes. The converters themselves need a GPU and were not run here (unproven); the rest is tested.
 */
import { canonicalJson, digestJson, shortDigest } from "../../../schemas/digest.ts";
import type { Job, TrainJob } from "../../../schemas/job.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { ropeConfig } from "../../../schemas/rope.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { type BatchSize, exports, header } from "./batch-script.ts";
import { pyxisImage, squashFile } from "./images.ts";
import { AUTOMODEL_DIR, NEMO_RL_DIR } from "./launch-of.ts";
import { word } from "./shell.ts";
import { textOf } from "./texts.ts";

/** A checkpoint that a stage trained. */
export type TrainedCheckpoint = Extract<Job, { kind: "checkpoint" }> & { train: string };

/** File of the program that completes and verifies, in the run's folder. */
export const FINISH_CHECKPOINT = "slurm/finish_checkpoint.py";

/** What an export script is made from. */
interface Export {
  readonly checkpoint: TrainedCheckpoint;
  /** The stage it is of, with its launch. */
  readonly train: TrainJob;
  readonly recipe: Recipe;
  readonly model: Model;
  readonly contextTokens: number;
  readonly target: ClusterTarget;
  readonly size: BatchSize;
  readonly key: string;
  /** SHA-256 of the stage's configuration file, hex: the trainer's folder has to be of this one. */
  readonly configSha256: string;
  /** Commit of the start model; null for another stage's checkpoint, or where none is pinned. */
  readonly revision: string | null;
}

/** Of the stage's environment, what its converter needs as well. */
const KEPT = /^(HF_|TRANSFORMERS_|TOKENIZERS_|NRL_MEGATRON_|TORCH_CUDA_ARCH_LIST$)/;
/**
 * Tensors that need not come out: the head that predicts further tokens is neither trained nor served, and transformers
 * leaves it out when it loads the model to merge it.
 */
const MAY_LACK = "mtp.";

/** The script as it lies on the node. */
export function exportScript(one: Export): string {
  const { checkpoint, train, recipe, model, target, key } = one;
  const { launch } = train;
  if (launch === null) throw new TypeError(`job ${train.id} of a cluster's plan has no launch`);
  const image = pyxisImage(launch.image);
  const kept = Object.entries(launch.env).filter(([name]) => KEPT.test(name));
  const config = recipe.rope ? ropeConfig(recipe.rope, one.contextTokens, model) : {};
  return [
    "#!/usr/bin/env bash",
    ...header(one.size, key),
    `# Checkpoint ${checkpoint.id} of ${train.trainer}. Comes in: RUN_DIR with trainer/${train.id}. Goes out: a whole Hugging Face`,
    "# model in RUN_DIR/checkpoints. Written by uplift from a plan: change the recipe, not this file.",
    `key=${word(key)}`,
    `mount=${word(target.storage.mountPath)}`,
    textOf("run-dir.sh"),
    `job=${word(checkpoint.id)}`,
    `train=${word(train.id)}`,
    `step=${checkpoint.step}`,
    `config_sha256=${one.configSha256}`,
    `start_from=${word(launch.env.UPLIFT_START_FROM ?? "")}`,
    `revision=${word(one.revision ?? "")}`,
    `adapters=${isLora(recipe, train) ? 1 : 0}`,
    ...stageLines(train, model),
    `model_config=${word(canonicalJson(config))}`,
    `may_lack=${word(MAY_LACK)}`,
    `container=${word(image)}`,
    `squash_file=${word(squashFile(launch.image, target.storage.mountPath) ?? "")}`,
    `mounts=${word(`${target.storage.mountPath}:${target.storage.mountPath}`)}`,
    `workdir=${train.stage === "sft" ? AUTOMODEL_DIR : NEMO_RL_DIR}`,
    ...exports(Object.fromEntries(kept)),
    "",
    textOf("model-check.sh"),
    textOf("checkpoint-work.sh"),
    textOf("export-start.sh"),
    textOf(`export-${train.stage}.sh`),
    textOf("export-finish.sh").trimEnd(),
    "",
  ].join("\n");
}

function isLora(recipe: Recipe, { stage }: TrainJob): boolean {
  if (stage === "rl") return recipe.rl.lora !== undefined;
  return recipe.kind === "sft-rl" && recipe.sft.lora !== undefined;
}

/** What only one of the converters asks for. */
function stageLines(train: TrainJob, model: Model): string[] {
  // AutoModelForCausalLM would take the language model out of a model with vision.
  const modelClass = model.visionParameters > 0 ? "AutoModelForImageTextToText" : "AutoModelForCausalLM";
  if (train.stage === "sft") return [`model_class=${modelClass}`];
  return [`overrides_mark=${word(overridesMark(train.config))}`];
}

/**
 * End of the folder that NeMo-RL keeps the converted start model in: the first 12 hex digits of the SHA-256 of
 * hf_config_overrides as compact JSON with sorted keys, which is what canonicalJson writes.
 */
function overridesMark({ policy }: Readonly<Record<string, unknown>>): string {
  const overrides =
    (policy as { hf_config_overrides?: Record<string, unknown> } | undefined)?.hf_config_overrides ?? {};
  return Object.keys(overrides).length === 0 ? "" : `__hfovr_${shortDigest(digestJson(overrides))}`;
}
