/**
 * Main: command line → the environment service on a loopback port, until SIGTERM or SIGINT.
 * Comes in: argv, PATH, the process's user. Goes out: HTTP, log lines on stdout; exit 0, or 1 with what to do.
 *
 *   tsx modules/environments/main.ts --port 7400 --data DIR --families modules/tasks/repo-chores
 */
import { readFileSync } from "node:fs";
import { serve } from "@hono/node-server";
import { Command, InvalidArgumentError } from "commander";
import { pino } from "pino";
import { UserError } from "../../schemas/error.ts";
import { createEnvironmentsApp } from "./app.ts";
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
  .option("--max-attempts <number>", "attempts at the same time", wholeNumber(1, 300), 128)
  .addHelpText("after", "\nExample:\n  --port 7400 --data .uplift/environments --families modules/tasks/repo-chores");
program.parse();
const options = program.opts<{ port: number; data: string; families: string[]; host: string; maxAttempts: number }>();
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

try {
  const { data, families, maxAttempts, host, port } = options;
  const root = process.getuid?.() === 0;
  const path = process.env.PATH ?? "";
  const service = await openEnvironmentService({ data, families, maxAttempts, path, root, version, log });
  const app = createEnvironmentsApp(service);
  const server = serve({ fetch: app.fetch, hostname: host, port }, (address) => {
    const { environmentsDigest } = service;
    log.info({ host, port: address.port, environmentsDigest, families: [...service.families.keys()] }, "listening");
  });
  server.on("error", (error: NodeJS.ErrnoException) => {
    void service.close().finally(() => fail(error.code === "EADDRINUSE" ? portInUse() : error));
  });
  const stop = (signal: string): void => {
    log.info({ signal, liveAttempts: service.attempts.count }, "stopping");
    server.close();
    service.close().then(() => process.exit(0), fail);
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
} catch (error) {
  fail(error);
}
