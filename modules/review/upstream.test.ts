import { describe, expect, it } from "vitest";
import { failures, parseFailOn } from "./fail-policy.ts";
import { changed, clusterPlan } from "./fixture.ts";
import type { Side } from "./review-plans.ts";
import { renderReviewText } from "./text.ts";
import { reviewRecipes } from "./upstream.ts";

const side = (plan: typeof clusterPlan): Side => ({ kind: "plan", plan });
const second = changed(clusterPlan, (body) => {
  body.name = "second";
  body.recipe.rl.tasks.dropAlwaysSolvedBy = "unreal-sft-rl";
});
const otherUpstream = changed(clusterPlan, (body) => {
  body.recipe.seed = 5;
});
const text = "drops tasks that unreal-sft-rl always solved, and that recipe changed";

describe("a recipe that drops what an earlier run always solved", () => {
  it("is told of that run's change, though its own plan is the same", () => {
    const [upstream, review] = reviewRecipes([
      { base: side(clusterPlan), head: side(otherUpstream) },
      { base: side(second), head: side(second) },
    ]);
    expect(upstream?.headline).not.toContain("drops tasks");
    expect(review).toMatchObject({
      outcome: "unchanged",
      headline: `no change of the plan, but it ${text}`,
      lines: [{ section: "data", text, before: clusterPlan.digest, after: otherUpstream.digest }],
    });
    const recipes = [upstream, review].filter((one) => one !== undefined);
    const rest = { schemaVersion: 1 as const, target: "t", before: "a", after: "b", sharedFiles: [], notes: [] };
    const page = renderReviewText({ ...rest, recipes, isolation: null, verdict: null });
    expect(page).toContain(": 1 of 2 recipes changed");
    expect(page).toContain(`\nsecond\n  no change of the plan, but it ${text}\n  Data\n    ${text}\n`);
    expect(page).not.toContain("no plan changed");
    expect(failures({ recipes }, parseFailOn("data")).failed.map(({ recipe }) => recipe)).toEqual(["second"]);
  });

  it("is told of it beside its own change, and of what else became of that run", () => {
    const head = changed(second, (body) => {
      body.recipe.rl.klPenalty = 0.1;
    });
    const [review] = reviewRecipes([
      { base: side(second), head: side(head) },
      { base: side(clusterPlan), head: { kind: "absent" }, file: { path: "recipes/u.ts", sameBytes: false } },
    ]);
    expect(review?.headline).toMatch(/^KL penalty 0 → 0.1; .*; drops tasks that .*, and that recipe is gone$/);
    expect(review?.lines.map(({ section }) => section)).toEqual(["training", "data"]);
  });

  it("is told nothing where that run's recipe is as it was, or not in the review", () => {
    const same = { base: side(second), head: side(second) };
    const [alone] = reviewRecipes([same]);
    const [beside] = reviewRecipes([same, { base: side(clusterPlan), head: side(clusterPlan) }]);
    expect([alone?.lines, beside?.lines]).toEqual([[], []]);
  });
});
