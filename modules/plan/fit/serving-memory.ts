/**
 * A vLLM engine → memory of one of its GPUs with one sequence of full length, and how many such sequences fit. The same
 * for endpoints and for rollouts. Pure.
 */
import type { Model } from "../../../schemas/model.ts";
import { GIB, GRAPH_CAPTURE_GIB, VLLM_OVERHEAD_GIB } from "./constants.ts";
import { billions, type Memory, memory, term } from "./memory.ts";
import { BF16, kvBytesPerToken, stateBytes } from "./sizes.ts";

/** One engine. */
export interface Serving {
  readonly model: Model;
  readonly contextTokens: number;
  readonly gpuGib: number;
  readonly tensorParallel: number;
  readonly gpuMemoryUtilization: number;
  readonly kvCacheDtype: "auto" | "fp8";
  /** Bytes of all weights, where they are not bfloat16. */
  readonly weightBytes?: number;
  /** Memory of each GPU that something else keeps while the engine works, GiB. Default 0. */
  readonly residentGib?: number;
}

/** An engine's memory and what its pool holds. */
export interface ServingMemory extends Memory {
  /** Sequences of full length in the engine's KV pool at once. */
  readonly sequences: number;
  /** Tokens in the pool. */
  readonly kvTokens: number;
}

/** GPUs that really share the KV cache: beyond the KV heads it is repeated. */
export function kvShards(model: Model, tensorParallel: number): number {
  return Math.min(tensorParallel, model.kvHeads);
}

/** Memory of one GPU of an engine. */
export function servingMemory(input: Serving): ServingMemory {
  const { model, contextTokens, tensorParallel: tp, kvCacheDtype } = input;
  const weightBytes = input.weightBytes ?? model.parameters * BF16;
  const shards = kvShards(model, tp);
  const perToken = kvBytesPerToken(model, kvCacheDtype) / shards;
  const state = stateBytes(model) / tp;
  const overhead = VLLM_OVERHEAD_GIB * GIB;
  // The pool is what utilisation grants, less weights and overhead; capture needs its room outside.
  const granted = Math.min(
    input.gpuGib * input.gpuMemoryUtilization,
    input.gpuGib - GRAPH_CAPTURE_GIB - (input.residentGib ?? 0),
  );
  const pool = Math.max(0, granted * GIB - weightBytes / tp - overhead);
  const repeated = tp > model.kvHeads ? `, ${model.kvHeads} KV heads repeated on ${tp} GPUs` : "";
  return {
    ...memory(
      "generation with one full sequence",
      [
        term("weights", weightBytes / tp, `${billions(weightBytes)} bytes / TP${tp}`),
        term(
          "KV cache of one sequence",
          contextTokens * perToken,
          `${contextTokens} tokens × ${perToken} bytes: ${model.fullAttentionLayers} of ${model.layers} layers, ${kvCacheDtype === "fp8" ? "fp8" : "bf16"}, over ${shards} GPUs${repeated}`,
        ),
        term("state of one sequence", state, "linear-attention layers, fixed size, fp32"),
        term("vLLM itself", overhead, "activations of a batch, sampler, NCCL; measured 4–10 GiB on other GPUs"),
      ],
      granted,
    ),
    sequences: Math.floor(pool / (contextTokens * perToken + state)),
    kvTokens: Math.floor(pool / perToken),
  };
}
