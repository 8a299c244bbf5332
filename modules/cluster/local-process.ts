/**
 * Local process: a long-lived service on this machine, started apart from us and found again by its identity.
 * In: what to run. Out: who runs it. Starts and ends processes; writes its log and HOME/processes/NAME.pid.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readlink, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../../schemas/error.ts";
import {
  describePortHolder,
  groupMembers,
  HOME_MARKER,
  identify,
  isRunning,
  type ProcessIdentity,
  readPidFile,
} from "./process-identity.ts";

/** What a service is: any change of these replaces it. */
export const LocalProcessInputs = z.object({
  kind: z.literal("process"),
  /** Unique within a home: "controller", "serving-0123456789ab". */
  name: z.string().regex(/^[a-z0-9][a-z0-9-]*$/),
  /** Absolute folder of state; its marker is in the environment of everything the service starts. */
  home: z.string().startsWith("/"),
  command: z.string().min(1),
  args: z.array(z.string()),
  /** Added to what a service inherits; see INHERITED. */
  env: z.record(z.string(), z.string()).default({}),
  /** Relative to the clone, so that state is the same in every clone; default the clone itself. */
  cwd: z.string().default("."),
  /** Output and errors, appended. */
  logPath: z.string(),
  /** Refuse to start when it is taken. */
  port: z.number().int().optional(),
  /** Ready when it answers 2xx here. */
  healthUrl: z.string().optional(),
  /** Longest wait for readiness. */
  readySeconds: z.number().positive().default(60),
  /** Time to end by itself after SIGTERM. */
  stopSeconds: z.number().positive().default(10),
  /** It ends by itself at this time (ISO 8601). */
  expiresAt: z.iso.datetime().optional(),
  /** Digest of the code it runs: other code, another service. */
  codeDigest: z.string().optional(),
});
export type LocalProcessInputs = z.infer<typeof LocalProcessInputs>;

/** What it takes to find a service and end it. */
export type Stoppable = Pick<LocalProcessInputs, "name" | "home" | "stopSeconds">;

/** Clone and clock and environment, known only to main.ts. */
export type Surroundings = {
  root: string;
  environment: Readonly<Record<string, string | undefined>>;
  now: () => number;
};

// A service must not inherit the caller's secrets (API tokens, Pulumi's passphrase), so this is a list of what it may see.
const INHERITED =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|XDG_.*|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|CUDA_.*|NVIDIA_.*|LD_LIBRARY_PATH|UPLIFT_CACHE)$/;

// The process notes its own identity before it becomes the service: whoever is killed in between, no service runs unnoted.
const NOTE_THEN_RUN =
  'set -e; read -r boot </proc/sys/kernel/random/boot_id; read -r stat </proc/$$/stat; printf "%s\\n%s\\n" "$boot" "$stat" >"$0"; exec "$@"';

/** Starts a service and waits until it is ready; what a killed start left behind is ended first. */
export async function startProcess(inputs: LocalProcessInputs, around: Surroundings): Promise<ProcessIdentity> {
  const pidFile = pidFilePath(inputs);
  await mkdir(dirname(pidFile), { recursive: true });
  await mkdir(dirname(inputs.logPath), { recursive: true });
  const leftOver = await readPidFile(pidFile);
  if (leftOver) await endGroup(leftOver, inputs);
  if (inputs.port !== undefined) await requireFreePort(inputs.name, inputs.port);
  await rm(pidFile, { force: true });

  const log = await open(inputs.logPath, "a", 0o600);
  const logStart = (await log.stat()).size;
  const child = spawn("/bin/sh", ["-c", NOTE_THEN_RUN, pidFile, ...commandOf(inputs, around.now())], {
    cwd: join(around.root, inputs.cwd),
    detached: true,
    stdio: ["ignore", log.fd, log.fd],
    env: environmentOf(inputs, around.environment),
  });
  await once(child, "spawn").finally(() => log.close());
  child.unref();
  try {
    return await waitUntilReady(inputs, child, pidFile);
  } catch (error) {
    const started = await readPidFile(pidFile);
    if (started) await stopProcess(inputs, started);
    throw startFailed(inputs, (error as Error).message, await logTail(inputs.logPath, logStart));
  }
}

