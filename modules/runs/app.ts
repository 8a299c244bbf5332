/**
 * Runs over HTTP: submit, list, look at, cancel; a step's log from an offset on. Built from a store; binds no port.
 *
 *   POST /api/runs                          Submission → 201 Run   (409 `run-exists`: the same plan and code run already)
 *   GET  /api/runs?offset=0&limit=50        → { runs: RunSummary[], total }
 *   GET  /api/runs/{id}                     → Run                  (404 `run-unknown`)
 *   POST /api/runs/{id}/cancel              → Run                  (409 `run-ended`)
 *   POST /api/runs/{id}/resume              → Run                  (409 `run-not-ended`)
 *   GET  /api/runs/{id}/log/{step}?offset=0 → text; header x-next-offset says where to go on
 *
 * Errors have schemas/error.ts's ErrorBody.
 */
import { open } from "node:fs/promises";
import { Hono } from "hono";
import { z } from "zod";
import { digestJson } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { Plan } from "../../schemas/plan.ts";
import { type Run, Snapshot } from "../../schemas/run.ts";
import type { Layout } from "./layout.ts";
import type { RunStore } from "./store.ts";

/** What `uplift train` sends. */
export const Submission = z.strictObject({
  /** Chosen by the caller, so that a repeated request cannot make a second run. */
  id: z.string().regex(/^[a-z0-9][a-z0-9-]{1,100}$/),
  plan: Plan,
  snapshot: Snapshot,
  /** Start it although the same plan with the same code is running. */
  again: z.boolean().default(false),
});

const Page = z.object({
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

/** HTTP status of each of this module's error codes; anything else a user did wrong is a 422. */
const STATUS: Readonly<Record<string, 404 | 409 | 410>> = {
  "run-unknown": 404,
  "step-unknown": 404,
  "run-unreadable": 410,
  "run-exists": 409,
  "run-ended": 409,
  "run-not-ended": 409,
};

/** At most this much of a log in one answer. */
const LOG_BYTES = 256 * 1024;

/** The app over a store and the folder logs lie in. `accept` throws a UserError for a plan that cannot be run here. */
export function runsApp(options: {
  readonly store: RunStore;
  readonly layout: Layout;
  readonly now?: () => Date;
  readonly accept?: (plan: Plan) => void;
}) {
  const { store, layout, accept } = options;
  const now = options.now ?? (() => new Date());
  return new Hono()
    .onError((error, c) => {
      if (error instanceof UserError)
        return c.json(
          { error: { code: error.code, message: error.message, infrastructure: false } },
          STATUS[error.code] ?? 422,
        );
      if (error instanceof z.ZodError || error instanceof SyntaxError)
        return c.json({ error: { code: "request-invalid", message: error.message, infrastructure: false } }, 422);
      throw error;
    })
    .post("/api/runs", async (c) => {
      const submission = Submission.parse(await c.req.json());
      const { digest, ...body } = submission.plan;
      if (digestJson(body) !== digest) throw planDiffers(digest);
      accept?.(submission.plan);
      const twin = (await store.active()).runs.find(
        (run) =>
          run.id !== submission.id &&
          run.state === "running" &&
          run.plan.digest === digest &&
          run.snapshot.digest === submission.snapshot.digest,
      );
      if (twin && !submission.again) throw runExists(twin);
      await store.add(newRun(submission.id, submission.plan, submission.snapshot, now()));
      return c.json(await store.get(submission.id), 201);
    })
    .get("/api/runs", async (c) => {
      const { offset, limit } = Page.parse(c.req.query());
      return c.json(await store.list(offset, limit));
    })
    .get("/api/runs/:id", async (c) => c.json(await store.get(c.req.param("id"))))
    .post("/api/runs/:id/cancel", async (c) => {
      await store.requestCancel(c.req.param("id"));
      return c.json(await store.get(c.req.param("id")));
    })
    .post("/api/runs/:id/resume", async (c) => {
      await store.resume(c.req.param("id"));
      return c.json(await store.get(c.req.param("id")));
    })
    .get("/api/runs/:id/log/:step", async (c) => {
      const run = await store.get(c.req.param("id"));
      const step = run.steps.find(({ id }) => id === c.req.param("step"));
      if (!step) throw stepUnknown(run, c.req.param("step"));
      const { offset } = Page.parse({ offset: c.req.query("offset") });
      const chunk = await readChunk(layout.log(run.id, step.id), offset);
      return c.text(chunk.toString("utf8"), 200, { "x-next-offset": String(offset + chunk.length) });
    });
}

/** The app's type, for a typed client. */
export type RunsApp = ReturnType<typeof runsApp>;

/** A run that has not started anything. */
export function newRun(id: string, plan: Plan, snapshot: Snapshot, now: Date): Run {
  return {
    id,
    recipe: plan.name,
    plan,
    snapshot,
    state: "running",
    error: null,
    createdAt: now.toISOString(),
    endedAt: null,
    steps: plan.jobs.map((job) => ({
      id: job.id,
      kind: job.kind,
      state: "pending",
      tries: 0,
      asked: 0,
      handedOver: false,
      history: [],
      progress: null,
      result: null,
      error: null,
      startedAt: null,
      endedAt: null,
    })),
  };
}

/** Bytes from an offset on, cut at a line's end where there is one, so that no character is torn. */
async function readChunk(path: string, offset: number): Promise<Buffer> {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (!file) return Buffer.alloc(0);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(LOG_BYTES), 0, LOG_BYTES, offset);
    const chunk = buffer.subarray(0, bytesRead);
    const end = chunk.lastIndexOf(10) + 1;
    return end > 0 ? chunk.subarray(0, end) : chunk;
  } finally {
    await file.close();
  }
}

function planDiffers(digest: string): UserError {
  return new UserError({
    code: "plan-differs",
    path: "plan.digest",
    asked: `a plan with digest ${digest}`,
    found: "its content has another digest",
    allowed: "the plan exactly as `uplift plan` wrote it",
    todo: "make the plan again",
  });
}

function runExists(run: Run): UserError {
  return new UserError({
    code: "run-exists",
    path: run.id,
    asked: "a run of this plan with this code",
    found: `${run.id} is that run and has not ended`,
    allowed: "one run of a plan at a time, or --again",
    todo: `uplift attach ${run.id}, or add --again to start another beside it`,
  });
}

function stepUnknown(run: Run, step: string): UserError {
  return new UserError({
    code: "step-unknown",
    path: `${run.id}/${step}`,
    asked: `the log of step "${step}"`,
    found: "the run has no such step",
    allowed: run.steps.map(({ id }) => id).join(", "),
    todo: "name one of these",
  });
}
