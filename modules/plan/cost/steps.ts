/**
 * One optimiser step of SFT and of GRPO → where its seconds go. Pure.
 */

import type { GpuPeaks } from "../../../schemas/gpu-peaks.ts";
import type { RlLayout, SftLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Values } from "./assumptions.ts";
import { type BatchSplit, forwardFlops, passSeconds, splitBatch, type Training, trainFlops } from "./compute.ts";
import { type Batch, enginesOf, type Generation, generationSeconds } from "./generation.ts";

/** One step of SFT. */
export interface SftStep {
  readonly trainSeconds: number;
  readonly seconds: number;
}

/** Seconds of one SFT step: forward, recomputation, backward over the batch. */
export function sftStep(
  model: Model,
  peaks: GpuPeaks,
  layout: SftLayout,
  batch: { readonly sequences: number; readonly tokens: number; readonly training: Training },
  values: Values,
): SftStep {
  const split = splitBatch(layout.nodes * layout.gpusPerNode, layout.train.dataParallel, batch.sequences);
  const flops = batch.tokens * trainFlops(model, batch.tokens, batch.training);
  const trainSeconds = passSeconds(split, flops, peaks, values.trainMfu, values);
  return { trainSeconds, seconds: trainSeconds + values.stepSeconds };
}

/** What a GRPO step does. */
export interface RlWork {
  readonly contextTokens: number;
  readonly batch: Batch;
  readonly training: Training;
  /** A KL penalty needs the reference model's log-probabilities too. */
  readonly referencePass: boolean;
  /** Rollouts of the next steps go on while this one trains. */
  readonly async: boolean;
}

/** One step of GRPO. */
export interface RlStep {
  readonly generation: Generation;
  readonly split: BatchSplit;
  /** Tokens that training works on for each sequence, padding included. */
  readonly rowTokens: number;
  readonly logprobSeconds: number;
  readonly trainSeconds: number;
  /** New weights to the engines. */
  readonly refitSeconds: number;
  /** Trainer to sleep, engines awake, and back; 0 where they have GPUs of their own. */
  readonly switchSeconds: number;
  readonly seconds: number;
}

/** Seconds of one GRPO step: phases one after another, unless rollouts run beside training. */
export function rlStep(model: Model, peaks: GpuPeaks, layout: RlLayout, work: RlWork, values: Values): RlStep {
  const colocated = layout.generationNodes === 0;
  const trainGpus = (layout.nodes - layout.generationNodes) * layout.gpusPerNode;
  const engineGpus = colocated ? trainGpus : layout.generationNodes * layout.gpusPerNode;
  const engines = enginesOf(layout.generation, engineGpus, work.contextTokens);
  const generation = generationSeconds(model, peaks, engines, work.batch, values);

  // Packed, a sequence costs its own length. Not packed, NeMo-RL pads all of a step to the longest of them.
  const rowTokens = layout.packing ? work.batch.mean.tokens : work.batch.slowest.tokens;
  const split = {
    ...splitBatch(trainGpus, layout.train.dataParallel, work.batch.attempts),
    even: !layout.packing,
  };
  const forward = forwardFlops(model, rowTokens);
  const passes = work.referencePass ? 2 : 1;
  const logprobFlops = passes * rowTokens * (forward.weights + forward.attention);
  const logprobSeconds = passSeconds(split, logprobFlops, peaks, values.forwardMfu, values);
  const trainSeconds = passSeconds(
    split,
    rowTokens * trainFlops(model, rowTokens, work.training),
    peaks,
    values.trainMfu,
    values,
  );
  // Adapters are folded into the base weights before they are sent, so all weights move (nemo.md 1.5).
  const refitSeconds = (2 * model.parameters) / (values.refitGbPerSecond * 1e9);
  const switchSeconds = colocated ? values.switchSeconds : 0;
  const learning = logprobSeconds + trainSeconds + values.stepSeconds;
  const phases = work.async && !colocated ? Math.max(generation.seconds, learning) : generation.seconds + learning;
  const seconds = phases + refitSeconds + switchSeconds;
  return { generation, split, rowTokens, logprobSeconds, trainSeconds, refitSeconds, switchSeconds, seconds };
}