/** Whether the service still runs, in a folder that still exists (a clone that was deleted takes its services' code away). */
export async function processIsThere(identity: ProcessIdentity): Promise<boolean> {
  if (!(await isRunning(identity))) return false;
  try {
    return !(await readlink(`/proc/${identity.pid}/cwd`)).endsWith(" (deleted)");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Ends a service and its group: SIGTERM, then SIGKILL. Nothing to do is fine; a stranger with its old pid is left alone. */
export async function stopProcess(inputs: Stoppable, identity: ProcessIdentity): Promise<void> {
  await endGroup(identity, inputs);
  await stopNotedProcess(inputs);
}

/** Ends the service of this name that noted itself, whether or not any state knows of it. */
export async function stopNotedProcess(inputs: Stoppable): Promise<void> {
  const noted = await readPidFile(pidFilePath(inputs));
  if (noted) await endGroup(noted, inputs);
  await rm(pidFilePath(inputs), { force: true });
}

/** Ends processes by identity, gently first; returns when none is left. */
export async function endProcesses(find: () => Promise<number[]>, stopSeconds: number): Promise<void> {
  const deadline = performance.now() + stopSeconds * 1000;
  signal(await find(), "SIGTERM");
  for (;;) {
    const left = await find();
    if (left.length === 0) return;
    if (performance.now() > deadline + 10_000) throw new Error(`processes ${left.join(", ")} survive SIGKILL`);
    if (performance.now() > deadline) signal(left, "SIGKILL");
    await sleep(50);
  }
}

/** Where a service's identity is noted. */
export function pidFilePath(inputs: { home: string; name: string }): string {
  return join(inputs.home, "processes", `${inputs.name}.pid`);
}

function endGroup(leader: ProcessIdentity, inputs: Stoppable): Promise<void> {
  return endProcesses(async () => {
    const members = await groupMembers(leader, inputs.home);
    if (!members.includes(leader.pid) && (await isRunning(leader))) members.push(leader.pid);
    return members;
  }, inputs.stopSeconds);
}

function signal(pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch (error) {
      // It ended by itself between the look and the signal.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}

function commandOf(inputs: LocalProcessInputs, now: number): string[] {
  const command = [inputs.command, ...inputs.args];
  if (inputs.expiresAt === undefined) return command;
  // `timeout` of coreutils ends it even when every process of ours is dead by then.
  const seconds = Math.max(1, Math.round((Date.parse(inputs.expiresAt) - now) / 1000));
  return ["timeout", "--kill-after", String(inputs.stopSeconds), String(seconds), ...command];
}

function environmentOf(inputs: LocalProcessInputs, environment: Surroundings["environment"]): Record<string, string> {
  const inherited = Object.entries(environment).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && INHERITED.test(entry[0]),
  );
  return { ...Object.fromEntries(inherited), ...inputs.env, [HOME_MARKER]: inputs.home };
}

async function waitUntilReady(
  inputs: LocalProcessInputs,
  child: ChildProcess,
  pidFile: string,
): Promise<ProcessIdentity> {
  const deadline = performance.now() + inputs.readySeconds * 1000;
  // Without a health address, ready means that it survived its first moments.
  const settled = performance.now() + 300;
  for (let pause = 50; ; pause = Math.min(500, pause * 1.5)) {
    if (child.exitCode !== null) throw new Error(`it ended with exit code ${child.exitCode}`);
    if (child.signalCode !== null) throw new Error(`it was ended by ${child.signalCode}`);
    const identity = await readPidFile(pidFile);
    if (identity && child.pid === identity.pid && (await identify(identity.pid))) {
      if (inputs.healthUrl === undefined ? performance.now() > settled : await answers(inputs.healthUrl))
        return identity;
    }
    if (performance.now() > deadline) throw new Error(`it did not answer within ${inputs.readySeconds} s`);
    await sleep(pause);
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    // Refused or too slow: not ready yet; the caller's deadline decides.
    return false;
  }
}

async function requireFreePort(name: string, port: number): Promise<void> {
  const probe = createServer();
  probe.listen(port, "127.0.0.1");
  try {
    await once(probe, "listening");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new UserError({
      code: "port-in-use",
      path: `${name}: port`,
      asked: `${name} is to listen on 127.0.0.1:${port}`,
      found: `${await describePortHolder(port)} listens there`,
      allowed: "a port that nothing else uses, from 1024 to 65535",
      todo: "choose another port in the target file (stacks/targets/), or stop that process",
    });
  }
  probe.close();
  await once(probe, "close");
}

function startFailed(inputs: LocalProcessInputs, found: string, tail: string): UserError {
  return new UserError({
    code: "service-start-failed",
    path: inputs.name,
    asked: `${inputs.command} ${inputs.args.join(" ")} was started`,
    found: `${found}; the end of its log:\n${tail || "(nothing was written)"}\n`,
    allowed: `a service that is ready within ${inputs.readySeconds} s`,
    todo: `read ${inputs.logPath}, correct the cause and run the command again`,
  });
}

/** The last lines written since an offset, at most 4,000 characters. */
async function logTail(path: string, from: number): Promise<string> {
  const { size } = await stat(path);
  const start = Math.max(from, size - 4000);
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
    return buffer.toString("utf8", 0, bytesRead).trimEnd().split("\n").slice(-25).join("\n");
  } finally {
    await file.close();
  }
}
