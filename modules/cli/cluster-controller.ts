/**
 * Cluster controller: the controller of a platform of nodes: API, dashboard and leaderboard over Postgres and S3, behind a login;
 * the reconcile loop, whose GPU work is Slurm's; and the end of expired endpoints. Its whole state is in the database, the buckets,
 * the shared storage and the cluster; kill it at any moment and the next one goes on. Its own folder may be lost.
 *
 *   GET /health   it runs            GET /ready   the database answers     (no login)
 *   GET /metrics  Prometheus' text   everything else as on one machine     (login)
 *
 * Of two processes on one database one reconciles; the other answers requests, and takes over when the first has ended.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { Hono } from "hono";
import { type Logger, pino } from "pino";
import { type ErrorBody, UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { GpuPool } from "../../schemas/pool.ts";
import type { Run } from "../../schemas/run.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import { listCheckpoints } from "../checkpoints/index.ts";
import { type ShownEndpoint, sameSite } from "../dashboard/index.ts";
import { apiNotFound, leaderboardApp, leaderboardReader } from "../leaderboard/index.ts";
import { type BatchScheduler, Layout, Reconciler, RunStore, runsApp } from "../runs/index.ts";
import {
  createS3Store,
  createSharedStore,
  type HeldLock,
  migrate,
  type OpenDatabase,
  openDatabase,
  type S3Location,
} from "../stores/index.ts";
import { metricsText } from "./cluster-metrics.ts";
import { clusterServerCode } from "./cluster-server-code.ts";
import { clusterExecutors } from "./cluster-steps.ts";
import { requireAcceptable, requireSameExpert } from "./cluster-submission.ts";
import { dashboard } from "./dashboard.ts";
import { answers, every, listen, stopAsked, TABLES } from "./long-lived.ts";
import { objectsApp } from "./objects-app.ts";
import { PROJECT_DIR } from "./project.ts";
import { runTools } from "./run-tools.ts";
import { databaseIn, readToken } from "./secret-files.ts";
import type { Endpoints } from "./steps/measure.ts";
import { webLogin } from "./web-login.ts";

/** What the Deployment tells the controller on its command line. */
export interface ClusterControllerOptions {
  /** Copies of objects, uploads under way; of this process alone. */
  readonly home: string;
  readonly host: string;
  readonly port: number;
  /** Where the shared storage is mounted: the home of runs. */
  readonly mountPath: string;
  readonly environmentsUrl: string;
  readonly databaseUrlFile: string;
  readonly tokenFile: string;
  readonly objects: S3Location;
  readonly target: PlatformTarget;
  /** Nodes that serve. */
  readonly servingPool: GpuPool;
}

/** The cluster's endpoints, as the controller uses them: pod-endpoints.ts. */
export interface ControllerEndpoints {
  list(): Promise<readonly ShownEndpoint[]>;
  /** Ends every endpoint whose time is over; returns their names. */
  prune(): Promise<readonly string[]>;
}

/** What the controller speaks to, each a service of its own. */
export interface ClusterServices {
  readonly endpoints: ControllerEndpoints;
  /** Endpoints that evaluations make. */
  readonly host: Endpoints["host"];
  readonly batch: BatchScheduler;
}

/** Seconds between two looks at the runs, and at the endpoints' expiry; an endpoint's own guard frees its GPUs meanwhile. */
const TICK_SECONDS = 2;
const EXPIRY_SECONDS = 30;
/** A database that takes longer to say one is as good as down. */
const READY_SECONDS = 3;
/** Seconds that requests under way get when the process is asked to stop. */
const DRAIN_SECONDS = 10;
/** Of whoever reconciles; the migrations' is 7 600 001. */
const RECONCILER_LOCK = 7_600_002;

