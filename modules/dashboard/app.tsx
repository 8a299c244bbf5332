/**
 * App: the dashboard over HTTP, as a value. Takes functions that read (and one that cancels); answers with pages that
 * need no script. Binds no port, reads no disk but its own style sheet and script.
 */
import { readFileSync } from "node:fs";
import { type Context, Hono } from "hono";
import { secureHeaders } from "hono/secure-headers";
import { z } from "zod";
import { UserError } from "../../schemas/error.ts";
import type { Evaluation } from "../../schemas/evaluation.ts";
import type { Leaderboard } from "../../schemas/leaderboard.ts";
import { type AttemptAddress, parseAttempt, runPath } from "./addresses.ts";
import type { DashboardData } from "./data.ts";
import { EvaluationPage } from "./evaluation-page.tsx";
import { GridQuery } from "./grid.ts";
import { LeaderboardPage } from "./leaderboard-page.tsx";
import { MessagePage } from "./message-page.tsx";
import { CHECKPOINTS_PER_PAGE, CheckpointsPage, EndpointsPage } from "./model-pages.tsx";
import { RUNS_PER_PAGE, RunPage, RunsPage } from "./runs-page.tsx";
import { sameSite } from "./same-site.ts";
import { type Attempt, ComparePage, TracePage } from "./trace-page.tsx";

const asset = (name: string) => readFileSync(new URL(`./assets/${name}`, import.meta.url), "utf8");
const assets = [
  { path: "/assets/dashboard.css", type: "text/css; charset=utf-8", body: asset("dashboard.css") },
  { path: "/assets/live.js", type: "text/javascript; charset=utf-8", body: asset("live.js") },
  { path: "/assets/icon.svg", type: "image/svg+xml", body: asset("icon.svg") },
] as const;

/** Something the address names is not there. */
class NotFound extends Error {}

const PageNumber = z.coerce.number().int().min(1).max(1_000_000).catch(1);
const From = z.coerce.number().int().min(0).max(1_000_000).catch(0);

const pages = ["/", "/evaluations/*", "/compare", "/runs/*", "/checkpoints", "/endpoints", "/assets/*"] as const;

// Traces are written by models: should one ever get past the escaping, it still could run and load nothing.
const headers = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    // Observable Plot puts a style element into each figure.
    styleSrc: ["'self'", "'unsafe-inline'"],
    imgSrc: ["'self'"],
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
  },
  // The dashboard is served over plain HTTP on the loopback interface.
  strictTransportSecurity: false,
});

