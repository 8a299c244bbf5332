/**
 * Model → counts and bytes that every stage's memory is made of: where the parameters are, KV cache and state of a
 * sequence, adapters, what a token costs inside one layer. Pure.
 */
import type { Model } from "../../../schemas/model.ts";
import { EXPERT_IMBALANCE } from "./constants.ts";

/** Bytes of a bfloat16 number. */
export const BF16 = 2;

/** Where a model's parameters are. */
export interface Parameters {
  /** Vision tower: frozen, and whole on each GPU that has it. */
  readonly vision: number;
  /** Embedding and output head, counted as two matrices. */
  readonly vocabulary: number;
  /** Experts of a mixture. */
  readonly experts: number;
  /** Everything else: mixers, norms, dense feed-forward. */
  readonly blocks: number;
  /** All but the vision tower. */
  readonly language: number;
}

/**
 * Splits a model's parameters. Of the experts a token uses perToken of count, so they follow from the totals:
 * all − active = experts × (1 − perToken / count). That holds for shared and latent experts too.
 */
export function splitParameters(model: Model): Parameters {
  const { experts: mixture, parameters, activeParameters, visionParameters: vision } = model;
  const experts = mixture === null ? 0 : (parameters - activeParameters) / (1 - mixture.perToken / mixture.count);
  const vocabulary = 2 * model.vocabularySize * model.hiddenSize;
  const blocks = Math.max(0, parameters - vision - vocabulary - experts);
  return { vision, vocabulary, experts, blocks, language: parameters - vision };
}

/** Bytes of keys and values that one token leaves in the cache: all GPUs of an engine together, KV heads not repeated. */
export function cacheBytesPerToken(model: Model, bytesPerValue: number): number {
  return 2 * model.fullAttentionLayers * model.kvHeads * model.headDim * bytesPerValue;
}

/** The same by the name of the cache's type. */
export function kvBytesPerToken(model: Model, dtype: "auto" | "fp8"): number {
  return cacheBytesPerToken(model, dtype === "fp8" ? 1 : BF16);
}

/** Bytes of the state that layers of linear attention keep of one sequence, whatever its length; in float32. */
export function stateBytes(model: Model): number {
  const { linearAttention: linear } = model;
  if (linear === null) return 0;
  return (model.layers - model.fullAttentionLayers) * linear.valueHeads * linear.headDim ** 2 * 4;
}

/** Widths of full attention: queries, and keys or values. */
function attentionWidths(model: Model): { query: number; kv: number } {
  return { query: model.attentionHeads * model.headDim, kv: model.kvHeads * model.headDim };
}

/** Parameters of rank-r adapters on every linear layer of the language model. */
export function adapterParameters(model: Model, rank: number): number {
  const { hiddenSize: h, ffnSize, layers, fullAttentionLayers, linearAttention: linear } = model;
  const { query, kv } = attentionWidths(model);
  const attention = h + query + 2 * (h + kv) + query + h;
  const state = linear === null ? 0 : linearWidths(model).projection + h + linearWidths(model).value + h;
  const feedForward = (isGated(model) ? 3 : 2) * (h + ffnSize) * (model.experts?.count ?? 1);
  return rank * (fullAttentionLayers * attention + (layers - fullAttentionLayers) * state + layers * feedForward);
}

function linearWidths(model: Model): { key: number; value: number; projection: number } {
  const linear = model.linearAttention ?? { keyHeads: 0, valueHeads: 0, headDim: 0 };
  const key = linear.keyHeads * linear.headDim;
  const value = linear.valueHeads * linear.headDim;
  return { key, value, projection: 2 * key + 2 * value };
}

/** Nemotron 3 uses a squared ReLU, which has no gate; the other families a gated unit. */
function isGated(model: Model): boolean {
  return model.family !== "nemotron";
}

/** What one token costs inside a part of a layer on one GPU without tensor parallelism, bytes. */
export interface PartBytes {
  /** While the part is recomputed and differentiated: values and gradients. */
  readonly working: number;
  /** Kept until the backward pass where nothing is recomputed. */
  readonly saved: number;
}

/**
 * The widest mixer. Full attention: queries, keys, values before and after rotation, output. Gated DeltaNet: projection,
 * convolution, keys repeated to the value heads, output and its norm; while it works also the kernel's intermediates
 * and the states at every 64 tokens, which the kernel makes again in the backward pass.
 */
export function mixerBytes(model: Model): PartBytes {
  const { query, kv } = attentionWidths(model);
  const attention = BF16 * (4 * query + 4 * kv);
  const { linearAttention: linear } = model;
  if (linear === null) return { working: 2 * attention, saved: attention };
  const { key, value, projection } = linearWidths(model);
  const saved = BF16 * (projection + (2 * key + value) + 2 * value + 2 * value);
  const inside = BF16 * (4 * value + (linear.valueHeads * linear.headDim ** 2) / 64);
  return { working: 2 * Math.max(attention, saved + inside), saved: Math.max(attention, saved) };
}

/**
 * The feed-forward part: gate, up and their product, the activation between while it works. Each token of a mixture is
 * sent to perToken experts and comes back: two hidden vectors a copy.
 */
export function feedForwardBytes(model: Model): PartBytes {
  const { experts, ffnSize, hiddenSize } = model;
  const widths = isGated(model) ? 4 : 2;
  const working = 2 * BF16 * widths * ffnSize;
  const saved = BF16 * (widths - 1) * ffnSize;
  if (experts === null) return { working, saved };
  const copies = EXPERT_IMBALANCE * experts.perToken;
  const sent = 2 * BF16 * hiddenSize;
  return { working: copies * (2 * sent + working), saved: copies * (sent + saved) };
}
