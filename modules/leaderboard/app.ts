/**
 * App: the leaderboard over HTTP, as a value. Takes a database and an object store; reads and publishes evaluations,
 * reads traces. Binds no port.
 */
import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { type ErrorBody, ErrorBody as ErrorBodySchema, fromZod, UserError } from "../../schemas/error.ts";
import { Evaluation } from "../../schemas/evaluation.ts";
import { Leaderboard } from "../../schemas/leaderboard.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { Trajectory } from "../../schemas/trajectory.ts";
import { type Database, findEvaluation, leaderboardReader, publish } from "./store.ts";

/** What the app is built from. */
export type LeaderboardAppParts = { readonly db: Database; readonly store: Pick<ObjectStore, "get"> };

const json = <Schema extends z.ZodType>(description: string, schema: Schema) => ({
  description,
  content: { "application/json": { schema } },
});
const notStored = json("Nothing is stored under this name", ErrorBodySchema);

const leaderboardRoute = createRoute({
  method: "get",
  path: "/api/leaderboard",
  summary: "All boards: one ranking for each comparability key",
  responses: { 200: json("The leaderboard", Leaderboard) },
});

const evaluationRoute = createRoute({
  method: "get",
  path: "/api/evaluations/{id}",
  summary: "One published evaluation with every attempt's result",
  request: { params: z.object({ id: z.string() }) },
  responses: { 200: json("The evaluation", Evaluation), 404: notStored },
});

const traceRoute = createRoute({
  method: "get",
  path: "/api/evaluations/{id}/attempts/{task}/{attempt}",
  summary: "The full trace of one attempt",
  request: { params: z.object({ id: z.string(), task: z.string(), attempt: z.coerce.number().int().nonnegative() }) },
  responses: { 200: json("The trajectory", Trajectory), 404: notStored },
});

const publishRoute = createRoute({
  method: "post",
  path: "/api/evaluations",
  summary: "Publish a finished evaluation; the same content again changes nothing",
  request: { body: { required: true, ...json("The evaluation", Evaluation) } },
  responses: {
    200: json("It was published before, with this content", z.object({ id: z.string(), published: z.literal(false) })),
    201: json("It is published now", z.object({ id: z.string(), published: z.literal(true) })),
    409: json("Other content has this id, or the key promises other conditions", ErrorBodySchema),
    422: json("The evaluation is malformed, incomplete, or measured nothing", ErrorBodySchema),
  },
});

/** GET /api/leaderboard, GET /api/evaluations/:id, GET …/attempts/:task/:attempt, POST /api/evaluations, /api/openapi.json. */
export function leaderboardApp({ db, store }: LeaderboardAppParts) {
  const readBoards = leaderboardReader(db);

  const app = new OpenAPIHono({
    defaultHook: (result) => {
      if (!result.success) throw fromZod(result.error, "request", "request-malformed");
    },
  });

  const routes = app
    .openapi(leaderboardRoute, async (context) => context.json(await readBoards(), 200))
    .openapi(evaluationRoute, async (context) => {
      const { id } = context.req.valid("param");
      return context.json(await evaluationOrThrow(db, id), 200);
    })
    .openapi(traceRoute, async (context) => {
      const { id, task, attempt } = context.req.valid("param");
      const evaluation = await evaluationOrThrow(db, id);
      return context.json(await readTrace(store, evaluation, task, attempt), 200);
    })
    .openapi(publishRoute, async (context) => {
      const evaluation = context.req.valid("json");
      const { published } = await publish(db, evaluation);
      if (published) return context.json({ id: evaluation.id, published: true as const }, 201);
      return context.json({ id: evaluation.id, published: false as const }, 200);
    });

  app.doc31("/api/openapi.json", { openapi: "3.1.0", info: { title: "Uplift leaderboard", version: "1" } });
  app.onError((error, context) => {
    if (error instanceof UserError) {
      const status = statusOf(error.code);
      return context.json(errorBody(error.code, error.message, status === 503), status);
    }
    if (error instanceof HTTPException)
      return context.json(errorBody("request-malformed", error.message), error.status);
    // As hono's own handler does: the stack belongs into the process's log, not into the answer.
    console.error(error);
    const body = errorBody("defect", "a mistake in the service itself; its log has the stack", true);
    return context.json(body, 500);
  });
  app.notFound(apiNotFound);
  return routes;
}

/** Answers a path that no API has: `app.all("/api/*", apiNotFound)` after all APIs, before the pages. */
export function apiNotFound(context: Context): Response {
  const { method, path } = context.req;
  return context.json(errorBody("route-unknown", `no such route: ${method} ${path}`), 404);
}

/** The app's type, for a typed client. */
export type LeaderboardApp = ReturnType<typeof leaderboardApp>;

/** One attempt's trace out of the object store. Throws UserError `attempt-unknown`, `object-missing` or `trace-corrupt`. */
export async function readTrace(
  store: Pick<ObjectStore, "get">,
  evaluation: Evaluation,
  task: string,
  attempt: number,
): Promise<Trajectory> {
  const result = evaluation.results.find((one) => one.taskId === task && one.attempt === attempt);
  if (result === undefined) {
    throw new UserError({
      code: "attempt-unknown",
      path: `evaluation ${evaluation.id}`,
      asked: `the trace of attempt ${attempt} of ${task}`,
      found: "the evaluation has no such attempt",
      allowed: `its ${evaluation.tasks.length} tasks, attempts 0 to ${evaluation.preset.attempts - 1}`,
      todo: "take task and attempt from the evaluation's results",
    });
  }
  const trajectory = Trajectory.safeParse(parseJson(await store.get(result.traceKey)));
  if (trajectory.success && trajectory.data.taskId === task && trajectory.data.attempt === attempt)
    return trajectory.data;
  throw new UserError({
    code: "trace-corrupt",
    path: result.traceKey,
    asked: `the trace of attempt ${attempt} of ${task}`,
    found: trajectory.success ? "the object is the trace of another attempt" : "the object is not a trajectory",
    allowed: "what the evaluation stored there",
    todo: "restore the object from a backup, or evaluate the checkpoint again",
  });
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    // Text that is no JSON is no trajectory: the caller says so with the object's key.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

async function evaluationOrThrow(db: Database, id: string): Promise<Evaluation> {
  const evaluation = await findEvaluation(db, id);
  if (evaluation !== null) return evaluation;
  throw new UserError({
    code: "evaluation-unknown",
    path: "evaluation",
    asked: id,
    found: "no evaluation of this id is published",
    allowed: "an id that /api/leaderboard lists as evaluationId",
    todo: "look the id up with `uplift leaderboard --json`",
  });
}

const statuses = {
  "evaluation-unknown": 404,
  "attempt-unknown": 404,
  "object-missing": 404,
  "evaluation-differs": 409,
  "board-corrupt": 409,
  "evaluation-malformed": 422,
  "evaluation-incomplete": 422,
  "evaluation-unmeasured": 422,
  "trace-corrupt": 500,
  "object-store-unreachable": 503,
} as const;

function statusOf(code: string) {
  return code in statuses ? statuses[code as keyof typeof statuses] : 400;
}

function errorBody(code: string, message: string, infrastructure = false): ErrorBody {
  return { error: { code, message, infrastructure } };
}
