/**
 * Model + tokens → FLOPs, and the seconds a group of GPUs takes for them. Pure.
 *
 * A weight is one multiply-add a token: 2 FLOPs a parameter forward, as much again for the gradient of its input, as
 * much again for its own gradient, which frozen weights under adapters don't need. Recomputation adds one forward. Attention over the sequence comes on top, in the layers that have it:
 * scores and values are 2 × 2 × heads × width FLOPs a pair of positions, and a causal mean token sees half the
 * sequence. Its backward is 2.5 forwards (scores are made again inside the kernel). Linear-attention states, norms
 * and adapters are below 2 % and left out.
 */

import type { GpuPeaks } from "../../../schemas/gpu-peaks.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Values } from "./assumptions.ts";

/** FLOPs of weights and of attention for one token, forward. */
export interface TokenFlops {
  readonly weights: number;
  readonly attention: number;
}

/** Forward FLOPs of the mean token of a sequence. */
export function forwardFlops(model: Model, sequenceTokens: number): TokenFlops {
  return {
    weights: 2 * model.activeParameters,
    attention: 4 * model.attentionHeads * model.headDim * (sequenceTokens / 2) * model.fullAttentionLayers,
  };
}

/** What a training step does with weights and activations. */
export interface Training {
  /** Adapters are trained, the weights under them are frozen. */
  readonly lora: boolean;
  /** Activations are made again in the backward pass. */
  readonly recompute: boolean;
}

/** FLOPs of one token in a training step: forward, recomputation, backward. */
export function trainFlops(model: Model, sequenceTokens: number, { lora, recompute }: Training): number {
  const { weights, attention } = forwardFlops(model, sequenceTokens);
  const again = recompute ? 1 : 0;
  return (1 + again + (lora ? 1 : 2)) * weights + (1 + again + 2.5) * attention;
}

/** How a batch lies on GPUs. */
export interface BatchSplit {
  /** GPUs that share one sequence. */
  readonly groupGpus: number;
  /** Sequences the busiest group works on, one after another. */
  readonly sequencesEach: number;
  /** Groups that have work. */
  readonly groups: number;
  /** All sequences are padded to one length, so no group waits for another. */
  readonly even?: boolean;
}

/** Splits a batch over data-parallel groups; a group cannot have part of a sequence. */
export function splitBatch(gpus: number, dataParallel: number, sequences: number): BatchSplit {
  const groups = Math.min(dataParallel, sequences);
  return { groupGpus: gpus / dataParallel, sequencesEach: Math.ceil(sequences / dataParallel), groups };
}

/** How much longer the busiest group takes than the mean one: as a sum of n lengths varies less, by the root of n. */
export function imbalanceOf({ groups, sequencesEach, even = false }: BatchSplit, values: Values): number {
  return groups > 1 && !even ? 1 + (values.imbalance - 1) / Math.sqrt(sequencesEach) : 1;
}

/** Seconds of one pass with so many FLOPs a sequence; the busiest group decides. */
export function passSeconds(
  split: BatchSplit,
  flopsPerSequence: number,
  peaks: GpuPeaks,
  mfu: number,
  values: Values,
): number {
  const flops = split.sequencesEach * flopsPerSequence * imbalanceOf(split, values);
  return flops / (split.groupGpus * peaks.bf16Teraflops * 1e12 * mfu);
}
