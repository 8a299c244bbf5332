/**
 * Layout → memory of a node's processes, against what Kubernetes lets a pod have. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import { type Instance, workerMemoryGib } from "../../../schemas/instance.ts";
import type { StageLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import { ADAM_BYTES, GIB, HOST_BASE_GIB } from "./constants.ts";
import { round } from "./memory.ts";
import { baseWeightBytes, megatronShare } from "./rl-memory.ts";
import { BF16 } from "./sizes.ts";

/** What a node's memory is asked to hold beside its GPUs. */
export interface NodeMemoryInput {
  readonly model: Model;
  readonly instance: Instance;
  readonly sharedMemoryGib: number;
  /** RL trains all weights, so that their optimizer goes to the node's memory while vLLM generates. */
  readonly trainsAllWeights: boolean;
  /** RL keeps the starting model on the CPU for the KL penalty. */
  readonly keepsReference: boolean;
}

/** Memory of one node for a stage's processes, GiB, without shared memory and huge pages. */
export function nodeProcessGib({ layout }: StageLayout, input: NodeMemoryInput): number {
  if (layout.kind !== "rl") return HOST_BASE_GIB;
  const { model, trainsAllWeights, keepsReference } = input;
  const base = baseWeightBytes(model, layout.train);
  const colocated = layout.generationNodes === 0;
  const sleeping = colocated ? (model.parameters * BF16) / layout.generation.tensorParallel : 0;
  const share = megatronShare(model, layout.train);
  const { dataParallel, contextParallel } = layout.train;
  const adam = (share.dense / (dataParallel * contextParallel) + share.experts) * ADAM_BYTES;
  const offloaded = colocated && trainsAllWeights ? base + adam : 0;
  const perGpu = sleeping + offloaded + (keepsReference ? base : 0);
  return HOST_BASE_GIB + (perGpu * layout.gpusPerNode) / GIB;
}

/** The mistake of a node that is asked for more memory than a pod may have; null where it holds. */
export function nodeMemoryIssue(stages: readonly StageLayout[], input: NodeMemoryInput): Issue | null {
  const { instance, sharedMemoryGib } = input;
  const available = workerMemoryGib(instance);
  const needs = stages.map((stage) => ({ stage: stage.stage, gib: nodeProcessGib(stage, input) }));
  const most = needs.reduce((largest, each) => (each.gib > largest.gib ? each : largest), { stage: "rl", gib: 0 });
  const free = Math.floor(available - most.gib);
  if (sharedMemoryGib <= free) return null;
  return {
    code: "node-memory-exceeded",
    path: "target.slurm.sharedMemoryGib",
    asked: `${sharedMemoryGib} GiB of shared memory and ${round(most.gib)} GiB for the processes of ${most.stage}`,
    found: `${round(sharedMemoryGib + most.gib)} GiB together`,
    allowed: `${available} GiB: what a ${instance.name} has left beside the node's own pods${instance.efaInterfaces > 0 ? " and huge pages for EFA" : ""}`,
    todo:
      free > 0
        ? `set sharedMemoryGib to ${free} or less`
        : `use an instance with more memory: the processes alone need ${round(most.gib)} GiB`,
  };
}
