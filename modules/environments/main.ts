/**
 * Main: command line → the environment service on a loopback port, until SIGTERM or SIGINT.
 * Comes in: argv, PATH, the process's user; for pods also where Kubernetes says its API is, and the service account's files.
 * Goes out: HTTP, log lines on stdout; exit 0, or 1 with what to do.
 *
 *   tsx modules/environments/main.ts --port 7400 --data DIR --families modules/tasks/repo-chores
 *   tsx modules/environments/main.ts … --sandbox kubernetes --pods '{"namespace": "uplift-sandboxes", …}'
 */
import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { Command, InvalidArgumentError, Option } from "commander";
import { pino } from "pino";
import { fromZod, UserError } from "../../schemas/error.ts";
import { createEnvironmentsApp, createMetricsApp } from "./app.ts";
import type { KubernetesAccess } from "./kubernetes-api.ts";
import { PodSettings } from "./pod-manifest.ts";
import { openEnvironmentService } from "./service.ts";

function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`a whole number from ${least} to ${most} is expected.`);
  };
}

const program = new Command("environments")
  .description("Serves task environments over HTTP: one sandbox an attempt.")
  .requiredOption("--port <number>", "port to listen on; 0 takes a free one", wholeNumber(0, 65_535))
  .requiredOption("--data <folder>", "where task sets, repositories and grades are kept")
  .requiredOption("--families <folders>", "task-family folders, separated by commas", (text) => text.split(","))
  .option("--host <address>", "address to listen on; there is no authentication, so keep it local", "127.0.0.1")
  .option("--max-attempts <number>", "attempts at the same time; at most 300 as processes", wholeNumber(1, 10_000), 128)
  .addOption(
    new Option("--sandbox <kind>", "what an attempt runs in")
      .choices(["bubblewrap", "kubernetes"])
      .default("bubblewrap"),
  )
  .option("--pods <json>", "for --sandbox kubernetes: PodSettings of pod-manifest.ts")
  .option(
    "--service-account <folder>",
    "for --sandbox kubernetes: token and ca.crt",
    "/var/run/secrets/kubernetes.io/serviceaccount",
  )
  .option("--metrics-port <number>", "port that answers GET /metrics and nothing else", wholeNumber(0, 65_535))
  .option(
    "--drain-seconds <number>",
    "after SIGTERM, how long attempts may go on; new ones are refused",
    wholeNumber(0, 86_400),
    0,
  )
  .addHelpText("after", "\nExample:\n  --port 7400 --data .uplift/environments --families modules/tasks/repo-chores");
program.parse();
const options = program.opts<{
  port: number;
  data: string;
  families: string[];
  host: string;
  maxAttempts: number;
  sandbox: "bubblewrap" | "kubernetes";
  pods?: string;
  serviceAccount: string;
  metricsPort?: number;
  drainSeconds: number;
}>();
// Each process has a user of its own, and one that is being graded two.
if (options.sandbox === "bubblewrap" && options.maxAttempts > 300) {
  const { maxAttempts } = options;
  program.error(
    `error: option '--max-attempts <number>' argument '${maxAttempts}' is invalid. a whole number from 1 to 300 is expected.`,
  );
}
const log = pino({ name: "environments", level: process.env.UPLIFT_LOG_LEVEL ?? "info" });
const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

function portInUse(): UserError {
  return new UserError({
    code: "port-in-use",
    path: "--port",
    asked: `the environment service was to listen on ${options.host}:${options.port}`,
    found: "another process listens there",
    allowed: "a free port",
    todo: "end that process, or choose another port (0 takes any free one)",
  });
}

function fail(error: unknown): never {
  if (error instanceof UserError) {
    process.stderr.write(`${error.message}\n`);
    log.fatal({ code: error.code }, error.message);
  } else {
    log.fatal(error instanceof Error ? error : { error }, "the environment service failed");
  }
  process.exit(1);
}

/** What a pod of a service account finds in its environment and files. */
function kubernetesAccess(namespace: string): KubernetesAccess {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  const { serviceAccount } = options;
  if (host === undefined || port === undefined || !existsSync(join(serviceAccount, "token"))) {
    throw new UserError({
      code: "kubernetes-not-inside",
      path: "--sandbox",
      asked: "sandboxes are to be pods",
      found: "this process is in no pod with a service account: KUBERNETES_SERVICE_HOST or the token is missing",
      allowed: "the environment service of a cluster (modules/environments/deployment.ts), or --sandbox bubblewrap",
      todo: "start it with `uplift up`, or leave --sandbox out",
    });
  }
  return {
    url: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    certificateAuthority: readFileSync(join(serviceAccount, "ca.crt"), "utf8"),
    token: async () => (await readFile(join(serviceAccount, "token"), "utf8")).trim(),
    namespace,
  };
}

function podSettings(): PodSettings {
  let value: unknown;
  try {
    value = JSON.parse(options.pods ?? "");
  } catch {
    value = options.pods; // Told by the schema, with all that is expected.
  }
  const parsed = PodSettings.safeParse(value);
  if (parsed.success) return parsed.data;
  throw fromZod(parsed.error, "--pods", "pod-settings-invalid");
}

function podsOf(): { settings: PodSettings; access: KubernetesAccess } {
  const settings = podSettings();
  return { settings, access: kubernetesAccess(settings.namespace) };
}

try {
  const { data, families, maxAttempts, host, port, metricsPort, drainSeconds } = options;
  const root = process.getuid?.() === 0;
  const path = process.env.PATH ?? "";
  const pods = options.sandbox === "kubernetes" ? { pods: podsOf() } : {};
  const service = await openEnvironmentService({ data, families, maxAttempts, path, root, ...pods, version, log });
  const app = createEnvironmentsApp(service);
  // NeMo Gym's client keeps idle connections for 15 s, and takes one that we close first for a lost request.
  const serverOptions = { keepAliveTimeout: 30_000 };
  const server = serve({ fetch: app.fetch, hostname: host, port, serverOptions }, (address) => {
    const { environmentsDigest } = service;
    log.info({ host, port: address.port, environmentsDigest, families: [...service.families.keys()] }, "listening");
  });
  server.on("error", (error: NodeJS.ErrnoException) => {
    void service.close().finally(() => fail(error.code === "EADDRINUSE" ? portInUse() : error));
  });
  if (metricsPort !== undefined) {
    serve({ fetch: createMetricsApp(service).fetch, hostname: host, port: metricsPort }).on("error", fail);
  }
  let state: "up" | "draining" | "stopping" = "up";
  const stop = async (signal: string): Promise<void> => {
    if (state === "stopping") return;
    log.info({ signal, liveAttempts: service.attempts.count }, "stopping");
    if (state === "up" && drainSeconds > 0) {
      state = "draining"; // A second signal ends it at once.
      await service.attempts.drain(drainSeconds * 1000);
      if (state !== "draining") return;
    }
    state = "stopping";
    server.close();
    service.close().then(() => process.exit(0), fail);
  };
  process.on("SIGTERM", (signal) => void stop(signal));
  process.on("SIGINT", (signal) => void stop(signal));
} catch (error) {
  fail(error);
}
