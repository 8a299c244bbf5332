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

/** A request with a change, and what else has to change with it; `drop` and `free` leave out what the recipe gives. */
interface Try {
  readonly drop?: true;
  readonly free?: true;
}

/** The recipe's own degrees and nodes are kept where a change alone helps; what has to go with it is said. */
const LEAST_FIRST: readonly Try[] = [{}, { free: true }, { drop: true }, { drop: true, free: true }];

/** Changes that make a training stage fit, nearest first. */
export function trainingRemedies(request: TrainRequest): string[] {
  const { given, stage, instance, maxNodes } = request;
  const at = (field: string) => `${stage}.parallelism.${field}`;
  const degrees = (["tensorParallel", "contextParallel", "pipelineParallel"] as const).filter((key) => given[key]);
  const named = degrees.map(at).join(" and ");
  const found: string[] = [];

  /** Adds `text` with the layout that fits after the change, and what else has to change. Its nodes; null for none. */
  const propose = (
    change: Partial<TrainRequest>,
    text: (nodes: number) => string,
    tries: readonly Try[] = LEAST_FIRST,
    fewerThan = Number.POSITIVE_INFINITY,
  ): number | null => {
    for (const { drop = false, free = false } of tries) {
      if ((drop && degrees.length === 0) || (free && given.nodes === undefined)) continue;
      const { nodes, ...own } = given;
      const kept = { ...(free || nodes === undefined ? {} : { nodes }), ...(drop ? {} : own) };
      const chosen = chosenFor({ ...request, ...change, given: kept });
      if (chosen === null || chosen.nodes >= fewerThan) continue;
      const isOwn = Object.keys(change).length === 0;
      const also = isOwn ? "" : `${free ? `, ${at("nodes")} ${chosen.nodes}` : ""}${drop ? `, without ${named}` : ""}`;
      found.push(`${text(chosen.nodes)}${also}: ${chosen.label} fits`);
      return chosen.nodes;
    }
    return null;
  };

  const dropped = propose({}, () => `leave ${named} out`, [{ drop: true }]);
  const change = (nodes: number) => `${nodes > (given.nodes ?? 0) ? "raise" : "lower"} ${at("nodes")} to ${nodes}`;
  const moved = propose({}, change, [{ free: true }]);
  const both = (nodes: number) => `${change(nodes)} and leave ${named} out`;
  const movedToo = dropped === null ? propose({}, both, [{ drop: true, free: true }], moved ?? undefined) : null;
  if (dropped === null && moved === null && movedToo === null && maxNodes < MOST_NODES)
    propose(
      { maxNodes: MOST_NODES },
      (nodes) => `allow ${nodes} nodes (target.maxNodes)`,
      LEAST_FIRST.filter(({ free }) => free === (given.nodes === undefined ? undefined : true)),
    );
  if (request.loraRank === null)
    propose({ loraRank: PROPOSED_RANK }, () => `train adapters (${stage}.lora.rank ${PROPOSED_RANK})`);
  if (stage === "rl" && request.generationNodes === 0 && maxNodes > 1)
    propose({ generationNodes: 1 }, () => "give rollouts a node of their own (rl.rollouts.placement dedicated)");
  for (const other of largerInstances(instance))
    if (propose({ instance: other }, () => `use ${other.name} (target.instance)`)) break;
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
