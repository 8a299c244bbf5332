/**
 * Attempts on vLLM engines and an environment → seconds until the last one is done. Pure.
 *
 * Writing a token is bound by memory: every engine reads its weights, and each sequence's cache, once a token. Reading
 * (prompts, tool results) is bound by FLOPs. The environment's time passes beside both. A batch is done when its
 * slowest attempt is.
 */

import type { GpuPeaks } from "../../../schemas/gpu-peaks.ts";
import type { Engine } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import { cacheBytesPerToken } from "../fit/sizes.ts";
import type { Values } from "./assumptions.ts";
import type { Attempt } from "./attempts.ts";
import { forwardFlops } from "./compute.ts";

/** Engines of a stage. */
export interface Engines {
  readonly count: number;
  readonly gpus: number;
  readonly tensorParallel: number;
  /** Tokens all engines' caches hold together. */
  readonly cacheTokens: number;
  readonly cacheBytesPerValue: number;
}

/** vLLM takes at most this many sequences at once into one engine unless told otherwise (--max-num-seqs). */
const MAX_SEQUENCES_PER_ENGINE = 256;

/** The engines that a layout describes on so many GPUs. */
export function enginesOf(engine: Engine, gpus: number, contextTokens: number): Engines {
  return {
    count: Math.max(1, Math.floor(gpus / engine.tensorParallel)),
    gpus,
    tensorParallel: engine.tensorParallel,
    cacheTokens: Math.max(1, engine.concurrentSequences) * contextTokens,
    cacheBytesPerValue: engine.kvCacheDtype === "fp8" ? 1 : 2,
  };
}

/** Attempts of one batch. */
export interface Batch {
  readonly attempts: number;
  /** More than these are never under way at once, whatever the engines hold; null where nothing else limits them. */
  readonly atOnce: number | null;
  readonly mean: Attempt;
  readonly slowest: Attempt;
}

/** Where the time of a batch goes. */
export interface Generation {
  /** Attempts under way at once. */
  readonly active: number;
  readonly secondsPerToken: number;
  readonly meanSeconds: number;
  readonly slowestSeconds: number;
  readonly prefillSeconds: number;
  /** The whole batch. */
  readonly seconds: number;
}

/** Seconds of a batch of attempts. */
export function generationSeconds(
  model: Model,
  peaks: GpuPeaks,
  engines: Engines,
  batch: Batch,
  values: Values,
): Generation {
  const { mean, slowest } = batch;
  const bandwidth = peaks.memoryGbPerSecond * 1e9 * values.bandwidthShare;
  const wanted = Math.min(batch.attempts, batch.atOnce ?? batch.attempts, MAX_SEQUENCES_PER_ENGINE * engines.count);
  const active = Math.min(wanted, Math.max(1, engines.cacheTokens / mean.tokens));
  const perEngine = Math.max(1, active / engines.count);
  // A mixture's experts are read once an engine has enough sequences to use them all.
  const weights = Math.min(model.parameters, model.activeParameters * Math.max(1, wanted / engines.count)) * 2;
  const cache = perEngine * cacheBytesPerToken(model, engines.cacheBytesPerValue) * (mean.tokens / 2);
  // With more GPUs than KV heads each head lies on several: the cache stops shrinking, the weights don't.
  const bytes = weights / engines.tensorParallel + cache / Math.min(engines.tensorParallel, model.kvHeads);
  const flopsOfToken = forwardFlops(model, mean.tokens);
  const flops = Math.max(1, wanted / engines.count) * (flopsOfToken.weights + flopsOfToken.attention);
  const flopsPerSecond = peaks.bf16Teraflops * 1e12 * values.forwardMfu;
  const secondsPerToken = bytes / bandwidth + flops / (engines.tensorParallel * flopsPerSecond) + values.tokenOverhead;

  const own = ({ generated, turns }: Attempt) =>
    generated * secondsPerToken + turns * values.turnSeconds + values.attemptSeconds;
  const reread = model.linearAttention === null ? values.rereadShare : values.hybridRereadShare;
  const read = mean.tokens - mean.generated + reread * mean.turns * (mean.tokens / 2);
  const prefillSeconds =
    (batch.attempts * read * (flopsOfToken.weights + flopsOfToken.attention)) / (engines.gpus * flopsPerSecond);
  const meanSeconds = own(mean);
  const slowestSeconds = own(slowest);
  const waves = Math.max(1, batch.attempts / active);
  return {
    active,
    secondsPerToken,
    meanSeconds,
    slowestSeconds,
    prefillSeconds,
    seconds: (waves - 1) * meanSeconds + slowestSeconds + prefillSeconds,
  };
}
