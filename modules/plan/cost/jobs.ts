/**
 * A stage's work + the partition's limit → starts, saves and jobs. Pure.
 */
import type { Model } from "../../../schemas/model.ts";
import type { Values } from "./assumptions.ts";

/** Before a job's limit the trainer saves and ends by itself: NVIDIA's long runs use 3 h 30 of 4 h (nemo.md 1.6). */
const SAVE_BEFORE_END_SECONDS = 1800;

/** What starting a job takes. */
export interface Start {
  /** Times the weights are read from shared storage: once to train, once more for engines. */
  readonly weightReads: number;
  readonly readGbPerSecond: number;
  /** The weights are first converted to Megatron's format; done once, the result is kept. */
  readonly convert: boolean;
}

/** Seconds from the job's start to its first step; `conversion` is paid by the first job only. */
export function startSeconds(model: Model, start: Start, values: Values): { each: number; conversion: number } {
  const gigabytes = (2 * model.parameters) / 1e9;
  return {
    each: values.containerSeconds + values.frameworkSeconds + (start.weightReads * gigabytes) / start.readGbPerSecond,
    conversion: start.convert ? gigabytes / values.convertGbPerSecond : 0,
  };
}

/** Saves of a stage: every so many steps, and the last. */
export function saves(steps: number, saveEverySteps: number): number {
  return Math.ceil(steps / saveEverySteps);
}

/** Seconds one save stops training. Training all weights saves two bytes of each and twelve of optimizer state. */
export function saveSeconds(model: Model, lora: boolean, nodes: number, values: Values): number {
  const weights = lora ? 0 : (14 * model.parameters) / (values.writeGbPerSecond * 1e9 * nodes);
  return values.saveSeconds + weights;
}

/** Jobs that a stage's work needs, each of which starts anew and ends before the limit to save. */
export function jobsNeeded(
  workSeconds: number,
  stepSeconds: number,
  startEachSeconds: number,
  maxWalltimeSeconds: number,
): number {
  const usable = Math.max(maxWalltimeSeconds - startEachSeconds - SAVE_BEFORE_END_SECONDS, stepSeconds);
  return Math.max(1, Math.ceil(workSeconds / usable));
}

/** Shortest limit under which a job gets as far as one saved step: start, that step, its save, and the time kept to end. */
export function shortestWalltimeSeconds(
  stepSeconds: number,
  start: { readonly each: number; readonly conversion: number; readonly save: number },
): number {
  return start.each + start.conversion + stepSeconds + start.save + SAVE_BEFORE_END_SECONDS;
}
