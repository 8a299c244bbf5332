/**
 * GRPO with NeMo-RL → memory of one GPU while Megatron trains, and while vLLM generates on the same or other GPUs. Pure.
 */
import type { Degrees } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import {
  ADAM_BYTES,
  CHUNK_LOGIT_BYTES,
  FIRST_STEP_GIB,
  FP32_LOGIT_BYTES,
  FRAMEWORK_GIB,
  FUSED_LOGIT_BYTES,
  GIB,
  MASK_BYTES,
  SLEEPING_VLLM_GIB,
  TRAINING_SHARE,
} from "./constants.ts";
import { billions, load, type Memory, memory, type Term, term } from "./memory.ts";
import { adapterParameters, BF16, feedForwardBytes, mixerBytes, splitParameters } from "./sizes.ts";

/** A GRPO stage's training under one layout. */
export interface RlTraining {
  readonly model: Model;
  /** Longest sequence, tokens; a row of packed ones is as long. */
  readonly contextTokens: number;
  readonly gpuGib: number;
  readonly train: Degrees;
  readonly loraRank: number | null;
  /** Sequences lie packed in a row; where not, Megatron builds a mask of all pairs of positions. */
  readonly packing: boolean;
  /** Rollouts share the GPUs: vLLM sleeps there while training works. */
  readonly colocated: boolean;
  /** null: logits are turned to fp32 all at once, as some shipped recipes do. */
  readonly logprobChunkTokens: number | null;
  /** Activations are kept, not recomputed: only in layouts others ship. Default false. */
  readonly saveAll?: boolean;
  /** Megatron's fused cross-entropy, in place of chunks; only in SFT that others ship. Default false. */
  readonly fusedLoss?: boolean;
}

/** Memory of one GPU in a train step: the first pipeline stage holds more activations, the last one the logits. */
export function rlMemory(input: RlTraining): Memory {
  const { train } = input;
  const first = stageMemory(input, train.pipelineParallel, train.pipelineParallel === 1);
  if (train.pipelineParallel === 1) return first;
  const last = stageMemory(input, 1, true);
  return load(last) > load(first) ? last : first;
}

/** Parameters on one GPU: weights are split by tensor, pipeline and expert parallelism, never by data or context. */
export function megatronShare(model: Model, train: Degrees): { dense: number; experts: number; vision: number } {
  const { tensorParallel: tp, pipelineParallel: pp, expertParallel: ep } = train;
  const { blocks, vocabulary, experts, vision } = splitParameters(model);
  return {
    dense: (blocks / pp + (pp === 1 ? vocabulary : vocabulary / 2)) / tp,
    experts: experts / (pp * ep),
    vision,
  };
}

/** Bytes of the base weights on one GPU; they stay there during colocated generation where adapters are trained. */
export function baseWeightBytes(model: Model, train: Degrees): number {
  const { dense, experts, vision } = megatronShare(model, train);
  return (dense + experts + vision) * BF16;
}

/**
 * Memory of one GPU while colocated vLLM gets new weights: both copies are there, gradients and optimizer are not
 * (NeMo-RL's offload_before_refit), and vLLM's pool is still asleep.
 */
export function refitMemory(
  input: Pick<RlTraining, "model" | "train" | "gpuGib"> & { readonly engineTensorParallel: number },
): Memory {
  const { model, train, gpuGib, engineTensorParallel: tp } = input;
  return memory(
    "refit",
    [
      term("weights", baseWeightBytes(model, train), "Megatron's copy, with what is frozen"),
      term("vLLM's weights", (model.parameters * BF16) / tp, `${billions(model.parameters)} × 2 bytes / TP${tp}`),
      term("sleeping vLLM", SLEEPING_VLLM_GIB * GIB, `${SLEEPING_VLLM_GIB} GiB stay in use while its pool sleeps`),
      term("framework", FRAMEWORK_GIB * GIB, "CUDA and NCCL of the trainer"),
    ],
    gpuGib * TRAINING_SHARE,
  );
}

/** What logits would take if fp32 were not deferred, GiB: on some paths chunks were not honoured (RL#2871, #4222). */
export function fp32LogitsGib({
  model,
  contextTokens,
  train,
}: Pick<RlTraining, "model" | "contextTokens" | "train">): number {
  const { contextParallel: cp, tensorParallel: tp } = train;
  return ((contextTokens / cp) * (model.vocabularySize / tp) * FP32_LOGIT_BYTES) / GIB;
}

/** Bytes of the causal mask that Megatron builds on each GPU for padded sequences; not split over any GPUs. */
export function maskBytes(contextTokens: number): number {
  return contextTokens ** 2 * MASK_BYTES;
}

