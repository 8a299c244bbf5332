/**
 * Cluster controller: the controller of a platform of nodes: API, dashboard and leaderboard over Postgres and S3, behind a
 * login, and the end of expired endpoints. Its whole state is in the database, the buckets and the cluster; kill it at any
 * moment and the next one goes on. Its folder holds copies of objects and may be lost.
 *
 *   GET /health   it runs            GET /ready   the database answers     (no login)
 *   GET /metrics  Prometheus' text   everything else as on one machine     (login)
 *
 * Runs are read and cancelled but not started: submission is refused (`cluster-runs-missing`) until steps run through Slurm.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { Hono } from "hono";
import { type Logger, pino } from "pino";
import { type ErrorBody, UserError } from "../../schemas/error.ts";
import { listCheckpoints } from "../checkpoints/index.ts";
import { type ShownEndpoint, sameSite } from "../dashboard/index.ts";
import { apiNotFound, leaderboardApp, leaderboardReader } from "../leaderboard/index.ts";
import { Layout, RunStore, runsApp } from "../runs/index.ts";
import { createS3Store, migrate, type OpenDatabase, openDatabase, type S3Location } from "../stores/index.ts";
import { metricsText } from "./cluster-metrics.ts";
import { dashboard } from "./dashboard.ts";
import { answers, every, listen, stopAsked, TABLES } from "./long-lived.ts";
import { databaseIn, readToken } from "./secret-files.ts";
import { webLogin } from "./web-login.ts";

/** What the Deployment tells the controller on its command line. */
export interface ClusterControllerOptions {
  readonly home: string;
  readonly host: string;
  readonly port: number;
  readonly environmentsUrl: string;
  readonly databaseUrlFile: string;
  readonly tokenFile: string;
  readonly objects: S3Location;
}

/** The cluster's endpoints, as the controller uses them: pod-endpoints.ts. */
export interface ControllerEndpoints {
  list(): Promise<readonly ShownEndpoint[]>;
  /** Ends every endpoint whose time is over; returns their names. */
  prune(): Promise<readonly string[]>;
}

/** Seconds between two looks at the endpoints' expiry; an endpoint's own guard frees its GPUs meanwhile. */
const EXPIRY_SECONDS = 30;
/** A database that takes longer to say one is as good as down. */
const READY_SECONDS = 3;
/** Seconds that requests under way get when the process is asked to stop. */
const DRAIN_SECONDS = 10;

/** What a request may use. */
interface Parts {
  readonly options: ClusterControllerOptions;
  readonly database: OpenDatabase;
  readonly endpoints: ControllerEndpoints;
  readonly pruned: { ended: number; failures: number };
  readonly log: Logger;
}

/** Runs until the process is asked to stop; lets requests under way end. */
export async function runClusterController(
  options: ClusterControllerOptions,
  endpoints: ControllerEndpoints,
): Promise<void> {
  const log = pino({ base: undefined });
  await readToken(options.tokenFile);
  const database = await openDatabase(await databaseIn(options.databaseUrlFile));
  await migrate(database, TABLES);
  const pruned = { ended: 0, failures: 0 };
  const app = clusterApp({ options, database, endpoints, pruned, log });
  const server = await listen(app, { host: options.host, port: options.port, path: "--port" });
  log.info({ port: options.port }, "controller ready");

  await every(EXPIRY_SECONDS, stopAsked(), log, async () => {
    try {
      for (const name of await endpoints.prune()) {
        pruned.ended += 1;
        log.info({ name }, "endpoint expired");
      }
    } catch (error) {
      pruned.failures += 1;
      throw error;
    }
  });
  await Promise.race([new Promise((resolve) => server.close(resolve)), sleep(DRAIN_SECONDS * 1000)]);
  await database.close();
  process.exit(0);
}

/** The whole site. */
function clusterApp(parts: Parts) {
  const { options, database, endpoints, pruned, log } = parts;
  const { db } = database;
  const store = createS3Store(options.objects, { copies: join(options.home, "copies") });
  const runs = new RunStore(db);
  // Logs of steps, where there will be some.
  const layout = new Layout(options.home);
  const leaderboard = leaderboardReader(db);
  return new Hono()
    .onError((error, c) => {
      if (error instanceof UserError) {
        const isOutage = error.code === "object-store-unreachable";
        return c.json(errorBody(error.code, error.message, isOutage), isOutage ? 503 : 422);
      }
      log.error({ err: error }, "a request failed");
      return c.json(errorBody("defect", "a mistake in the controller itself; its log has the stack", true), 500);
    })
    .get("/health", (c) => c.json({ status: "ok" }))
    .get("/ready", async (c) =>
      (await isReady(database)) ? c.json({ status: "ready" }) : c.json({ status: "the database does not answer" }, 503),
    )
    .use(sameSite({ local: false }))
    .route("/", webLogin({ token: () => readToken(options.tokenFile), now: () => new Date() }))
    .get("/metrics", async (c) => {
      const text = await metricsText({
        runs: () => runs.counts(),
        leaderboard,
        endpoints: () => endpoints.list(),
        environmentsUp: () => answers(options.environmentsUrl, READY_SECONDS),
        pruned,
      });
      return c.text(text, 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
    })
    .get("/api/checkpoints", async (c) => c.json({ checkpoints: await listCheckpoints(store) }))
    .get("/api/endpoints", async (c) => c.json({ endpoints: await endpoints.list() }))
    .post("/api/runs", () => {
      throw runsMissing("a run is to be started");
    })
    .post("/api/runs/:id/resume", () => {
      throw runsMissing("a run is to go on");
    })
    .route("/", runsApp({ store: runs, layout }))
    .route("/", leaderboardApp({ db, store }))
    .all("/api/*", apiNotFound)
    .route("/", dashboard({ runs, layout, db, store, endpoints: () => endpoints.list(), local: false }));
}

async function isReady({ db }: OpenDatabase): Promise<boolean> {
  const answer = db.execute(sql`select 1`).then(
    () => true,
    () => false,
  );
  return Promise.race([answer, sleep(READY_SECONDS * 1000, false, { ref: false })]);
}

function errorBody(code: string, message: string, infrastructure: boolean): ErrorBody {
  return { error: { code, message, infrastructure } };
}

function runsMissing(asked: string): UserError {
  return new UserError({
    ...{ code: "cluster-runs-missing", path: "runs", asked },
    found: "the controller of a cluster does not yet submit steps to Slurm",
    allowed: "publishing evaluations, the leaderboard, checkpoints, traces and endpoints",
    todo: "submit the plan's jobs with sbatch: uplift plan RECIPE --target TARGET --out FOLDER writes all of them",
  });
}
