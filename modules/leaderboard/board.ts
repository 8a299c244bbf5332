/**
 * Board: published evaluations → the leaderboard. Evaluations with one comparability key are one ranking; another
 * key is another board, never the same one. Pure.
 */
import { canonicalJson, shortDigest } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { Evaluation } from "../../schemas/evaluation.ts";
import type { Board, Leaderboard, LeaderboardRow } from "../../schemas/leaderboard.ts";
import { pairedGain, scoreOf, tally } from "./statistics.ts";

/** All boards, the one with the newest evaluation first. Throws UserError `board-corrupt` rather than mix conditions. */
export function buildLeaderboard(evaluations: readonly Evaluation[]): Leaderboard {
  const byKey = new Map<string, Evaluation[]>();
  for (const evaluation of newestOfEach(evaluations)) {
    const { key } = evaluation.comparability;
    byKey.set(key, [...(byKey.get(key) ?? []), evaluation]);
  }
  const newest = (group: readonly Evaluation[]) => Math.max(...group.map((one) => Date.parse(one.finishedAt)));
  const groups = [...byKey.entries()].sort(([a, left], [b, right]) => newest(right) - newest(left) || (a < b ? -1 : 1));
  return { schemaVersion: 1, boards: groups.map(([, group]) => buildBoard(group)) };
}

/** Rows whose scores are equal share a rank and are listed by model name, step, then evaluation id. */
function buildBoard(group: readonly Evaluation[]): Board {
  const issues = mixedConditions(group);
  if (issues.length > 0) throw new UserError(issues);
  const scored = group
    .map((evaluation) => ({ evaluation, row: rowOf(evaluation, baseOf(evaluation, group)) }))
    .sort((a, b) => compareScores(b.row, a.row) || compareIdentity(a.evaluation, b.evaluation));
  const first = scored[0]?.evaluation;
  if (first === undefined) throw new Error("a board has at least one evaluation");
  // A base model's task set where there is one: its row is what the others are measured against.
  const reference = group.find((one) => one.model.checkpoint === one.model.base) ?? first;
  return {
    comparabilityKey: first.comparability.key,
    parts: first.comparability.parts,
    family: first.family,
    preset: first.preset,
    serving: first.serving,
    taskSetDigest: reference.taskSetDigest,
    rows: scored.map(({ row }) => ({
      ...row,
      rank: 1 + scored.filter((other) => compareScores(other.row, row) > 0).length,
    })),
  };
}

/** One row a checkpoint and key: evaluated again, the newest counts. */
function newestOfEach(evaluations: readonly Evaluation[]): Evaluation[] {
  const newest = new Map<string, Evaluation>();
  for (const evaluation of evaluations) {
    const identity = `${evaluation.comparability.key} ${evaluation.model.checkpoint}`;
    const other = newest.get(identity);
    if (other === undefined || isNewer(evaluation, other)) newest.set(identity, evaluation);
  }
  return [...newest.values()];
}

function isNewer(one: Evaluation, other: Evaluation): boolean {
  const difference = Date.parse(one.finishedAt) - Date.parse(other.finishedAt);
  return difference > 0 || (difference === 0 && one.id > other.id);
}

function baseOf(evaluation: Evaluation, group: readonly Evaluation[]): Evaluation | undefined {
  if (evaluation.model.checkpoint === evaluation.model.base) return undefined;
  return group.find((other) => other.model.checkpoint === evaluation.model.base);
}

function rowOf(evaluation: Evaluation, base: Evaluation | undefined): Omit<LeaderboardRow, "rank"> {
  const { results } = evaluation;
  const withoutInfrastructure = tally(results, "without-infrastructure");
  return {
    evaluationId: evaluation.id,
    model: evaluation.model,
    lineage: evaluation.lineage,
    score: scoreOf(tally(results, "as-preset")),
    scoreWithoutInfrastructure: scoreOf(withoutInfrastructure),
    tasksLeftOut: [...withoutInfrastructure.leftOut],
    scoreTurnLimitAsFailure: scoreOf(tally(results, "turn-limit-as-failure")),
    tasks: evaluation.tasks.length,
    attempts: results.length,
    infrastructureFailures: results.filter((result) => result.outcome.kind === "infrastructure").length,
    infrastructureRetries: results.reduce((sum, result) => sum + result.infrastructureRetries, 0),
    turnLimitHits: results.filter((result) => result.hitTurnLimit).length,
    violations: results.reduce((sum, result) => sum + result.violations.length, 0),
    overBase: base === undefined ? null : pairedGain(results, base.results),
    finishedAt: evaluation.finishedAt,
  };
}

/** Scores are sums of eighths and the like: a difference in the 12th digit is rounding, not a rank. */
function compareScores(a: { score: { mean: number } }, b: { score: { mean: number } }): number {
  return Math.sign(Number(a.score.mean.toFixed(12)) - Number(b.score.mean.toFixed(12)));
}

function compareIdentity(a: Evaluation, b: Evaluation): number {
  if (a.model.name !== b.model.name) return a.model.name < b.model.name ? -1 : 1;
  return a.model.step - b.model.step || (a.id < b.id ? -1 : 1);
}

/** The key promises that these are equal; where they are not, the store was tampered with or the key is wrong. */
function mixedConditions(group: readonly Evaluation[]): Issue[] {
  const [first, ...others] = group;
  if (first === undefined) return [];
  const conditions = (evaluation: Evaluation) => ({
    "task ids": canonicalJson(evaluation.tasks.map((task) => task.id).sort()),
    preset: canonicalJson(evaluation.preset),
    "comparability parts": canonicalJson(evaluation.comparability.parts),
    "serving settings": canonicalJson(evaluation.serving),
    family: evaluation.family,
  });
  const expected = Object.entries(conditions(first));
  return others.flatMap((other) => {
    const found: Record<string, string> = conditions(other);
    return expected
      .filter(([name, value]) => found[name] !== value)
      .map(([name]) => ({
        code: "board-corrupt",
        path: `evaluation ${other.id}: ${name}`,
        asked: `it carries the comparability key ${shortDigest(other.comparability.key)} of ${first.id}`,
        found: `its ${name} differ from those of ${first.id}`,
        allowed: "one ranking holds evaluations made under equal conditions only",
        todo: "evaluate the checkpoint again under the preset, and publish that",
      }));
  });
}
