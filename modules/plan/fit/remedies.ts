/**
 * A request that fits nowhere → the changes that would make it fit, nearest first, each found by searching again. Pure.
 */
import { INSTANCES, type Instance } from "../../../schemas/instance.ts";
import { fits } from "./memory.ts";
import type { TrainRequest } from "./rules.ts";
import { type Candidate, cheapest } from "./search.ts";
import { type ServingRequest, servingCandidate } from "./serving-layout.ts";
import { rlCandidates, sftCandidates } from "./train-layouts.ts";

/** Most nodes that are proposed: what one capacity block can have. */
const MOST_NODES = 64;
/** Rank proposed where all weights are trained and do not fit. */
const PROPOSED_RANK = 32;
/** A shorter context is proposed in steps of this many tokens; every divisor that occurs divides it. */
const CONTEXT_STEP = 4096;

/** Any training request's search; the layout's kind does not matter here. */
function chosenFor(request: TrainRequest): Candidate<unknown> | null {
  return request.stage === "sft" ? cheapest(sftCandidates(request)).chosen : cheapest(rlCandidates(request)).chosen;
}

/** Larger GPUs than the instance's, the smallest first. */
function largerInstances(instance: Instance): Instance[] {
  return Object.values<Instance>(INSTANCES)
    .filter((other) => other.gpuMemoryMib > instance.gpuMemoryMib)
    .sort((a, b) => a.gpuMemoryMib - b.gpuMemoryMib || (a.name < b.name ? -1 : 1));
}

/** The longest context below the request's for which `works`; memory only grows with it. 0 where none does. */
function longestContext(contextTokens: number, works: (tokens: number) => boolean): number {
  let low = 0;
  let high = Math.ceil(contextTokens / CONTEXT_STEP) - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (works(middle * CONTEXT_STEP)) low = middle;
    else high = middle - 1;
  }
  return low * CONTEXT_STEP;
}

/** Changes that make a training stage fit, nearest first. */
export function trainingRemedies(request: TrainRequest): string[] {
  const { given, stage, instance, maxNodes } = request;
  const found: string[] = [];
  const nodesOnly = { nodes: given.nodes };
  const gives = (["tensorParallel", "contextParallel", "pipelineParallel"] as const).filter((key) => given[key]);
  const add = (changed: TrainRequest, text: (label: string) => string): boolean => {
    const chosen = chosenFor(changed);
    if (chosen !== null) found.push(text(chosen.label));
    return chosen !== null;
  };
  const dropped =
    gives.length > 0 &&
    add(
      { ...request, given: nodesOnly },
      (label) => `leave ${gives.map((key) => `${stage}.parallelism.${key}`).join(" and ")} out: ${label} fits`,
    );
  const free = dropped ? request : { ...request, given: nodesOnly };
  const raised =
    given.nodes !== undefined &&
    given.nodes < maxNodes &&
    add({ ...free, given: {} }, (label) => `raise ${stage}.parallelism.nodes: ${label} fits`);
  if (!dropped && !raised && maxNodes < MOST_NODES) {
    const chosen = chosenFor({ ...free, given: {}, maxNodes: MOST_NODES });
    if (chosen !== null) found.push(`allow ${chosen.nodes} nodes (target.maxNodes): ${chosen.label} fits`);
  }
  if (request.loraRank === null)
    add(
      { ...free, loraRank: PROPOSED_RANK },
      (label) => `train adapters (${stage}.lora.rank ${PROPOSED_RANK}): ${label} fits`,
    );
  if (stage === "rl" && request.generationNodes === 0 && maxNodes > 1)
    add(
      { ...free, given: {}, generationNodes: 1 },
      (label) => `give rollouts a node of their own (rl.rollouts.placement dedicated): ${label} fits`,
    );
  for (const other of largerInstances(instance))
    if (add({ ...free, instance: other }, (label) => `use ${other.name} (target.instance): ${label} fits`)) break;
  const tokens = longestContext(
    request.contextTokens,
    (contextTokens) => chosenFor({ ...request, contextTokens }) !== null,
  );
  if (tokens > 0) found.push(`shorten the context to ${tokens} tokens`);
  return found;
}

/** Changes that make an endpoint fit, nearest first. */
export function servingRemedies(request: ServingRequest): string[] {
  const works = (changed: ServingRequest) => {
    const candidate = servingCandidate(changed);
    return candidate?.phases.every(fits) ? candidate : null;
  };
  const found: string[] = [];
  for (const other of largerInstances(request.instance)) {
    const candidate = works({ ...request, instance: other });
    if (candidate === null) continue;
    found.push(`use ${other.name} (target.instance): ${candidate.label} fits`);
    break;
  }
  const tokens = longestContext(
    request.contextTokens,
    (contextTokens) => works({ ...request, contextTokens }) !== null,
  );
  if (tokens > 0) found.push(`shorten the context to ${tokens} tokens`);
  return found;
}
