/**
 * Model + node → how one endpoint lies on the node's GPUs, and how long its start may take. Pure.
 */
import type { Instance } from "../../../schemas/instance.ts";
import type { ServingLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import {
  CAPTURE_SECONDS,
  COMPILE_SECONDS,
  GRAPH_CAPTURE_GIB,
  SERVING_UTILIZATION,
  STARTUP_MARGIN,
} from "./constants.ts";
import type { Candidate } from "./search.ts";
import { BF16 } from "./sizes.ts";
import { bestEngine } from "./train-layouts.ts";

/** What an endpoint is asked to be. */
export interface ServingRequest {
  readonly model: Model;
  readonly contextTokens: number;
  readonly instance: Instance;
  readonly readGbPerSecond: number;
}

/** Longest start the probes allow, seconds, in whole minutes. */
export function startupSeconds(model: Model, readGbPerSecond: number): number {
  const reading = (model.parameters * BF16) / 1e9 / readGbPerSecond;
  return Math.ceil(((reading + COMPILE_SECONDS + CAPTURE_SECONDS) * STARTUP_MARGIN) / 60) * 60;
}

/** The one candidate of an endpoint: the split of its node that holds most sequences. null: no split is allowed. */
export function servingCandidate(request: ServingRequest): Candidate<ServingLayout> | null {
  const { model, instance } = request;
  const gpuGib = instance.gpuMemoryMib / 1024;
  // Small GPUs need more than 8 % for graph capture.
  const gpuMemoryUtilization = Math.min(
    SERVING_UTILIZATION,
    Math.floor(((gpuGib - GRAPH_CAPTURE_GIB) / gpuGib) * 100) / 100,
  );
  const found = bestEngine({ ...request, gpus: instance.gpus, gpuMemoryUtilization, residentGib: 0 });
  if (found === null) return null;
  const { engine, memory } = found;
  return {
    layout: {
      kind: "serving",
      nodes: 1,
      gpusPerNode: instance.gpus,
      engine,
      startupSeconds: startupSeconds(model, request.readGbPerSecond),
    },
    nodes: 1,
    label: `one ${instance.name}, TP${engine.tensorParallel} × DP${engine.dataParallel}`,
    phases: [{ ...memory, phase: "one full sequence" }],
  };
}
