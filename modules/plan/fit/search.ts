/**
 * Layouts in order of cost → the cheapest that fits. Pure.
 *
 * A layout that the plan chooses keeps ROOM free, for what arithmetic cannot see. Where only a tighter one fits, or the
 * roomy one would cost more than twice the nodes, the tight one is taken and called unproven.
 */
import { ROOM } from "./constants.ts";
import { fits, load, type Memory, tightest } from "./memory.ts";

/** A layout with the memory of each of its phases. */
export interface Candidate<Layout> {
  readonly layout: Layout;
  readonly nodes: number;
  /** "2 nodes, TP8 × CP2 × DP1". */
  readonly label: string;
  readonly phases: readonly [Memory, ...Memory[]];
}

/** What a search found. */
export interface Found<Layout> {
  readonly chosen: Candidate<Layout> | null;
  /** Of those that are cheaper and don't fit, the one that is nearest to it. */
  readonly lacking: Candidate<Layout> | null;
  /** A cheaper one that fits without room. */
  readonly tight: Candidate<Layout> | null;
  /** The one that is nearest to fitting, where none fits. */
  readonly closest: Candidate<Layout> | null;
  readonly tried: number;
}

/** The phase that decides for a candidate. */
export function worst<Layout>(candidate: Candidate<Layout>): Memory {
  return tightest(candidate.phases);
}

/** Whether a candidate leaves the room a chosen layout should. */
export function isRoomy<Layout>(candidate: Candidate<Layout>): boolean {
  return load(worst(candidate)) <= 1 - ROOM;
}

function isNearer<Layout>(candidate: Candidate<Layout>, other: Candidate<Layout>): boolean {
  return load(worst(candidate)) < load(worst(other));
}

/** Takes the first that fits with room; candidates come cheapest first. */
export function cheapest<Layout>(candidates: Iterable<Candidate<Layout>>): Found<Layout> {
  let lacking: Candidate<Layout> | null = null;
  let tight: Candidate<Layout> | null = null;
  let closest: Candidate<Layout> | null = null;
  let tried = 0;
  for (const candidate of candidates) {
    if (tight !== null && candidate.nodes > 2 * tight.nodes) break;
    tried += 1;
    if (candidate.phases.every(fits)) {
      if (isRoomy(candidate)) return { chosen: candidate, lacking, tight, closest: null, tried };
      tight ??= candidate;
    } else if (tight === null && (lacking === null || isNearer(candidate, lacking))) lacking = candidate;
    if (closest === null || isNearer(candidate, closest)) closest = candidate;
  }
  if (tight !== null) return { chosen: tight, lacking, tight: null, closest: null, tried };
  return { chosen: null, lacking, tight: null, closest, tried };
}
