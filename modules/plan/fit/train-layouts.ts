/**
 * A training request → its possible layouts, cheapest first: fewest nodes, then the fewest GPUs a sequence (the most data
 * parallel), then the simplest split. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Degrees, Engine, RlLayout, SftLayout } from "../../../schemas/layout.ts";
import {
  COLOCATED_UTILIZATION,
  DEDICATED_UTILIZATION,
  FRAMEWORK_GIB,
  GIB,
  GRAPH_CAPTURE_GIB,
  LEAST_UTILIZATION,
  LOGPROB_CHUNK_TOKENS,
} from "./constants.ts";
import { baseWeightBytes, refitMemory, rlMemory } from "./rl-memory.ts";
import {
  brokenRules,
  engineAllowed,
  isAllowed,
  mistakesOf,
  packs,
  sequenceDivisor,
  type TrainRequest,
} from "./rules.ts";
import type { Candidate } from "./search.ts";
import { type ServingMemory, servingMemory } from "./serving-memory.ts";
import { sftMemory } from "./sft-memory.ts";
import { BF16, splitParameters } from "./sizes.ts";

const POWERS = [1, 2, 4, 8, 16, 32, 64];

/** GPU memory of the request's instance, GiB. */
export function gpuGibOf({ instance }: Pick<TrainRequest, "instance">): number {
  return instance.gpuMemoryMib / 1024;
}

/** Nodes that train, fewest first. */
function trainNodes({ given, maxNodes, generationNodes }: TrainRequest): number[] {
  if (given.nodes !== undefined) return [given.nodes - generationNodes];
  return Array.from({ length: Math.max(0, maxNodes - generationNodes) }, (_, index) => index + 1);
}

/** All degrees on a number of nodes, whether allowed or not, in the order they are preferred. */
function* degreesOn(request: TrainRequest, nodes: number): Generator<Degrees> {
  const { stage, given, instance, model } = request;
  const gpus = nodes * instance.gpus;
  // Automodel's long-context recipes are TP1 × PP1, and its LoRA kernel needs TP1; others only where a recipe says so.
  const free = (most: number) => POWERS.filter((degree) => degree <= most);
  const tensor = given.tensorParallel ? [given.tensorParallel] : stage === "sft" ? [1] : free(instance.gpus);
  const pipeline = given.pipelineParallel ? [given.pipelineParallel] : stage === "sft" ? [1] : free(8);
  const context = given.contextParallel ? [given.contextParallel] : free(gpus);
  const splits = pipeline
    .flatMap((pp) => context.flatMap((cp) => tensor.map((tp) => ({ tp, cp, pp }))))
    .sort((a, b) => a.tp * a.cp * a.pp - b.tp * b.cp * b.pp || a.pp - b.pp || a.cp - b.cp || a.tp - b.tp);
  for (const { tp, cp, pp } of splits)
    for (const ep of model.experts === null ? [1] : POWERS)
      yield {
        tensorParallel: tp,
        contextParallel: cp,
        pipelineParallel: pp,
        expertParallel: ep,
        dataParallel: Math.max(1, Math.floor(gpus / (tp * cp * pp))),
        sequenceParallel: stage === "rl" && tp > 1,
      };
}

/** Degrees that no rule forbids, on the nodes they need, cheapest first. */
export function* allowedDegrees(request: TrainRequest): Generator<{ nodes: number; train: Degrees }> {
  for (const nodes of trainNodes(request))
    for (const train of degreesOn(request, nodes)) if (isAllowed(request, train, nodes)) yield { nodes, train };
}

/** Degrees that break the fewest rules, of equals the cheapest. null: there is no node to train on. */
export function nearestDegrees(request: TrainRequest): { nodes: number; train: Degrees } | null {
  let nearest: { nodes: number; train: Degrees; broken: number } | null = null;
  for (const nodes of trainNodes(request))
    for (const train of degreesOn(request, nodes)) {
      const broken = brokenRules(request, train, nodes);
      if (nearest === null || broken < nearest.broken) nearest = { nodes, train, broken };
    }
  return nearest;
}

/** Why no degrees are allowed at all: the rules broken by those that break the fewest. */
export function ruleIssues(request: TrainRequest): Issue[] {
  const nearest = nearestDegrees(request);
  return nearest === null ? [] : mistakesOf(request, nearest.train, nearest.nodes);
}

function label(nodes: number, train: Degrees): string {
  const { tensorParallel: tp, contextParallel: cp, pipelineParallel: pp, expertParallel: ep, dataParallel: dp } = train;
  const parts = [`TP${tp}`, `CP${cp}`, ...(pp > 1 ? [`PP${pp}`] : []), ...(ep > 1 ? [`EP${ep}`] : []), `DP${dp}`];
  return `${nodes} ${nodes === 1 ? "node" : "nodes"}, ${parts.join(" × ")}`;
}

