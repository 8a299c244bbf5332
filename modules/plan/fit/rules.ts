/**
 * Degrees of parallelism → which rules of divisibility and topology they break. All rules are the trainers' own; each
 * says where it is from. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Instance } from "../../../schemas/instance.ts";
import type { Degrees } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import { UNPACKED_TOKENS } from "./constants.ts";

/** What a stage's training is asked to be. */
export interface TrainRequest {
  readonly stage: "sft" | "rl";
  readonly model: Model;
  readonly contextTokens: number;
  readonly instance: Instance;
  readonly maxNodes: number;
  /** Degrees the recipe gives; the others are chosen. */
  readonly given: {
    readonly nodes?: number;
    readonly tensorParallel?: number;
    readonly contextParallel?: number;
    readonly pipelineParallel?: number;
  };
  /** Sequences an optimiser step trains on. */
  readonly batch: number;
  readonly loraRank: number | null;
  /** RL: nodes that only generate; 0 where rollouts are colocated. */
  readonly generationNodes: number;
}

/**
 * One rule: whether it holds, and the mistake where it does not. What a degree may be comes before what divides by it:
 * advice for a degree that is refused itself would send a reader the wrong way.
 */
interface Rule {
  readonly about: "degree" | "nodes" | "batch";
  readonly holds: boolean;
  readonly issue: () => Issue;
}

/** Megatron splits DeltaNet heads over tensor and context parallelism together; only Qwen3.5's layers are DeltaNet. */
export function deltaNet(model: Model): Model["linearAttention"] {
  return model.family === "qwen3.5" ? model.linearAttention : null;
}

/**
 * Whether NeMo-RL packs sequences: always with context parallelism (Megatron asks for it) and beyond UNPACKED_TOKENS
 * (the mask). Shorter, only Qwen3.5 is left unpacked, as NVIDIA's recipe for its dense model does.
 */
export function packs(
  model: Model,
  contextTokens: number,
  { contextParallel }: Pick<Degrees, "contextParallel">,
): boolean {
  return contextParallel > 1 || contextTokens > UNPACKED_TOKENS || deltaNet(model) === null;
}

/** Sequences are padded to a multiple of this (nemo-keys.json mg-pad-factor; Automodel pads to 2 × CP). */
export function sequenceDivisor({ tensorParallel, contextParallel, sequenceParallel }: Degrees): number {
  return 2 * contextParallel * (sequenceParallel ? tensorParallel : 1);
}

/** Largest power of two that divides a count: what a degree may be at most, as an example to the reader. */
function degreesOf(count: number): string {
  return [1, 2, 4, 8, 16, 32, 64].filter((degree) => count % degree === 0).join(", ");
}

/** How many rules of training the degrees break. */
export function brokenRules(request: TrainRequest, train: Degrees, trainNodes: number): number {
  return rules(request, train, trainNodes).filter((rule) => !rule.holds).length;
}

/** The mistakes in these degrees, of the first kind of rule that they break; none broken is an empty list. */
export function mistakesOf(request: TrainRequest, train: Degrees, trainNodes: number): Issue[] {
  const broken = rules(request, train, trainNodes).filter((rule) => !rule.holds);
  const first = (["degree", "nodes", "batch"] as const).find((kind) => broken.some(({ about }) => about === kind));
  return broken.filter(({ about }) => about === first).map((rule) => rule.issue());
}

/** A stage's padding, for the mistake of a context that it does not divide. */
export interface Padding {
  readonly stage: TrainRequest["stage"];
  readonly train: Degrees;
}

/** One mistake for all stages whose padding the context is no multiple of. */
export function contextIssue(contextTokens: number, paddings: readonly Padding[]): Issue {
  const divisor = paddings.map(({ train }) => sequenceDivisor(train)).reduce(leastMultiple, 1);
  const down = Math.floor(contextTokens / divisor) * divisor;
  const up = down + divisor;
  const multiple = `a multiple of ${divisor}`;
  return {
    code: "context-not-divisible",
    path: "context",
    asked: `a context of ${contextTokens} tokens`,
    found: paddings
      .map(
        ({ stage, train }) =>
          `${stage === "sft" ? "SFT" : "GRPO"} pads sequences to a multiple of ${sequenceDivisor(train)}: 2 × context parallel ${train.contextParallel}${train.sequenceParallel ? ` × tensor parallel ${train.tensorParallel}` : ""}`,
      )
      .join("; "),
    allowed: paddings.length > 1 ? `${multiple}, for both` : multiple,
    // Of the two neighbours the rounder one: other degrees divide it too.
    todo: `use ${down === 0 || powerOfTwoIn(up) > powerOfTwoIn(down) ? up : down} tokens`,
  };
}

function powerOfTwoIn(count: number): number {
  return count % 2 === 1 ? 1 : 2 * powerOfTwoIn(count / 2);
}

function leastMultiple(one: number, other: number): number {
  const common = (a: number, b: number): number => (b === 0 ? a : common(b, a % b));
  return (one * other) / common(one, other);
}

/** The same without the messages: for searching. */
export function isAllowed(request: TrainRequest, train: Degrees, trainNodes: number): boolean {
  return rules(request, train, trainNodes).every((rule) => rule.holds);
}