/** Runs until the process is asked to stop; lets requests under way end, and leaves jobs running. */
export async function runClusterController(
  options: ClusterControllerOptions,
  services: ClusterServices,
): Promise<void> {
  const log = pino({ base: undefined });
  await readToken(options.tokenFile);
  await rm(uploadsOf(options.home), { recursive: true, force: true });
  const database = await openDatabase(await databaseIn(options.databaseUrlFile));
  await migrate(database, TABLES);
  const controller = clusterController({ options, services, database, log, now: () => new Date() });
  const server = await listen(controller.app, { host: options.host, port: options.port, path: "--port" });
  log.info({ port: options.port }, "controller ready");

  const stop = stopAsked();
  await Promise.all([
    every(TICK_SECONDS, stop, log, async () => {
      const turn = await controller.tick();
      if (turn === "lost") {
        // What it measures would be measured twice from now on. Whoever starts it again finds it waiting for its turn.
        log.error("another controller has taken over");
        process.exit(1);
      }
    }),
    every(EXPIRY_SECONDS, stop, log, () => controller.prune()),
  ]);
  await Promise.race([new Promise((resolve) => server.close(resolve)), sleep(DRAIN_SECONDS * 1000)]);
  await controller.release();
  await database.close();
  // Evaluations under way would keep the process alive; the next controller goes on with them.
  process.exit(0);
}

/** What the process is made of: its site and its work, to be done again and again. */
export interface ClusterController {
  readonly app: Pick<Hono, "fetch">;
  /** Looks at every active run once, where it is this process's turn: "mine"; "waiting" while another process reconciles. */
  tick(): Promise<"mine" | "waiting" | "lost">;
  prune(): Promise<void>;
  /** Lets another process have its turn. */
  release(): Promise<void>;
}

interface Parts {
  readonly options: Omit<ClusterControllerOptions, "host" | "port" | "databaseUrlFile">;
  readonly services: ClusterServices;
  readonly database: OpenDatabase;
  readonly log: Logger;
  readonly now: () => Date;
}

/** The controller over services that are open. */
export function clusterController(parts: Parts): ClusterController {
  const { options, services, database, log, now } = parts;
  const { home, mountPath, environmentsUrl, target, servingPool } = options;
  const s3 = createS3Store(options.objects, { copies: join(home, "copies") });
  const store = createSharedStore({ mountPath, objects: s3 });
  const runs = new RunStore(database.db);
  const layout = new Layout(mountPath);
  const pruned = { ended: 0, failures: 0 };
  const tools = {
    ...runTools({ layout, store, runs, environmentsUrl, remedy: "steps that need it wait", now }),
    ...{ batch: services.batch, mountPath },
    // This pod reads every secret of the platform: what was uploaded is kept as a record of the run, and never executed here.
    codeOf: async ({ plan }: Run) => {
      // Asked again: the image may be another one than when the run was taken.
      requireSameExpert(plan);
      return PROJECT_DIR;
    },
    serverCode: async (plan: Plan) => clusterServerCode(plan),
    // Of trainers on one machine, which no step here starts.
    ...{ python: "python3", threads: 1 },
  };
  const endpoints = { host: services.host, hours: target.endpointHours };
  const executors = clusterExecutors(tools, endpoints, database.db);
  const reconciler = new Reconciler({ store: runs, executors, slots: servingPool.maxNodes, now });
  let turn: HeldLock | null = null;
  let hadIt = false;
  return {
    app: clusterApp({ ...parts, store, runs, layout, pruned }),
    async tick() {
      if (turn && !(await turn.isHeld())) turn = null;
      turn ??= await database.tryLock(RECONCILER_LOCK);
      if (turn === null) return hadIt ? "lost" : "waiting";
      hadIt = true;
      await reconciler.tick();
      return "mine";
    },
    async prune() {
      try {
        for (const name of await services.endpoints.prune()) {
          pruned.ended += 1;
          log.info({ name }, "endpoint expired");
        }
      } catch (error) {
        pruned.failures += 1;
        throw error;
      }
    },
    release: async () => turn?.release(),
  };
}

interface SiteParts extends Parts {
  readonly store: ObjectStore;
  readonly runs: RunStore;
  readonly layout: Layout;
  readonly pruned: { readonly ended: number; readonly failures: number };
}

/** The whole site. */
function clusterApp({ options, services, database, store, runs, layout, pruned, log, now }: SiteParts) {
  const { endpoints } = services;
  const { target, servingPool } = options;
  const { db } = database;
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
    .route("/", webLogin({ token: () => readToken(options.tokenFile), now }))
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
    .route("/", objectsApp({ store, folder: uploadsOf(options.home) }))
    .route("/", runsApp({ store: runs, layout, now, accept: (plan) => requireAcceptable(plan, target, servingPool) }))
    .route("/", leaderboardApp({ db, store }))
    .all("/api/*", apiNotFound)
    .route("/", dashboard({ runs, layout, db, store, endpoints: () => endpoints.list(), local: false }));
}

const uploadsOf = (home: string) => join(home, "uploads");

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
