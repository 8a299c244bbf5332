/**
 * AWS of a test's own: moto's real HTTP server (tools/moto) on a free port of the loopback address. It keeps everything in
 * memory, takes any credentials and has one account, 123456789012. Clients need `endpoint: url`, a region, any keys, and for
 * S3 `forcePathStyle: true`.
 * Writes a temporary folder for its log, which stop() removes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { freePort } from "../../modules/cluster/free-port.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Ready in 2 s on two idle cores; other tests may keep both busy. */
const START_SECONDS = 90;

/** A running server; everything in it is gone after stop(). */
export interface Moto {
  readonly url: string;
  stop(): Promise<void>;
  /** Stops answering, and goes on: an outage as clients see it (connections stay open, nothing comes). */
  pause(): void;
  resume(): void;
}

/** Starts a server and returns when it answers. The first time it installs moto: half a minute. */
export async function startMoto(): Promise<Moto> {
  const python = (await execa(join(ROOT, "tools/python-env.sh"), [join(ROOT, "tools/moto")])).stdout.trim();
  const folder = await mkdtemp(join(tmpdir(), "uplift-moto-"));
  const log = join(folder, "moto.log");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = openSync(log, "w");
  // Killed with its parent: a test that is killed runs no afterAll.
  const child = spawn(
    "setpriv",
    ["--pdeathsig=KILL", python, "-m", "moto.server", "--host", "127.0.0.1", "--port", String(port)],
    { stdio: ["ignore", file, file], cwd: folder },
  );
  closeSync(file);
  const stop = async () => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilReady(url, child, log);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop, pause: () => void child.kill("SIGSTOP"), resume: () => void child.kill("SIGCONT") };
}

async function untilReady(url: string, child: ChildProcess, log: string): Promise<void> {
  const deadline = Date.now() + START_SECONDS * 1000;
  for (;;) {
    const answer = await fetch(`${url}/moto-api/data.json`, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    const ended = child.exitCode !== null || child.signalCode !== null;
    if (ended || Date.now() > deadline) {
      const said = (await readFile(log, "utf8")).trimEnd().split("\n").slice(-20).join("\n  | ");
      throw new Error(`moto ${ended ? "ended" : `is not ready after ${START_SECONDS} s`}:\n  | ${said}`);
    }
    await sleep(100);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}
