/**
 * Two plans and, if there is one, the leaderboard → whether numbers stay comparable, what changed of the measurement,
 * and how many existing rows that concerns. Pure.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { Job } from "../../schemas/job.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { LeaderboardFacts, ReviewComparability } from "../../schemas/review.ts";
import { andOf, countOf } from "./show.ts";

/**
 * What a measurement is made of, as far as a plan shows it, and the fields that decide it. The key also holds the
 * harness, which a plan does not show.
 */
const PARTS: readonly (readonly [string, (plan: Plan) => unknown, ...patterns: string[]])[] = [
  ["preset", ({ recipe }) => recipe.evaluation, "recipe.evaluation.**"],
  ["task set", ({ taskSet, recipe }) => [taskSet.digest, recipe.tasks.family], "taskSet.digest", "recipe.tasks.**"],
  [
    "held-out tasks",
    ({ taskSet, recipe }) => [
      taskSet.heldOut,
      taskSet.tooLong.filter(({ split }) => split === "held-out").map(({ id }) => id),
      [recipe.tasks.seed, recipe.tasks.split],
    ],
    ...["taskSet.heldOut", "recipe.tasks.seed", "recipe.tasks.split.**"],
  ],
  ["evaluated split", (plan) => jobOf(plan, "select")?.evaluated, "jobs.select.evaluated"],
  [
    "expert",
    (plan) => [plan.recipe.expert, jobOf(plan, "collect")?.expert],
    ...["recipe.expert.**", "jobs.collect.expert"],
  ],
  ["tools and graders", ({ taskSet }) => taskSet.familyDigest, "taskSet.familyDigest"],
  ["server", ({ serving }) => serving.server, "serving.server", "recipe.server", "target.server"],
  [
    "served context",
    ({ serving }) => [serving.contextTokens, serving.rope],
    ...["serving.contextTokens", "contextTokens", "serving.rope.**", "recipe.rope.**"],
  ],
  ["serving settings", ({ serving }) => ({ ...serving, server: null, contextTokens: null, rope: null }), "serving.**"],
];
/** Parts that a leaderboard's boards show too. */
const ON_BOARDS = new Set(["preset", "task set", "server", "served context", "serving settings"]);

/** Whether the two plans measure alike. */
export function compareMeasurement(before: Plan, after: Plan, leaderboard?: LeaderboardFacts): ReviewComparability {
  const same = before.measurementKey === after.measurementKey;
  const differ = PARTS.filter(([, part]) => json(part(before)) !== json(part(after))).map(([name]) => name);
  // A part that differs while the key is the same does not count: the key says what does.
  const changed = same ? [] : differ.length > 0 ? differ : ["harness"];
  const rows =
    leaderboard === undefined
      ? null
      : {
          before: rowsLike(before, leaderboard),
          // Boards do not show the other parts: no existing row is known to be measured the new way.
          after: changed.every((part) => ON_BOARDS.has(part)) ? rowsLike(after, leaderboard) : 0,
        };
  return { same, changed, rows, text: sentence(same, changed, rows) };
}

/** Patterns of the fields that decide these parts of a measurement. */
export function measuredPaths(parts: readonly string[]): string[] {
  return PARTS.flatMap(([name, , ...patterns]) => (parts.includes(name) ? patterns : []));
}

/** Existing rows that were measured as this plan would, as far as boards show it. */
export function rowsLike(plan: Plan, { boards }: LeaderboardFacts): number {
  const alike = boards.filter(
    (board) =>
      board.family === plan.recipe.tasks.family &&
      board.taskSetDigest === plan.taskSet.digest &&
      json(board.preset) === json(plan.recipe.evaluation) &&
      json(board.serving) === json(plan.serving),
  );
  return alike.reduce((sum, board) => sum + board.rows.length, 0);
}

function sentence(same: boolean, changed: readonly string[], rows: ReviewComparability["rows"]): string {
  if (same) {
    if (rows === null) return "rows of this recipe stay comparable with earlier ones";
    return rows.before === 0
      ? "measured as before; no existing row is measured like this"
      : `rows of this recipe can still be ranked with ${countOf(rows.before, "existing row")}`;
  }
  const because = `${andOf(changed)} changed`;
  const ones =
    rows === null || rows.before === 0
      ? "earlier ones"
      : `${rows.before} existing ${rows.before === 1 ? "one" : "ones"}`;
  const gained = rows !== null && rows.after > 0 ? `; they can be with ${rows.after} others` : "";
  return `rows of this recipe can no longer be ranked with ${ones}: ${because}${gained}`;
}

function jobOf<Kind extends Job["kind"]>(plan: Plan, kind: Kind): Extract<Job, { kind: Kind }> | undefined {
  return plan.jobs.find((job): job is Extract<Job, { kind: Kind }> => job.kind === kind);
}

function json(value: unknown): string {
  return canonicalJson(value ?? null);
}
