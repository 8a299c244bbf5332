/**
 * Process scheduler: a command and a key → a process on this machine that outlives whoever started it.
 * Keeps one folder a key with what was started and how it ended. A key is started at most once, whoever asks how
 * often, and is found again by the key in its environment, never by a pid alone: pids are given out again.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

/** What to run. `env` is added to a minimal environment; it holds no secret. */
export interface ProcessJob {
  readonly key: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Standard output and error are appended here. */
  readonly logPath: string;
}

/** `lost`: it was started, is gone, and left no exit code (the machine or its wrapper was killed). */
export type ProcessState =
  | { readonly kind: "unknown" }
  | { readonly kind: "running" }
  | { readonly kind: "exited"; readonly code: number }
  | { readonly kind: "lost" };

/** How a job's process is told apart from all others. */
const KEY_VARIABLE = "UPLIFT_JOB_KEY";
/** A wrapper claims its job within milliseconds; a job submitted longer ago without a claim never started. */
const CLAIM_MILLISECONDS = 10_000;

/**
 * Claims the key (mkdir is atomic, so that a second wrapper of the same key ends at once), runs the command and
 * records its exit code by rename. A signal's exit code is 128 + its number, as the shell has it. Its last command is
 * a built-in one: bash would turn into any other, and for a moment have no environment to be found by.
 */
const WRAPPER = `
mkdir "$UPLIFT_JOB_FOLDER/claim" 2>/dev/null || exit 0
"$@"
code=$?
printf '{"code":%d}' "$code" > "$UPLIFT_JOB_FOLDER/exit.json.new"
mv "$UPLIFT_JOB_FOLDER/exit.json.new" "$UPLIFT_JOB_FOLDER/exit.json"
exit 0
`;

const ExitFile = z.object({ code: z.number().int() });
const SubmittedFile = z.object({ at: z.number() });

/** The embedded default scheduler of the local target. */
export class ProcessScheduler {
  readonly #folder: (key: string) => string;

  constructor(folder: (key: string) => string) {
    this.#folder = folder;
  }

  /** Starts the job unless its key was started before. Returns as soon as the process exists. */
  async submit(job: ProcessJob): Promise<void> {
    if ((await this.state(job.key)).kind !== "unknown") return;
    const folder = this.#folder(job.key);
    await mkdir(folder, { recursive: true });
    await mkdir(dirname(job.logPath), { recursive: true });
    await writeAtomically(join(folder, "job.json"), JSON.stringify(job));
    await writeAtomically(join(folder, "submitted.json"), JSON.stringify({ at: Date.now() }));
    const log = await open(job.logPath, "a");
    try {
      await log.write(`# ${new Date().toISOString()} ${job.key}: ${[job.command, ...job.args].join(" ")}\n`);
      const child = spawn("bash", ["-c", WRAPPER, "uplift-job", job.command, ...job.args], {
        cwd: job.cwd,
        detached: true,
        stdio: ["ignore", log.fd, log.fd],
        env: { ...inherited(), ...job.env, [KEY_VARIABLE]: job.key, UPLIFT_JOB_FOLDER: folder },
      });
      await new Promise<void>((resolve, reject) => {
        child.once("spawn", resolve);
        child.once("error", reject);
      });
      child.unref();
    } finally {
      await log.close();
    }
  }

  /** What has become of a key. */
  async state(key: string): Promise<ProcessState> {
    const folder = this.#folder(key);
    const exit = await readJson(join(folder, "exit.json"), ExitFile);
    if (exit) return { kind: "exited", code: exit.code };
    const submitted = await readJson(join(folder, "submitted.json"), SubmittedFile);
    if (!submitted) return { kind: "unknown" };
    // Asked first: a process that has just been started has no environment to be found by until it runs; one that has
    // claimed its key has.
    const hadClaimed = await claimed(folder);
    if ((await processesOf(key)).length > 0) return { kind: "running" };
    // It may have ended between the two looks, or not have claimed its key yet.
    const ended = await readJson(join(folder, "exit.json"), ExitFile);
    if (ended) return { kind: "exited", code: ended.code };
    return Date.now() - submitted.at < CLAIM_MILLISECONDS && !hadClaimed ? { kind: "running" } : { kind: "lost" };
  }

  /** Ends every process of a key: first asks, then kills. Safe to repeat. */
  async cancel(key: string, graceMilliseconds = 5000): Promise<void> {
    const deadline = Date.now() + graceMilliseconds;
    for (const pid of await processesOf(key)) signal(pid, "SIGTERM");
    while (Date.now() < deadline) {
      if ((await processesOf(key)).length === 0) return;
      await sleep(50);
    }
    while ((await processesOf(key)).length > 0) {
      for (const pid of await processesOf(key)) signal(pid, "SIGKILL");
      await sleep(50);
    }
  }
}

/** Live processes whose environment carries the key. A zombie has no environment and does not count. */
async function processesOf(key: string): Promise<number[]> {
  const wanted = `${KEY_VARIABLE}=${key}`;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      try {
        const environ = await readFile(`/proc/${pid}/environ`, "utf8");
        return environ.split("\0").includes(wanted) ? [pid] : [];
      } catch {
        return []; // It ended meanwhile, or belongs to another user: not ours in either case.
      }
    }),
  );
  return found.flat();
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * A job sees the search path and locale of whoever started the controller and nothing else of it, save the mark by
 * which `uplift destroy` finds every process of a home (modules/cluster/process-identity.ts).
 */
function inherited(): Record<string, string> {
  const kept = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "UPLIFT_PROCESS_OF"];
  return Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}

async function claimed(folder: string): Promise<boolean> {
  return (await readdir(folder)).includes("claim");
}

async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  try {
    return schema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

async function writeAtomically(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${randomUUID()}`;
  await writeFile(unfinished, text);
  await rename(unfinished, path);
}