/** Layouts of SFT with Automodel. */
export function* sftCandidates(request: TrainRequest): Generator<Candidate<SftLayout>> {
  const { model, contextTokens, instance, loraRank } = request;
  for (const { nodes, train } of allowedDegrees(request))
    yield {
      layout: { kind: "sft", nodes, gpusPerNode: instance.gpus, train, microBatch: 1 },
      nodes,
      label: label(nodes, train),
      phases: [sftMemory({ model, contextTokens, gpuGib: gpuGibOf(request), train, loraRank })],
    };
}

/** Layouts of GRPO with NeMo-RL: Megatron's degrees, each with the vLLM engine that holds most sequences beside it. */
export function* rlCandidates(request: TrainRequest): Generator<Candidate<RlLayout>> {
  const { model, contextTokens, instance, loraRank, generationNodes } = request;
  const colocated = generationNodes === 0;
  for (const { nodes, train } of allowedDegrees(request)) {
    const packing = packs(model, contextTokens, train);
    const training = rlMemory({
      ...{ model, contextTokens, gpuGib: gpuGibOf(request), train, loraRank, packing, colocated },
      logprobChunkTokens: LOGPROB_CHUNK_TOKENS,
    });
    const generation = rolloutEngine(request, train, (colocated ? nodes : generationNodes) * instance.gpus);
    if (generation === null) continue;
    const all = nodes + generationNodes;
    const { tensorParallel } = generation.engine;
    yield {
      layout: {
        kind: "rl",
        nodes: all,
        gpusPerNode: instance.gpus,
        generationNodes,
        train,
        generation: generation.engine,
        packing,
        sequenceDivisor: sequenceDivisor(train),
        logprobChunkTokens: LOGPROB_CHUNK_TOKENS,
      },
      nodes: all,
      label: `${label(all, train)}, vLLM TP${tensorParallel}${colocated ? " on the same GPUs" : ` on ${generationNodes} of them`}`,
      phases: [
        training,
        generation.memory,
        ...(colocated
          ? [refitMemory({ model, train, gpuGib: gpuGibOf(request), engineTensorParallel: tensorParallel })]
          : []),
      ],
    };
  }
}

/**
 * What stays on a GPU while colocated vLLM generates, GiB. NeMo-RL moves Megatron's parameter and gradient buffers and the
 * optimizer to the CPU (offload_before_refit, offload_after_refit), but the buffers hold only what is trained: frozen
 * base weights under LoRA, and the frozen vision tower, stay.
 */
export function residentGib(request: TrainRequest, train: Degrees): number {
  const { model, loraRank } = request;
  const frozen = loraRank === null ? splitParameters(model).vision * BF16 : baseWeightBytes(model, train);
  return FRAMEWORK_GIB + frozen / GIB;
}

function rolloutEngine(
  request: TrainRequest,
  train: Degrees,
  gpus: number,
): { engine: Engine; memory: ServingMemory } | null {
  const { model, contextTokens, instance, generationNodes } = request;
  const colocated = generationNodes === 0;
  const gpuGib = gpuGibOf(request);
  const resident = colocated ? residentGib(request, train) : 0;
  const left = Math.floor(((gpuGib - resident - GRAPH_CAPTURE_GIB) / gpuGib) * 100) / 100;
  const most = colocated ? COLOCATED_UTILIZATION : DEDICATED_UTILIZATION;
  const gpuMemoryUtilization = Math.max(LEAST_UTILIZATION, Math.min(most, left));
  return bestEngine({ model, contextTokens, instance, gpus, gpuMemoryUtilization, residentGib: resident });
}

/** What an engine is chosen for. */
export interface EngineRequest extends Pick<TrainRequest, "model" | "contextTokens" | "instance"> {
  /** GPUs for all engines together. */
  readonly gpus: number;
  readonly gpuMemoryUtilization: number;
  readonly residentGib: number;
}

/**
 * The split of GPUs into engines that holds most full-length sequences; of equals the smallest engine. Where none holds
 * one, the largest engine, so that the message is about the best there is. null: no split is allowed.
 */
export function bestEngine(request: EngineRequest): { engine: Engine; memory: ServingMemory } | null {
  const { model, contextTokens, instance, gpus, gpuMemoryUtilization } = request;
  let best: { engine: Engine; memory: ServingMemory } | null = null;
  for (const tensorParallel of POWERS) {
    if (tensorParallel > instance.gpus || gpus % tensorParallel !== 0) continue;
    if (!engineAllowed(model, instance, tensorParallel)) continue;
    const memory = servingMemory({
      ...{ model, contextTokens, tensorParallel, gpuMemoryUtilization, residentGib: request.residentGib },
      ...{ gpuGib: gpuGibOf(request), kvCacheDtype: "auto" },
    });
    const dataParallel = gpus / tensorParallel;
    const concurrentSequences = memory.sequences * dataParallel;
    if (best !== null && concurrentSequences <= best.engine.concurrentSequences && best.memory.sequences > 0) continue;
    best = {
      engine: { tensorParallel, dataParallel, gpuMemoryUtilization, kvCacheDtype: "auto", concurrentSequences },
      memory,
    };
  }
  return best;
}