function rules(request: TrainRequest, train: Degrees, trainNodes: number): Rule[] {
  const { model, instance, stage, batch, contextTokens } = request;
  const { tensorParallel: tp, contextParallel: cp, pipelineParallel: pp, expertParallel: ep } = train;
  const gpus = trainNodes * instance.gpus;
  const modelGpus = tp * cp * pp;
  const dataParallel = gpus / modelGpus;
  const at = (field: string) => `${stage}.parallelism.${field}`;
  const delta = deltaNet(model);
  // Automodel splits KV heads too and does not repeat them; Megatron repeats them where TP is a multiple.
  const kvHolds = model.kvHeads % tp === 0 || (stage === "rl" && tp % model.kvHeads === 0);
  return [
    {
      about: "degree",
      holds: tp <= instance.gpus,
      issue: () => ({
        code: "tensor-parallel-across-nodes",
        path: at("tensorParallel"),
        asked: `tensor parallel ${tp}`,
        found: `a ${instance.name} has ${instance.gpus} GPUs, and tensor parallelism needs NVLink at every layer`,
        allowed: `at most ${instance.gpus}`,
        todo: `set it to ${instance.gpus} or less and raise contextParallel for long sequences`,
      }),
    },
    {
      about: "degree",
      holds: model.attentionHeads % tp === 0 && kvHolds,
      issue: () => ({
        code: "heads-not-divisible",
        path: at("tensorParallel"),
        asked: `tensor parallel ${tp}`,
        found: `${model.name} has ${model.attentionHeads} attention heads and ${model.kvHeads} KV heads`,
        allowed: `a divisor of ${model.attentionHeads}${stage === "sft" ? ` and of ${model.kvHeads}` : ` that divides, or is a multiple of, ${model.kvHeads}`}: ${degreesOf(stage === "sft" ? model.kvHeads : model.attentionHeads)}`,
        todo: "choose one of these",
      }),
    },
    {
      about: "degree",
      // Megatron-Core's TransformerConfig: linear_num_key_heads and linear_num_value_heads % (TP × CP) == 0. Automodel
      // passes states along the context parallel GPUs instead, so there only TP counts.
      holds: delta === null || divides(stage === "rl" ? tp * cp : tp, delta.keyHeads, delta.valueHeads),
      issue: () => ({
        code: "delta-net-heads-not-divisible",
        path: at(stage === "rl" ? "contextParallel" : "tensorParallel"),
        asked: stage === "rl" ? `tensor parallel ${tp} × context parallel ${cp} = ${tp * cp}` : `tensor parallel ${tp}`,
        found: `${model.name} has ${delta?.keyHeads} DeltaNet key heads and ${delta?.valueHeads} value heads, which ${stage === "rl" ? "Megatron splits over both" : "are split over it"}`,
        allowed: `a product that divides both: ${degreesOf(delta?.keyHeads ?? 1)}`,
        todo: "lower one of them; pipelineParallel spreads the model further",
      }),
    },
    {
      about: "degree",
      holds: model.layers % pp === 0,
      issue: () => ({
        code: "layers-not-divisible",
        path: at("pipelineParallel"),
        asked: `pipeline parallel ${pp}`,
        found: `${model.name} has ${model.layers} layers`,
        allowed: `a divisor of ${model.layers}`,
        todo: `set it to one of ${degreesOf(model.layers)}`,
      }),
    },
    {
      about: "nodes",
      holds: gpus >= modelGpus && gpus % modelGpus === 0,
      issue: () => ({
        code: "gpus-not-divisible",
        path: at("nodes"),
        asked: `tensor ${tp} × context ${cp} × pipeline ${pp} = ${modelGpus} GPUs a sequence`,
        found: `${trainNodes} training nodes of ${instance.name} have ${gpus} GPUs`,
        allowed: `a number of GPUs that ${modelGpus} divides`,
        todo: `use ${Math.ceil(modelGpus / instance.gpus)} training nodes or a multiple, or lower a degree`,
      }),
    },
    {
      about: "batch",
      holds: !Number.isInteger(dataParallel) || batch % dataParallel === 0,
      issue: () => ({
        code: "batch-not-divisible",
        path: stage === "sft" ? "sft.batchSize" : "rl.promptsPerStep",
        asked: `${batch} sequences a step`,
        found: `${gpus} GPUs / (tensor ${tp} × context ${cp} × pipeline ${pp}) make ${dataParallel} data parallel groups, which get equal numbers`,
        allowed: `a multiple of ${dataParallel}`,
        todo: `train on ${Math.max(1, Math.round(batch / dataParallel)) * dataParallel} sequences a step, or raise contextParallel`,
      }),
    },
    {
      about: "batch",
      holds: contextTokens % sequenceDivisor(train) === 0,
      issue: () => contextIssue(contextTokens, [{ stage, train }]),
    },
    {
      about: "nodes",
      holds: model.experts === null || (model.experts.count % ep === 0 && (gpus / pp) % ep === 0),
      issue: () => ({
        code: "experts-not-divisible",
        path: at("nodes"),
        asked: `${model.experts?.count} experts over ${ep} GPUs`,
        found: `${gpus} GPUs in ${pp} pipeline stages`,
        allowed: "a number of GPUs a stage that the experts' GPUs divide",
        todo: "use a number of nodes that is a power of two",
      }),
    },
  ];
}

function divides(degree: number, ...counts: number[]): boolean {
  return counts.every((count) => count % degree === 0);
}

/** Whether vLLM can split a model over so many GPUs of a node. */
export function engineAllowed(model: Model, instance: Instance, tensorParallel: number): boolean {
  const { attentionHeads, kvHeads } = model;
  const delta = deltaNet(model);
  return (
    instance.gpus % tensorParallel === 0 &&
    attentionHeads % tensorParallel === 0 &&
    (kvHeads % tensorParallel === 0 || tensorParallel % kvHeads === 0) &&
    (delta === null || divides(tensorParallel, delta.keyHeads, delta.valueHeads))
  );
}
