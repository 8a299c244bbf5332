/**
 * Store: a finished evaluation → one row in the database that never changes again; all rows → the leaderboard.
 * Touches only the table `leaderboard_evaluations`; the caller makes it with `migrations`.
 */
import { and, count, eq, ne } from "drizzle-orm";
import {
  bigserial,
  index,
  type PgDatabase,
  type PgQueryResultHKT,
  pgTable,
  text,
  timestamp,
} from "drizzle-orm/pg-core";
import { canonicalJson, digestBytes } from "../../schemas/digest.ts";
import { fromZod, UserError } from "../../schemas/error.ts";
import { Evaluation } from "../../schemas/evaluation.ts";
import type { Leaderboard } from "../../schemas/leaderboard.ts";
import { buildLeaderboard } from "./board.ts";
import { incompleteness } from "./completeness.ts";

/** Any Postgres that drizzle drives: PGlite, or a server. */
export type Database = PgDatabase<PgQueryResultHKT>;

/** What makes this module's table, in order; run with the stores module's `migrate`. */
export const migrations: readonly { readonly version: number; readonly sql: string }[] = [
  {
    version: 1,
    // The body is text: JSONB refuses the NUL characters a model may well have written into a reason.
    sql: `
      CREATE TABLE leaderboard_evaluations (
        sequence BIGSERIAL PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        comparability_key TEXT NOT NULL,
        checkpoint TEXT NOT NULL,
        family TEXT NOT NULL,
        finished_at TIMESTAMPTZ NOT NULL,
        published_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        content_digest TEXT NOT NULL,
        body TEXT NOT NULL
      );
      CREATE INDEX leaderboard_evaluations_key ON leaderboard_evaluations (comparability_key);
      CREATE FUNCTION leaderboard_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'published evaluations are never changed or deleted'; END $$;
      CREATE TRIGGER leaderboard_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON leaderboard_evaluations
        FOR EACH STATEMENT EXECUTE FUNCTION leaderboard_append_only();
    `,
  },
];

const evaluationsTable = pgTable(
  "leaderboard_evaluations",
  {
    sequence: bigserial("sequence", { mode: "number" }).primaryKey(),
    id: text("id").notNull().unique(),
    comparabilityKey: text("comparability_key").notNull(),
    checkpoint: text("checkpoint").notNull(),
    family: text("family").notNull(),
    finishedAt: timestamp("finished_at", { withTimezone: true, mode: "string" }).notNull(),
    publishedAt: timestamp("published_at", { withTimezone: true, mode: "string" }).notNull().defaultNow(),
    contentDigest: text("content_digest").notNull(),
    body: text("body").notNull(),
  },
  (table) => [index("leaderboard_evaluations_key").on(table.comparabilityKey)],
);

/**
 * Publishes an evaluation; publishing the same content again changes nothing.
 * Throws UserError `evaluation-malformed`, `evaluation-incomplete`, `evaluation-unmeasured`, `evaluation-differs`
 * (other content was published under this id) or `board-corrupt` (its key promises conditions it does not have).
 */
export async function publish(db: Database, evaluation: Evaluation): Promise<{ published: boolean }> {
  const parsed = Evaluation.safeParse(evaluation);
  if (!parsed.success) throw fromZod(parsed.error, "evaluation", "evaluation-malformed");
  const issues = incompleteness(parsed.data);
  if (issues.length > 0) throw new UserError(issues);
  const body = canonicalJson(parsed.data);
  const contentDigest = digestBytes(body);
  const { id, comparability, model, family, finishedAt } = parsed.data;

  return await db.transaction(async (tx) => {
    // All that is published under a key was checked against the first of it: one of them stands for all.
    const [sibling] = await tx
      .select({ body: evaluationsTable.body })
      .from(evaluationsTable)
      .where(and(eq(evaluationsTable.comparabilityKey, comparability.key), ne(evaluationsTable.id, id)))
      .limit(1);
    if (sibling !== undefined) buildLeaderboard([evaluationIn(sibling.body), parsed.data]);
    const inserted = await tx
      .insert(evaluationsTable)
      .values({
        id,
        comparabilityKey: comparability.key,
        checkpoint: model.checkpoint,
        family,
        finishedAt,
        contentDigest,
        body,
      })
      .onConflictDoNothing({ target: evaluationsTable.id })
      .returning({ id: evaluationsTable.id });
    if (inserted.length > 0) return { published: true };
    // Someone published this id before, perhaps a moment ago or under another key.
    const [stored] = await tx
      .select({ contentDigest: evaluationsTable.contentDigest })
      .from(evaluationsTable)
      .where(eq(evaluationsTable.id, id));
    if (stored?.contentDigest === contentDigest) return { published: false };
    throw new UserError({
      code: "evaluation-differs",
      path: `evaluation ${id}`,
      asked: "it was to be published",
      found: "other content was published under this id",
      allowed: "a published evaluation never changes",
      todo: "keep the published one, or delete nothing and evaluate under another preset or checkpoint",
    });
  });
}

/** The evaluation with this id, or null. */
export async function findEvaluation(db: Database, id: string): Promise<Evaluation | null> {
  const [row] = await db
    .select({ body: evaluationsTable.body })
    .from(evaluationsTable)
    .where(eq(evaluationsTable.id, id));
  return row === undefined ? null : evaluationIn(row.body);
}

/** All that was published, as boards. */
export async function readLeaderboard(db: Database): Promise<Leaderboard> {
  const rows = await db
    .select({ body: evaluationsTable.body })
    .from(evaluationsTable)
    .orderBy(evaluationsTable.sequence);
  return buildLeaderboard(rows.map((row) => evaluationIn(row.body)));
}

/** A reader that computes the leaderboard anew only when an evaluation was added: for pages and APIs that ask often. */
export function leaderboardReader(db: Database): () => Promise<Leaderboard> {
  let latest: { evaluations: number; leaderboard: Leaderboard } | null = null;
  return async () => {
    // Rows are only ever added, so an equal number of them means an equal leaderboard.
    const [row] = await db.select({ evaluations: count() }).from(evaluationsTable);
    const evaluations = row?.evaluations ?? 0;
    if (latest?.evaluations !== evaluations) latest = { evaluations, leaderboard: await readLeaderboard(db) };
    return latest.leaderboard;
  };
}

function evaluationIn(body: string): Evaluation {
  return Evaluation.parse(JSON.parse(body));
}
