/**
 * SFT with Automodel's FSDP2 → memory of one GPU at the start of a step's backward pass, its peak. Pure.
 */
import type { Degrees } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import {
  ADAM_BYTES,
  AUTOMODEL_SAVED_VECTORS,
  FIRST_STEP_GIB,
  FRAMEWORK_GIB,
  FSDP_GATHERED_LAYERS,
  GIB,
  SLEEPING_VLLM_GIB,
  TRAINING_SHARE,
} from "./constants.ts";
import { billions, type Memory, memory, type Term, term } from "./memory.ts";
import { adapterParameters, BF16, feedForwardBytes, mixerBytes, splitParameters } from "./sizes.ts";

/** An SFT stage under one layout. */
export interface SftTraining {
  readonly model: Model;
  /** Longest sequence, tokens. */
  readonly contextTokens: number;
  readonly gpuGib: number;
  readonly train: Degrees;
  /** Rank of the adapters; null where all weights are trained. */
  readonly loraRank: number | null;
  /** Loss that never makes all logits at once; what we render without a pipeline, and the default there. */
  readonly fusedLoss?: boolean;
  /** A vLLM engine sleeps on the same GPUs: only in layouts others ship. Default false. */
  readonly sleepingServer?: boolean;
}

/** Memory of one GPU in SFT. Weights are sharded over all GPUs of the stage; activations over context parallel ones. */
export function sftMemory(input: SftTraining): Memory {
  const { model, contextTokens, train, loraRank } = input;
  const { tensorParallel: tp, contextParallel: cp, pipelineParallel: pp, dataParallel: dp } = train;
  // The fused loss needs the last hidden states, which a pipeline does not hand on.
  const fusedLoss = input.fusedLoss ?? pp === 1;
  // Full training keeps its weights in float32: AdamW's small steps are lost in bfloat16.
  const weightBytes = loraRank === null ? 4 : BF16;
  const gpus = tp * cp * pp * dp;
  const { vision, language, vocabulary, experts } = splitParameters(model);
  const tokens = contextTokens / cp;
  const h = model.hiddenSize;
  // One layer as FSDP gathers it: its experts stay spread over the expert-parallel GPUs. Automodel's tensor parallelism
  // leaves DeltaNet layers whole.
  const layer =
    ((language - vocabulary - experts) / model.layers + experts / model.layers / train.expertParallel) /
    (model.linearAttention ? 1 : tp);
  const head = vocabulary / 2 / tp;
  const vectors = AUTOMODEL_SAVED_VECTORS + (fusedLoss ? 1 : 0);
  const trained = loraRank === null ? language : adapterParameters(model, loraRank);
  const sharded = `sharded over ${gpus} GPUs`;

  const terms: Term[] = [
    term(
      "weights",
      ((language + vision) * weightBytes) / gpus,
      `${billions(language + vision)} × ${weightBytes} bytes, ${sharded}`,
    ),
    ...(loraRank === null
      ? [
          term("gradients", (trained * 4) / gpus, `${billions(trained)} × 4 bytes, ${sharded}`),
          term("optimizer", (trained * 8) / gpus, `Adam's two moments, ${billions(trained)} × 8 bytes, ${sharded}`),
        ]
      : [
          term(
            "adapters",
            (trained * (BF16 + BF16 + ADAM_BYTES)) / gpus,
            `rank ${loraRank}: ${billions(trained)} × 16 bytes with gradient and Adam, ${sharded}`,
          ),
        ]),
    term(
      "gathered layers",
      layer * BF16 * FSDP_GATHERED_LAYERS + (loraRank === null ? layer * (BF16 + 4) : 0),
      `${FSDP_GATHERED_LAYERS} layers of ${billions(layer)} × 2 bytes${loraRank === null ? " and one layer's gradient, also in fp32 while it is reduced" : ""}`,
    ),
    term(
      "embedding and head",
      2 * head * BF16 + (loraRank === null ? head * BF16 : 0),
      `2 × ${model.vocabularySize} × ${h} × 2 bytes / TP${tp}, gathered for the whole step${loraRank === null ? ", and the head's gradient" : ""}`,
    ),
    term(
      "saved activations",
      vectors * tokens * h * BF16 * model.layers,
      `${vectors} vectors a layer × ${tokens} tokens (${contextTokens} / CP${cp}) × ${h} × 2 bytes × ${model.layers} layers`,
    ),
    workingSet(input, tokens),
    ...(cp > 1 ? [gather(input)] : []),
    fusedLoss
      ? term(
          "loss",
          2 * tokens * h * BF16 * 2,
          `fused linear cross-entropy: hidden states and gradient, ${tokens} tokens`,
        )
      : term(
          "logits",
          (tokens * model.vocabularySize * (BF16 + 4 + 4)) / tp,
          `${tokens} tokens × ${model.vocabularySize} / TP${tp} × 10 bytes (bf16, fp32, gradient)`,
        ),
    ...(input.sleepingServer
      ? [term("sleeping vLLM", SLEEPING_VLLM_GIB * GIB, `${SLEEPING_VLLM_GIB} GiB stay in use while it sleeps`)]
      : []),
    term(
      "framework",
      (FRAMEWORK_GIB + FIRST_STEP_GIB) * GIB,
      "CUDA, NCCL, workspaces and autotuning of the first step",
    ),
  ];
  return memory("train step", terms, input.gpuGib * TRAINING_SHARE);
}

/** Parts of a layer are recomputed one by one, so the widest decides. */
function workingSet({ model, train }: SftTraining, tokens: number): Term {
  const mixer = mixerBytes(model).working / (model.linearAttention ? 1 : train.tensorParallel);
  const feedForward = feedForwardBytes(model).working / train.tensorParallel;
  const bytes = Math.max(mixer, feedForward);
  return term(
    "one layer's working set",
    tokens * bytes,
    `${tokens} tokens × ${bytes} bytes in the ${mixer > feedForward ? "token mixer" : "feed-forward part"}, recomputed and differentiated`,
  );
}

/**
 * What context parallelism gathers from the other GPUs, of the whole sequence: keys and values (repeated to the query
 * heads, as SDPA gets them), or for DeltaNet layers hidden states on the way in and out. With gradients.
 */
function gather({ model, contextTokens, train }: SftTraining): Term {
  const attention = 2 * 2 * BF16 * ((model.attentionHeads * model.headDim) / train.tensorParallel);
  const state = model.linearAttention === null ? 0 : 2 * 2 * BF16 * model.hiddenSize;
  const bytes = Math.max(attention, state);
  return term(
    "context-parallel gather",
    contextTokens * bytes,
    `all ${contextTokens} tokens × ${bytes} bytes of ${attention >= state ? "keys and values" : "hidden states"} and their gradients`,
  );
}
