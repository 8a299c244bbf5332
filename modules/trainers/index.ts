/**
 * Trainers: a recipe's stage → configuration, launch and what is wrong with them; a trainer's folder → progress.
 * Takes a parsed recipe and an output folder. Reads that folder; starts nothing.
 */
import { automodel, nemoRl } from "./cluster.ts";
import { checkTrl, trl } from "./trl.ts";

export { isPinned } from "./launch/images.ts";
export { type BatchSize, checkpointSize, GYM_AGENT, renderFiles, START_CHECK_FAILED } from "./launch/index.ts";
export type { Command, ProgressReader, StepMetrics, Trainer, TrainingInputs, TrainingProgress } from "./trainer.ts";
export { pythonEnvironment, trl } from "./trl.ts";

/** What planning asks of trainers: one of one machine, and a cluster's two. */
export const trainers = {
  local: { renderConfig: trl.renderConfig, check: checkTrl },
  sft: automodel,
  rl: nemoRl,
};
