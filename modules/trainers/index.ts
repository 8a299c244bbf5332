/**
 * Trainers: a recipe's stage → configuration and command; a trainer's folder → progress.
 * Takes a parsed recipe and an output folder. Reads that folder; starts nothing.
 */
export type { Command, StepMetrics, Trainer, TrainingInputs, TrainingProgress } from "./trainer.ts";
export { pythonEnvironment, trl } from "./trl.ts";
