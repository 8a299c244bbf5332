/**
 * Long-lived: what both controllers, on one machine and in a cluster, have of a process that stays: its tables, listening,
 * looking again and again, being asked to stop.
 */
import { type ServerType, serve } from "@hono/node-server";
import type { Hono } from "hono";
import type { Logger } from "pino";
import { UserError } from "../../schemas/error.ts";
import { migrations as leaderboardMigrations } from "../leaderboard/index.ts";
import { migrations as runMigrations } from "../runs/index.ts";
import type { ModuleMigrations } from "../stores/index.ts";

/** Every module's tables. */
export const TABLES: readonly ModuleMigrations[] = [
  { module: "runs", migrations: runMigrations },
  { module: "leaderboard", migrations: leaderboardMigrations },
];

/** Listens; a UserError `port-in-use` where another process does, with `path`, which set the port. */
export function listen(
  app: Pick<Hono, "fetch">,
  at: { host: string; port: number; path: string },
): Promise<ServerType> {
  const { host, port, path } = at;
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, port, hostname: host }, () => resolve(server));
    server.on("error", (error: NodeJS.ErrnoException) =>
      reject(error.code === "EADDRINUSE" ? portInUse(port, path) : error),
    );
  });
}

/** Aborts when the process is asked to stop. */
export function stopAsked(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort());
  return stop.signal;
}

/** Calls `work` again and again, a pause between; a failure is logged and the next look tries again. */
export async function every(
  seconds: number,
  stop: AbortSignal,
  log: Logger,
  work: () => Promise<unknown>,
): Promise<void> {
  while (!stop.aborted) {
    try {
      await work();
    } catch (error) {
      log.error({ err: error }, "a look of the controller failed");
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, seconds * 1000);
      function done() {
        clearTimeout(timer);
        stop.removeEventListener("abort", done);
        resolve();
      }
      stop.addEventListener("abort", done);
    });
  }
}

/** Whether a service answers its /health within a time. */
export function answers(url: string, seconds: number): Promise<boolean> {
  return fetch(`${url}/health`, { signal: AbortSignal.timeout(seconds * 1000) }).then(
    ({ ok }) => ok,
    () => false,
  );
}

function portInUse(port: number, path: string): UserError {
  return new UserError({
    code: "port-in-use",
    path,
    asked: `the controller is to listen on port ${port}`,
    found: "another process does",
    allowed: "a free port",
    todo: "stop that process, or set controllerPort in a copy of stacks/targets/local.ts",
  });
}
