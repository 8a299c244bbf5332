import { describe, expect, it } from "vitest";
import type { Board, Estimate, LeaderboardRow } from "../../schemas/leaderboard.ts";
import { fixtureEvaluations } from "./fixture.ts";
import { LeaderboardPage } from "./leaderboard-page.tsx";

const [base] = fixtureEvaluations();
if (base === undefined) throw new Error("the fixture has evaluations");
const { comparability, family, preset, serving, taskSetDigest, model, lineage, finishedAt } = base;

function pageOf(score: Estimate): string {
  const row: LeaderboardRow = {
    rank: 1,
    evaluationId: base?.id ?? "",
    model,
    lineage,
    score,
    scoreWithoutInfrastructure: score,
    tasksLeftOut: [],
    scoreTurnLimitAsFailure: score,
    tasks: 48,
    attempts: 384,
    infrastructureFailures: 0,
    infrastructureRetries: 0,
    turnLimitHits: 0,
    violations: 0,
    overBase: null,
    finishedAt,
  };
  const { key, parts } = comparability;
  const board: Board = { comparabilityKey: key, parts, family, preset, serving, taskSetDigest, rows: [row] };
  return String(<LeaderboardPage leaderboard={{ schemaVersion: 1, boards: [board] }} />);
}

describe("the leaderboard's page", () => {
  it.each([
    [0, "0.0"],
    [1, "100.0"],
  ])("says that a score of %i in every task has an interval without width", (score, shown) => {
    const said = `: every task scored the same ${shown} %, so the interval of its score has no width and says nothing of chance.`;
    expect(pageOf({ mean: score, low: score, high: score })).toContain(said);
    expect(pageOf({ mean: 0.5, low: 0.4, high: 0.6 })).not.toContain("every task scored the same");
  });

  it("says what served the models", () => {
    expect(pageOf({ mean: 0.5, low: 0.4, high: 0.6 })).toContain("light, 1,024 tokens of context, float32");
  });
});