/** All pages; mount it at "/", beside the APIs. */
export function dashboardApp({ data, local = true }: { readonly data: DashboardData; readonly local?: boolean }) {
  const app = new Hono();
  // On the pages' own paths only: mounted beside the APIs, this must not change how those answer.
  for (const path of pages) app.use(path, headers);
  // Another site's page must not be able to cancel a run through the reader's browser.
  app.use("/runs/:id/cancel", sameSite({ local }));

  for (const { path, type, body } of assets) {
    app.get(path, (context) => context.body(body, 200, { "content-type": type, "cache-control": "max-age=60" }));
  }

  app.get("/", async (context) => context.html(page(<LeaderboardPage leaderboard={await data.leaderboard()} />)));

  app.get("/evaluations/:id", async (context) => {
    const evaluation = await evaluationOf(data, context.req.param("id"));
    const leaderboard = await data.leaderboard();
    const query = GridQuery.parse(context.req.query());
    return context.html(
      page(
        <EvaluationPage
          evaluation={evaluation}
          base={await baseOf(data, leaderboard, evaluation)}
          row={rowOf(leaderboard, evaluation.id)}
          query={query}
        />,
      ),
    );
  });

  app.get("/evaluations/:id/:task/:attempt", async (context) => {
    const { id, task, attempt } = context.req.param();
    const address = parseAttempt([id, task, attempt].map(encodeURIComponent).join("/"));
    if (address === null) throw new NotFound(`"${attempt}" is no number of an attempt.`);
    const found = await attemptOf(data, address);
    const base = await baseOf(data, await data.leaderboard(), found.evaluation);
    return context.html(page(<TracePage attempt={found} base={base} from={From.parse(context.req.query("from"))} />));
  });

  app.get("/compare", async (context) => {
    const side = async (name: "left" | "right") => {
      const address = parseAttempt(context.req.query(name) ?? "");
      if (address === null) throw new NotFound(`"${name}" has to be EVALUATION/TASK/ATTEMPT.`);
      return attemptOf(data, address);
    };
    return context.html(page(<ComparePage left={await side("left")} right={await side("right")} />));
  });

  app.get("/runs", async (context) => {
    const number = PageNumber.parse(context.req.query("page"));
    const { runs, total } = await data.runs({ offset: (number - 1) * RUNS_PER_PAGE, limit: RUNS_PER_PAGE });
    return context.html(page(<RunsPage runs={runs} total={total} page={number} />));
  });

  app.get("/runs/:id", async (context) => {
    const run = await data.run(context.req.param("id"));
    if (run === null) throw new NotFound(`There is no run ${context.req.param("id")}.`);
    const told = run.steps.filter((step) => step.state === "running" || step.state === "failed");
    const logs = await Promise.all(
      told.map(async (step) => ({ stepId: step.id, text: await data.log(run.id, step.id) })),
    );
    const written = logs.flatMap(({ stepId, text }) => (text === null || text === "" ? [] : [{ stepId, text }]));
    const curves = (await data.metrics(run.id)).filter((series) => series.points.length > 0);
    return context.html(page(<RunPage run={run} curves={curves} logs={written} />));
  });

  app.post("/runs/:id/cancel", async (context) => {
    await data.cancelRun(context.req.param("id"));
    return context.redirect(runPath(context.req.param("id")), 303);
  });

  app.get("/checkpoints", async (context) => {
    const number = PageNumber.parse(context.req.query("page"));
    const listed = await data.checkpoints({ offset: (number - 1) * CHECKPOINTS_PER_PAGE, limit: CHECKPOINTS_PER_PAGE });
    return context.html(page(<CheckpointsPage {...listed} page={number} />));
  });

  app.get("/endpoints", async (context) => {
    return context.html(page(<EndpointsPage endpoints={await data.endpoints()} />));
  });

  app.notFound((context) => message(context, 404, "Not found", ["There is no such page."]));
  app.onError((error, context) => {
    if (error instanceof NotFound) return message(context, 404, "Not found", [error.message]);
    if (error instanceof UserError && error.code === "object-store-unreachable")
      return message(context, 503, "Not now", [error.message]);
    if (error instanceof UserError) {
      const isMissing = error.code.endsWith("-unknown") || error.code === "object-missing";
      return message(context, isMissing ? 404 : 409, isMissing ? "Not found" : "That cannot be done", [error.message]);
    }
    throw error;
  });
  return app;
}

/** The app's type. */
export type DashboardApp = ReturnType<typeof dashboardApp>;

function page(content: unknown): string {
  return `<!doctype html>${content}`;
}

function message(context: Context, status: 404 | 409 | 503, title: string, lines: string[]) {
  return context.html(page(<MessagePage title={title} lines={lines} />), status);
}

async function evaluationOf(data: DashboardData, id: string): Promise<Evaluation> {
  const evaluation = await data.evaluation(id);
  if (evaluation === null) throw new NotFound(`No evaluation ${id} is published.`);
  return evaluation;
}

async function attemptOf(data: DashboardData, address: AttemptAddress): Promise<Attempt> {
  const evaluation = await evaluationOf(data, address.evaluationId);
  const trajectory = await data.trajectory(address.evaluationId, address.task, address.attempt);
  if (trajectory === null)
    throw new NotFound(`${address.task} has no attempt ${address.attempt} in ${address.evaluationId}.`);
  return { address, evaluation, trajectory };
}

function rowOf(leaderboard: Leaderboard, evaluationId: string) {
  return leaderboard.boards.flatMap((board) => board.rows).find((row) => row.evaluationId === evaluationId) ?? null;
}

/** Base's evaluation on the same board; null for base itself and where base was not evaluated. */
async function baseOf(
  data: DashboardData,
  { boards }: Leaderboard,
  evaluation: Evaluation,
): Promise<Evaluation | null> {
  const { base, checkpoint } = evaluation.model;
  if (base === checkpoint) return null;
  const board = boards.find((one) => one.comparabilityKey === evaluation.comparability.key);
  const row = board?.rows.find((one) => one.model.checkpoint === base);
  return row === undefined ? null : data.evaluation(row.evaluationId);
}
