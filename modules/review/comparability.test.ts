import { describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { LeaderboardFacts } from "../../schemas/review.ts";
import { changed, clusterPlan, compare, localPlan } from "./fixture.ts";

describe("comparability", () => {
  const board = (plan: Plan, rows: number): LeaderboardFacts["boards"][number] => ({
    family: plan.recipe.tasks.family,
    preset: plan.recipe.evaluation,
    serving: plan.serving,
    taskSetDigest: plan.taskSet.digest,
    rows: Array.from({ length: rows }, (_, index) => ({ evaluationId: `eval-${index}` })),
  });
  const otherPreset = changed(clusterPlan, (body) => {
    body.recipe.evaluation.attempts = 16;
  });

  it("names the existing rows that can no longer be ranked with, and why", () => {
    const rows = { boards: [board(clusterPlan, 12), board(localPlan, 5)] };
    const { comparability, headline } = compare(clusterPlan, otherPreset, { rows });
    expect(comparability).toEqual({
      same: false,
      changed: ["preset"],
      rows: { before: 12, after: 0 },
      text: "rows of this recipe can no longer be ranked with 12 existing ones: preset changed",
    });
    expect(headline).toContain(comparability?.text);
  });

  it("names the rows of the other board where there are some", () => {
    const rows = { boards: [board(clusterPlan, 1), board(otherPreset, 3)] };
    expect(compare(clusterPlan, otherPreset, { rows }).comparability?.text).toBe(
      "rows of this recipe can no longer be ranked with 1 existing one: preset changed; they can be with 3 others",
    );
  });

  it("claims no row of the new kind where what changed is not on a board", () => {
    const head = changed(clusterPlan, (body) => {
      body.taskSet.familyDigest = digestJson("new grader");
    });
    const rows = { boards: [board(clusterPlan, 12)] };
    expect(compare(clusterPlan, head, { rows }).comparability).toMatchObject({
      changed: ["tools and graders"],
      rows: { before: 12, after: 0 },
    });
  });

  it("takes the harness to have changed where nothing that a plan shows did", () => {
    const head = { ...structuredClone(clusterPlan), measurementKey: digestJson("2") };
    const review = compare(clusterPlan, head);
    expect(review.comparability?.changed).toEqual(["harness"]);
    expect(review.headline).toBe("rows of this recipe can no longer be ranked with earlier ones: harness changed");
  });

  it("stays where only training changes", () => {
    const head = changed(clusterPlan, (body) => {
      body.recipe.rl.learningRate = 2e-5;
    });
    expect(compare(clusterPlan, head, { rows: { boards: [board(clusterPlan, 12)] } }).comparability?.text).toBe(
      "rows of this recipe can still be ranked with 12 existing rows",
    );
  });
});
