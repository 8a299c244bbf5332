/**
 * Run store: runs and their steps in the database. The whole state of the controller is here: a new process reads it
 * and goes on.
 */
import { and, asc, desc, eq, getTableColumns, inArray, or, sql } from "drizzle-orm";
import { integer, jsonb, type PgDatabase, type PgQueryResultHKT, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import { UserError } from "../../schemas/error.ts";
import { Run, type RunState, type RunStep, RunSummary } from "../../schemas/run.ts";

/** A database by any of drizzle's Postgres drivers. */
export type Database = PgDatabase<PgQueryResultHKT>;

const runs = pgTable("runs", {
  id: text("id").primaryKey(),
  recipe: text("recipe").notNull(),
  state: text("state").notNull(),
  plan: jsonb("plan").notNull(),
  snapshot: jsonb("snapshot").notNull(),
  error: text("error"),
  createdAt: text("created_at").notNull(),
  endedAt: text("ended_at"),
});

const steps = pgTable(
  "run_steps",
  {
    runId: text("run_id").notNull(),
    id: text("id").notNull(),
    position: integer("position").notNull(),
    step: jsonb("step").notNull(),
  },
  (table) => [primaryKey({ columns: [table.runId, table.id] })],
);

/** The tables' history; new versions are added at the end, old ones never change. */
export const migrations = [
  {
    version: 1,
    sql: `
      create table runs (
        id text primary key, recipe text not null, state text not null, plan jsonb not null, snapshot jsonb not null,
        error text, created_at text not null, ended_at text);
      create index runs_created on runs (created_at desc, id);
      create index runs_state on runs (state);
      create table run_steps (
        run_id text not null references runs (id), id text not null, position integer not null, step jsonb not null,
        primary key (run_id, id));`,
  },
];

/** Reads and writes runs. */
export class RunStore {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** Adds a run; adding the same id again changes nothing. */
  async add(run: Run): Promise<void> {
    await this.#db.transaction(async (tx) => {
      const { steps: runSteps, ...row } = run;
      const added = await tx.insert(runs).values(row).onConflictDoNothing().returning({ id: runs.id });
      if (added.length === 0) return;
      await tx.insert(steps).values(runSteps.map((step, position) => ({ runId: run.id, id: step.id, position, step })));
    });
  }

  async get(id: string): Promise<Run> {
    const [row] = await this.#db.select().from(runs).where(eq(runs.id, id));
    if (!row)
      throw new UserError({
        code: "run-unknown",
        path: id,
        asked: "a run of this id",
        found: "the controller knows none",
        allowed: "an id that `uplift runs` lists",
        todo: "check the id",
      });
    const run = Run.safeParse({ ...row, steps: await this.#stepsOf(id) });
    if (run.success) return run.data;
    throw new UserError({
      code: "run-unreadable",
      path: id,
      asked: "the record of this run",
      found: `another version of Uplift wrote it (${run.error.issues.map((issue) => issue.path.join(".")).join(", ")})`,
      allowed: "runs of this version; older ones are listed, and their rows stay on the leaderboard",
      todo: "look at it with the version that made it, or start the recipe again",
    });
  }

  async #stepsOf(id: string): Promise<unknown[]> {
    const own = await this.#db.select().from(steps).where(eq(steps.runId, id)).orderBy(asc(steps.position));
    return own.map(({ step }) => step);
  }

  /** Runs that the reconciler has to look after, oldest first, and what is wrong with those that cannot be read. */
  async active(): Promise<{ runs: Run[]; unreadable: UserError[] }> {
    const rows = await this.#db
      .select({ id: runs.id })
      .from(runs)
      .where(inArray(runs.state, ["running", "cancelling"]))
      .orderBy(asc(runs.createdAt), asc(runs.id));
    const found: { runs: Run[]; unreadable: UserError[] } = { runs: [], unreadable: [] };
    for (const { id } of rows) {
      try {
        found.runs.push(await this.get(id));
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        found.unreadable.push(error);
      }
    }
    return found;
  }

  /** Newest first; of a plan only its digest is read, so that runs of other versions are listed too. */
  async list(offset: number, limit: number): Promise<{ runs: RunSummary[]; total: number }> {
    const [count] = await this.#db.select({ total: sql<number>`count(*)::int` }).from(runs);
    const { plan, snapshot, ...columns } = getTableColumns(runs);
    const rows = await this.#db
      .select({ ...columns, planDigest: sql`${plan}->>'digest'`, snapshotDigest: sql`${snapshot}->>'digest'` })
      .from(runs)
      .orderBy(desc(runs.createdAt), desc(runs.id))
      .limit(limit)
      .offset(offset);
    const summaries = rows.map(async (row) => RunSummary.parse({ ...row, steps: await this.#stepsOf(row.id) }));
    return { runs: await Promise.all(summaries), total: count?.total ?? 0 };
  }

  /** How many runs are in each state, and how many steps of runs under way have not started: the queue. */
  async counts(): Promise<{ runs: Partial<Record<RunState, number>>; waitingSteps: number }> {
    const byState = await this.#db
      .select({ state: sql<RunState>`${runs.state}`, number: sql<number>`count(*)::int` })
      .from(runs)
      .groupBy(runs.state);
    const [waiting] = await this.#db
      .select({ number: sql<number>`count(*)::int` })
      .from(steps)
      .innerJoin(runs, eq(steps.runId, runs.id))
      .where(and(eq(runs.state, "running"), sql`${steps.step}->>'state' = 'pending'`));
    return {
      runs: Object.fromEntries(byState.map(({ state, number }) => [state, number])),
      waitingSteps: waiting?.number ?? 0,
    };
  }

  /** The run of this id and the runs of this recipe, newest first; their plans are not read. */
  async named(idOrRecipe: string): Promise<Pick<Run, "id" | "recipe" | "state">[]> {
    return this.#db
      .select({ id: runs.id, recipe: runs.recipe, state: sql<RunState>`${runs.state}` })
      .from(runs)
      .where(or(eq(runs.id, idOrRecipe), eq(runs.recipe, idOrRecipe)))
      .orderBy(desc(runs.createdAt), desc(runs.id));
  }

  /** Replaces one step's record. */
  async saveStep(runId: string, step: RunStep): Promise<void> {
    await this.#db
      .update(steps)
      .set({ step })
      .where(and(eq(steps.runId, runId), eq(steps.id, step.id)));
  }

  async setState(runId: string, state: RunState, error: string | null, endedAt: string | null): Promise<void> {
    await this.#db.update(runs).set({ state, error, endedAt }).where(eq(runs.id, runId));
  }

  /**
   * Lets a failed or cancelled run go on: what succeeded stays, everything else is pending again and goes on from what
   * it saved, in a try that nobody was asked for before: Slurm remembers a key that was ended. A UserError
   * `run-not-ended` for a run that goes on anyway or has nothing left to do.
   */
  async resume(runId: string): Promise<void> {
    const run = await this.get(runId);
    if (run.state !== "failed" && run.state !== "cancelled")
      throw new UserError({
        code: "run-not-ended",
        path: runId,
        asked: "the run is to go on",
        found: `it is ${run.state}`,
        allowed: "a run that has failed or was cancelled",
        todo: "uplift runs shows how it stands",
      });
    await this.#db.transaction(async (tx) => {
      for (const step of run.steps.filter(({ state }) => state !== "succeeded")) {
        const tries = Math.max(step.tries, step.asked);
        const fresh = { state: "pending", tries, handedOver: false, error: null, endedAt: null, history: [] };
        const pending = { ...step, ...fresh };
        await tx
          .update(steps)
          .set({ step: pending })
          .where(and(eq(steps.runId, runId), eq(steps.id, step.id)));
      }
      await tx.update(runs).set({ state: "running", error: null, endedAt: null }).where(eq(runs.id, runId));
    });
  }

  /** Asks for a run's end; the reconciler carries it out. A UserError `run-ended` where there is nothing to end. */
  async requestCancel(runId: string): Promise<void> {
    const changed = await this.#db
      .update(runs)
      .set({ state: "cancelling" })
      .where(and(eq(runs.id, runId), inArray(runs.state, ["running", "cancelling"])))
      .returning({ id: runs.id });
    if (changed.length > 0) return;
    const { state } = await this.get(runId);
    throw new UserError({
      code: "run-ended",
      path: runId,
      asked: "the run is to be cancelled",
      found: `it has ${state}`,
      allowed: "a run that has not ended",
      todo: "nothing: it uses no resources any more",
    });
  }
}
