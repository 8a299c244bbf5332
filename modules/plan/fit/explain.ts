/**
 * What a search found → the fit a plan shows, or the mistake of a recipe that fits nowhere. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Fit } from "../../../schemas/layout.ts";
import type { Verdict } from "./confidence.ts";
import { ROOM } from "./constants.ts";
import { load, percent } from "./memory.ts";
import { type Candidate, type Found, worst } from "./search.ts";

/** "needs 83.48 of 76 GiB (train step), 50 of them saved activations". */
function shortfall<Layout>(candidate: Candidate<Layout>): string {
  const memory = worst(candidate);
  const largest = memory.terms[0];
  return `needs ${memory.totalGib} of ${memory.limitGib} GiB (${memory.phase})${largest ? `, ${largest.gib} of them ${largest.name}` : ""}`;
}

/** A chosen layout's fit. `notes` are sentences about its topology. */
export function fitOf<Layout>(
  chosen: Candidate<Layout>,
  found: Found<Layout>,
  verdict: Verdict,
  notes: readonly string[],
): Fit {
  const memory = worst(chosen);
  const others = chosen.phases.filter((phase) => phase !== memory);
  return {
    phase: memory.phase,
    terms: memory.terms.map(({ name, gib, how }) => ({ name, gib, how })),
    totalGib: memory.totalGib,
    limitGib: memory.limitGib,
    confidence: verdict.confidence,
    why: [
      `${chosen.label}: ${memory.totalGib} of ${memory.limitGib} GiB a GPU (${memory.phase}), ${percent(1 - load(memory))} free`,
      ...(found.lacking ? [`The nearest cheaper one, ${found.lacking.label}, ${shortfall(found.lacking)}`] : []),
      ...(found.tight
        ? [
            `${found.tight.label} would fit with ${percent(1 - load(worst(found.tight)))} free; a plan that chooses keeps ${percent(ROOM)}`,
          ]
        : []),
      verdict.why,
    ],
    notes: [
      ...others.map((phase) => `Also fits: ${phase.phase}, ${phase.totalGib} of ${phase.limitGib} GiB`),
      ...notes,
    ],
  };
}

/** The mistake of a stage that fits nowhere: binding term, its size, the limit, and the nearest changes that fit. */
export function misfit<Layout>(
  path: string,
  asked: string,
  closest: Candidate<Layout>,
  gpu: string,
  remedies: readonly string[],
): Issue {
  const memory = worst(closest);
  const binding = memory.terms[0];
  const [nearest, ...further] = remedies;
  return {
    code: "does-not-fit",
    path,
    asked,
    found: `the nearest layout, ${closest.label}, needs ${memory.totalGib} GiB a GPU (${memory.phase}); the largest part is ${binding?.name ?? "nothing"} with ${binding?.gib ?? 0} GiB (${binding?.how ?? "no term"})`,
    allowed: `${memory.limitGib} GiB of ${gpu}`,
    todo:
      nearest === undefined
        ? "neither 64 nodes, adapters, a larger GPU of the instance table nor a shorter context makes it fit: choose a smaller model"
        : [nearest, ...further.map((each) => `or ${each}`)].join("; "),
  };
}