function stageMemory(input: RlTraining, inFlight: number, hasHead: boolean): Memory {
  const { model, contextTokens, train, loraRank } = input;
  const { tensorParallel: tp, contextParallel: cp, pipelineParallel: pp, dataParallel: dp } = train;
  const split = tp > 1 && train.sequenceParallel ? tp : 1;
  const share = megatronShare(model, train);
  const held = share.dense + share.experts;
  const tokens = contextTokens / cp;
  const where = `TP${tp}${pp > 1 ? ` × PP${pp}` : ""}${model.experts === null ? "" : `, experts over EP${train.expertParallel}`}`;

  const terms: Term[] = [
    term("weights", held * BF16, `${billions(held)} × 2 bytes on each GPU: ${where}; not sharded over DP or CP`),
    ...(share.vision > 0
      ? [term("frozen vision tower", share.vision * BF16, `${billions(share.vision)} × 2 bytes, whole on each GPU`)]
      : []),
    ...(loraRank === null ? trainedTerms(share, train) : [adapterTerm(model, loraRank, train)]),
    savedActivations(input, tokens, split, inFlight),
    workingSet(input, tokens, split),
    ...(hasHead ? [logits(input, tokens)] : []),
    ...(input.packing
      ? []
      : [
          term(
            "attention mask",
            maskBytes(contextTokens),
            `${contextTokens}² pairs of positions × ${MASK_BYTES} bytes, because sequences are not packed`,
          ),
        ]),
    ...(input.colocated
      ? [
          term(
            "sleeping vLLM",
            SLEEPING_VLLM_GIB * GIB,
            `${SLEEPING_VLLM_GIB} GiB stay in use while it sleeps (RL#2619, RL#223)`,
          ),
        ]
      : []),
    term(
      "framework",
      (FRAMEWORK_GIB + FIRST_STEP_GIB) * GIB,
      "CUDA, NCCL, workspaces and autotuning of the first step",
    ),
  ];
  const phase = pp > 1 ? `train step, ${hasHead ? "last" : "first"} pipeline stage` : "train step";
  return memory(phase, terms, input.gpuGib * TRAINING_SHARE);

  function trainedTerms(of: { dense: number; experts: number }, degrees: Degrees): Term[] {
    // The distributed optimizer shards over data × context parallel; experts over the replicas they have.
    const replicas = dp * cp;
    const expertReplicas = Math.max(1, (tp * cp * dp) / degrees.expertParallel);
    const optimizer = (of.dense / replicas + of.experts / expertReplicas) * ADAM_BYTES;
    return [
      term("gradients", held * BF16, `${billions(held)} × 2 bytes, not sharded`),
      term(
        "optimizer",
        optimizer,
        `Adam, ${billions(of.dense)} × 12 bytes over DP${dp} × CP${cp}${of.experts > 0 ? `, and ${billions(of.experts)} in experts over ${expertReplicas}` : ""}`,
      ),
    ];
  }
}

function adapterTerm(model: Model, rank: number, train: Degrees): Term {
  const adapters = adapterParameters(model, rank) / (train.pipelineParallel * train.expertParallel);
  // One of an adapter's two matrices is replicated over tensor parallel GPUs, so no split is assumed.
  return term(
    "adapters",
    adapters * (BF16 + BF16 + ADAM_BYTES),
    `rank ${rank}: ${billions(adapters)} × 16 bytes with gradient and Adam`,
  );
}

function savedActivations(input: RlTraining, tokens: number, split: number, inFlight: number): Term {
  const { model, train, saveAll = false } = input;
  const layers = model.layers / train.pipelineParallel;
  const h = model.hiddenSize;
  if (!saveAll)
    return term(
      "saved activations",
      (tokens / split) * h * BF16 * layers * inFlight,
      `one vector a layer × ${tokens} tokens / ${split} × ${h} × 2 bytes × ${layers} layers${inFlight > 1 ? ` × ${inFlight} micro batches in flight` : ""}`,
    );
  // Four hidden vectors join the parts: inputs of both norms, and what the norms give.
  const inside = (mixerBytes(model).saved + feedForwardBytes(model).saved) / train.tensorParallel;
  const perToken = inside + (4 * h * BF16) / split;
  return term(
    "saved activations",
    tokens * perToken * layers * inFlight,
    `nothing recomputed: ${tokens} tokens × ${Math.round(perToken)} bytes × ${layers} layers × ${inFlight} micro batches`,
  );
}

/** A recomputed layer in its backward pass, and the sequence gathered for tensor parallelism, value and gradient. */
function workingSet({ model, train }: RlTraining, tokens: number, split: number): Term {
  const mixer = mixerBytes(model).working / 2 / train.tensorParallel;
  const feedForward = feedForwardBytes(model).working / (model.experts === null ? train.tensorParallel : split);
  const gathered = split > 1 ? 2 * model.hiddenSize * BF16 : 0;
  const bytes = Math.round(mixer + feedForward + gathered);
  return term(
    "one layer's working set",
    tokens * bytes,
    `${tokens} tokens (a CP share) × ${bytes} bytes: mixer, feed-forward and its gradients${gathered > 0 ? ", sequence gathered over TP" : ""}`,
  );
}

function logits({ model, train, logprobChunkTokens, fusedLoss = false }: RlTraining, tokens: number): Term {
  const vocabulary = model.vocabularySize / train.tensorParallel;
  const each = fusedLoss ? FUSED_LOGIT_BYTES : FP32_LOGIT_BYTES;
  if (logprobChunkTokens === null)
    return term(
      "logits",
      tokens * vocabulary * each,
      `${tokens} tokens × ${Math.round(vocabulary)} (vocabulary / TP) × ${each} bytes, fp32 not deferred`,
    );
  return term(
    "logits",
    tokens * vocabulary * 2 * BF16 + Math.min(tokens, logprobChunkTokens) * vocabulary * CHUNK_LOGIT_BYTES,
    `${tokens} tokens × ${Math.round(vocabulary)} (vocabulary / TP) × 4 bytes (bf16 and gradient), fp32 for ${logprobChunkTokens} tokens at once`,
  );
}
