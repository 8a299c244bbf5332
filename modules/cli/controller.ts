/**
 * Controller: one long-lived process: API, dashboard and the reconcile loop. Its whole state is in the database and
 * the home's folders; kill it at any moment and the next one goes on.
 */
import { join } from "node:path";
import { Hono } from "hono";
import { pino } from "pino";
import { listCheckpoints } from "../checkpoints/index.ts";
import { sameSiteOnly } from "../dashboard/index.ts";
import { apiNotFound, leaderboardApp } from "../leaderboard/index.ts";
import { Layout, Reconciler, RunStore, runsApp, type StepExecutors } from "../runs/index.ts";
import { serverCodeDigest } from "../serving/index.ts";
import { createDirectoryStore, migrate, openDatabase } from "../stores/index.ts";
import { dashboard } from "./dashboard.ts";
import { EndpointHost } from "./endpoint-host.ts";
import { every, listen, stopAsked, TABLES } from "./long-lived.ts";
import { PROJECT_DIR } from "./project.ts";
import { runTools } from "./run-tools.ts";
import { openEngine } from "./session.ts";
import { checkpoint } from "./steps/checkpoint.ts";
import { collect } from "./steps/collect.ts";
import { evaluate } from "./steps/evaluate.ts";
import { probe } from "./steps/probe.ts";
import { publish } from "./steps/publish.ts";
import { select } from "./steps/select.ts";
import type { StepTools } from "./steps/step-tools.ts";
import { train } from "./steps/train.ts";

/** What the stack tells the controller on its command line. */
export interface ControllerOptions {
  readonly home: string;
  readonly port: number;
  readonly environmentsUrl: string;
  readonly python: string;
  readonly slots: number;
  readonly threads: number;
  readonly endpointHours: number;
}

/** Seconds between two looks at the runs, and at the endpoints' expiry. */
const TICK_SECONDS = 1;
const EXPIRY_SECONDS = 30;

/** Runs until the process is asked to stop; then lets the look in hand end and leaves jobs running. */
export async function runController(options: ControllerOptions): Promise<void> {
  const log = pino({ base: undefined });
  const now = () => new Date();
  const layout = new Layout(options.home);
  const store = createDirectoryStore(join(options.home, "objects"));
  const database = await openDatabase({ kind: "pglite", dir: join(options.home, "database") });
  await migrate(database, TABLES);
  const runs = new RunStore(database.db);
  const engine = await openEngine(options.home);
  const endpoints = new EndpointHost({ engine, store, python: options.python, home: options.home, now });
  const { environmentsUrl, python, threads } = options;
  const tools: StepTools = {
    ...runTools({ layout, store, runs, environmentsUrl, remedy: "uplift up brings it back", now }),
    ...{ python, threads },
    serverCode: ({ serving }) => serverCodeDigest(serving.server, PROJECT_DIR),
  };
  const executors: StepExecutors = {
    collect: collect(tools),
    select: select(tools),
    train: train(tools),
    checkpoint: checkpoint(tools),
    probe: probe(tools, { host: endpoints, hours: options.endpointHours }),
    evaluate: evaluate(tools, { host: endpoints, hours: options.endpointHours }),
    publish: publish(tools, database.db),
  };
  const reconciler = new Reconciler({ store: runs, executors, slots: options.slots });

  const app = new Hono()
    .use(sameSiteOnly)
    .onError((error, c) => {
      log.error({ err: error }, "a request failed");
      return c.json({ error: { code: "defect", message: error.message, infrastructure: true } }, 500);
    })
    .get("/health", (c) => c.json({ status: "ok" }))
    .get("/api/checkpoints", async (c) => c.json({ checkpoints: await listCheckpoints(store) }))
    .get("/api/endpoints", async (c) => c.json({ endpoints: await engine.listEndpoints() }))
    .route("/", runsApp({ store: runs, layout }))
    .route("/", leaderboardApp({ db: database.db, store }))
    .all("/api/*", apiNotFound)
    .route("/", dashboard({ runs, layout, db: database.db, store, endpoints: () => engine.listEndpoints() }));
  const server = await listen(app, { host: "127.0.0.1", port: options.port, path: "controllerPort" });
  log.info({ port: options.port }, "controller ready");

  const stop = stopAsked();
  await Promise.all([
    every(TICK_SECONDS, stop, log, () => reconciler.tick()),
    every(EXPIRY_SECONDS, stop, log, async () => {
      for (const name of await endpoints.closeExpired()) log.info({ name }, "endpoint expired");
    }),
  ]);
  server.close();
  await database.close();
  // Evaluations under way would keep the process alive; the next controller goes on with them.
  process.exit(0);
}
