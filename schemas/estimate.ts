/**
 * Estimate: what a plan is expected to take, in attempts, hours and dollars, each as a range that says what it rests on.
 */
import { z } from "zod";

/** low and high are what `why` says; expected lies between. */
export const Range = z.strictObject({ low: z.number(), expected: z.number(), high: z.number() });
export type Range = z.infer<typeof Range>;

export const StageCost = z.strictObject({
  /** "export": trainers' checkpoints made into full models. */
  stage: z.enum(["sft", "rl", "export", "evaluation"]),
  nodes: z.number().int(),
  gpus: z.number().int(),
  /** Seconds of one optimiser step; of one checkpoint for export, of one attempt for evaluation. */
  stepSeconds: Range,
  hours: Range,
  gpuHours: Range,
  dollars: Range,
  /** The arithmetic and its assumptions, one sentence each. */
  why: z.array(z.string()),
});
export type StageCost = z.infer<typeof StageCost>;

export const Cost = z.strictObject({
  stages: z.array(StageCost),
  /** Of all stages; one after another. */
  hours: Range,
  gpuHours: Range,
  dollars: Range,
  /** Dollars of one node for one hour, and where that is from. */
  price: z.strictObject({
    dollarsPerNodeHour: z.number(),
    pricing: z.string(),
    tableDate: z.string(),
    source: z.string(),
  }),
});
export type Cost = z.infer<typeof Cost>;
