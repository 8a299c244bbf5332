/**
 * vLLM flags: serving settings + layout + model → the arguments of `vllm serve` on one node of a cluster. Pure.
 * Every setting that decides an answer is spelled out, so that another version's default cannot change a number.
 * Flags as vLLM 0.17–0.26 name them; not run on a GPU here (unproven).
 */
import type { ServingSettings } from "../../schemas/endpoint.ts";
import type { ServingLayout } from "../../schemas/layout.ts";
import type { Model } from "../../schemas/model.ts";
import { type Rope, ropeConfig } from "../../schemas/rope.ts";

/** What is served. */
interface ServedModel {
  /** Folder of the full model. What starts the server checks that it is of the plan's revision. */
  readonly path: string;
  /** Name clients send as `model`. */
  readonly servedName: string;
  /** The model's row: whether it has a vision tower, hybrid attention, which rotary base. */
  readonly facts?: Model | null;
}

/** Port inside the pod or job. */
export const SERVING_PORT = 8000;

/** Tokens of one scheduling step: a long prompt is read in chunks of this many while others are answered. */
const BATCHED_TOKENS = 8192;
/** An attempt fills a quarter of the context on average: so many times more of them than full ones run at once. */
const ATTEMPTS_A_FULL_SEQUENCE = 4;
const SEQUENCES = { least: 8, most: 256 } as const;

/** The arguments after `vllm serve`; the first is the model. */
export function vllmFlags(settings: ServingSettings, layout: ServingLayout, model: ServedModel): string[] {
  const { engine } = layout;
  const facts = model.facts ?? null;
  const full = Math.ceil(engine.concurrentSequences / engine.dataParallel);
  const sequences = Math.min(SEQUENCES.most, Math.max(SEQUENCES.least, full * ATTEMPTS_A_FULL_SEQUENCE));
  return [
    model.path,
    ...["--served-model-name", model.servedName],
    ...["--host", "0.0.0.0", "--port", String(SERVING_PORT)],
    ...["--max-model-len", String(settings.contextTokens), "--dtype", settings.dtype],
    ...(settings.rope ? ["--hf-overrides", JSON.stringify(ropeOverride(settings, settings.rope, facts))] : []),
    ...["--tensor-parallel-size", String(engine.tensorParallel)],
    ...["--data-parallel-size", String(engine.dataParallel)],
    // The default was 0.9 and is 0.92; the plan's fit counts with this one.
    ...["--gpu-memory-utilization", String(engine.gpuMemoryUtilization)],
    ...["--kv-cache-dtype", settings.kvCacheDtype ?? engine.kvCacheDtype],
    ...["--enable-chunked-prefill", "--max-num-batched-tokens", String(BATCHED_TOKENS)],
    ...["--max-num-seqs", String(sequences)],
    cachesPrefixes(facts) ? "--enable-prefix-caching" : "--no-enable-prefix-caching",
    // All our messages are text: the tower would only take memory, and start-up would reserve more for images.
    ...(facts !== null && facts.visionParameters > 0 ? ["--language-model-only"] : []),
    ...["--enable-auto-tool-choice", "--tool-call-parser", settings.toolCallParser],
    ...(settings.reasoningParser ? ["--reasoning-parser", settings.reasoningParser] : []),
    // Sampling is what a request says, not what the repository's generation_config.json adds (top_k 20 …).
    ...["--generation-config", "vllm", "--seed", "0"],
    // No --speculative-config: the fix for speculation on gated DeltaNet is in no released version (vLLM#51812).
    "--disable-uvicorn-access-log",
  ];
}

/**
 * Each turn sends the whole history again, so a cache saves most of the reading. With gated DeltaNet layers it is
 * experimental, off by default, and was seen to hit nothing (vLLM#38988, #51250): an answer must not rest on it there.
 */
function cachesPrefixes(facts: Model | null): boolean {
  return facts !== null && facts.linearAttention === null;
}

/** The same stretch as in training. Without it a longer --max-model-len gives NaN or a crash (vLLM#17924). */
function ropeOverride(settings: ServingSettings, rope: Rope, facts: Model | null): Record<string, unknown> {
  if (rope.theta === undefined && !facts?.rotary)
    throw new TypeError("rope.theta has to be given: the model's rotary base is not known");
  return ropeConfig(rope, settings.contextTokens, facts);
}

/** How often and how long Kubernetes asks a server for its health. */
interface ProbeBudget {
  readonly startup: { readonly periodSeconds: number; readonly failureThreshold: number };
  readonly readiness: { readonly periodSeconds: number; readonly failureThreshold: number };
  readonly liveness: { readonly periodSeconds: number; readonly failureThreshold: number };
}

/** Probes that give a start as long as the plan says it may take, and then notice a dead server within two minutes. */
export function probeBudget({ startupSeconds }: ServingLayout): ProbeBudget {
  const periodSeconds = 10;
  return {
    startup: { periodSeconds, failureThreshold: Math.ceil(startupSeconds / periodSeconds) },
    readiness: { periodSeconds, failureThreshold: 3 },
    // A long prefill may delay one answer: only several misses in a row mean that it is gone.
    liveness: { periodSeconds: 20, failureThreshold: 6 },
  };
}
