/**
 * Register script: a cluster's plan → what Slurm runs to turn the base model's folder into a checkpoint that can be recorded:
 * every file hashed, its configuration and tensors checked, the probe conversations rendered by transformers in the SFT
 * image. The model is only read. The same plan gives the same bytes.
 */
import { modelFolder } from "../../../schemas/model.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { type BatchSize, exports, header } from "./batch-script.ts";
import { pyxisImage, squashFile } from "./images.ts";
import { AUTOMODEL_DIR } from "./launch-of.ts";
import { word } from "./shell.ts";
import { textOf } from "./texts.ts";

/** File of the program that hashes and renders, in the run's folder; it uses finish_checkpoint.py beside it. */
export const REGISTER_MODEL = "slurm/register_model.py";

/** The script as it lies on the node. */
export function registerScript(one: {
  readonly jobId: string;
  readonly baseModel: Plan["baseModel"];
  readonly target: ClusterTarget;
  readonly size: BatchSize;
  readonly key: string;
}): string {
  const { jobId, baseModel, target, size, key } = one;
  const { mountPath } = target.storage;
  const image = target.images.automodel;
  return [
    "#!/usr/bin/env bash",
    ...header(size, key),
    "# The base model. Comes in: RUN_DIR with data/probe-conversations.json. Goes out: hashes and probe in RUN_DIR/checkpoints.",
    "# Written by uplift from a plan: change the recipe, not this file.",
    `key=${word(key)}`,
    `mount=${word(mountPath)}`,
    textOf("run-dir.sh"),
    `job=${word(jobId)}`,
    `model=${word(modelFolder(mountPath, baseModel.name, baseModel.revision))}`,
    `revision=${word(baseModel.revision ?? "")}`,
    `container=${word(pyxisImage(image))}`,
    `squash_file=${word(squashFile(image, mountPath) ?? "")}`,
    `mounts=${word(`${mountPath}:${mountPath}`)}`,
    `workdir=${AUTOMODEL_DIR}`,
    // Nothing is asked of the network, and the run's folder gets no caches of Python's.
    ...exports({ HF_HUB_OFFLINE: "1", TRANSFORMERS_OFFLINE: "1", PYTHONDONTWRITEBYTECODE: "1" }),
    "",
    textOf("model-check.sh"),
    textOf("checkpoint-work.sh"),
    textOf("register.sh").trimEnd(),
    "",
  ].join("\n");
}
