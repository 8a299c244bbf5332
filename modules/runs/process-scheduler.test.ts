import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ProcessJob, ProcessScheduler, type ProcessState } from "./process-scheduler.ts";

let home: string;
let scheduler: ProcessScheduler;
let count = 0;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "uplift-scheduler-"));
  scheduler = new ProcessScheduler((key) => join(home, key));
});
afterEach(async () => {
  await rm(home, { recursive: true, force: true });
});

function bash(script: string): ProcessJob {
  count += 1;
  const key = `test-${process.pid}-${count}`;
  return { key, command: "bash", args: ["-c", script], env: {}, cwd: home, logPath: join(home, `${key}.log`) };
}

async function ended(key: string): Promise<ProcessState> {
  for (let i = 0; i < 200; i += 1) {
    const state = await scheduler.state(key);
    if (state.kind !== "running") return state;
    await sleep(50);
  }
  throw new Error("the job did not end");
}

async function pidWritten(path: string): Promise<number> {
  for (let i = 0; i < 100; i += 1) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.trim()) return Number(text);
    await sleep(20);
  }
  throw new Error("no pid");
}

/** A killed orphan may stay a zombie until the machine's init reaps it. */
async function alive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat !== "" && !/\) Z /.test(stat);
}

describe("the process scheduler", () => {
  it("runs a job, keeps its output and its exit code", async () => {
    const job = bash("echo out; echo err >&2; exit 7");
    await scheduler.submit(job);
    expect(await ended(job.key)).toEqual({ kind: "exited", code: 7 });
    expect(await readFile(job.logPath, "utf8")).toMatch(/^# .*\nout\nerr\n$/);
  });

  it("never takes a job that is just starting or just ending for lost", async () => {
    // On busy cores a process is seen before it has an environment to be found by.
    const jobs = Array.from({ length: 24 }, () => bash("exit 3"));
    const states = await Promise.all(
      jobs.map(async (job) => {
        await scheduler.submit(job);
        return ended(job.key);
      }),
    );
    expect(states).toEqual(jobs.map(() => ({ kind: "exited", code: 3 })));
  });

  it("starts a key once, however often it is submitted", async () => {
    const job = bash("echo once >> count; sleep 0.3");
    await Promise.all([scheduler.submit(job), scheduler.submit(job), scheduler.submit(job)]);
    await ended(job.key);
    await scheduler.submit(job);
    expect(await readFile(join(home, "count"), "utf8")).toBe("once\n");
  });

  it("gives the signal's exit code when the job itself is killed", async () => {
    const job = bash("echo $$ > pid; exec sleep 30");
    await scheduler.submit(job);
    process.kill(await pidWritten(join(home, "pid")), "SIGKILL");
    expect(await ended(job.key)).toEqual({ kind: "exited", code: 137 });
  });

  it("sees a job whose wrapper was killed too as lost", async () => {
    const job = bash("echo $$ > pid; echo $PPID > wrapper; exec sleep 30");
    await scheduler.submit(job);
    const pid = await pidWritten(join(home, "pid"));
    process.kill(await pidWritten(join(home, "wrapper")), "SIGKILL");
    expect(await scheduler.state(job.key)).toEqual({ kind: "running" });
    process.kill(pid, "SIGKILL");
    expect(await ended(job.key)).toEqual({ kind: "lost" });
  });

  it("cancels a job with its children, also one that ignores being asked", async () => {
    const job = bash("trap '' TERM; (trap '' TERM; echo $BASHPID > pid; sleep 30; sleep 30) & wait; sleep 30");
    await scheduler.submit(job);
    const child = await pidWritten(join(home, "pid"));
    await scheduler.cancel(job.key, 300);
    await ended(job.key);
    await sleep(100);
    expect(await alive(child)).toBe(false);
  });

  it("goes on when the process that submitted the job is killed", async () => {
    const job = bash("sleep 0.5; echo done");
    const source = `
      import { ProcessScheduler } from ${JSON.stringify(join(import.meta.dirname, "process-scheduler.ts"))};
      await new ProcessScheduler((key) => ${JSON.stringify(home)} + "/" + key).submit(${JSON.stringify(job)});
      process.kill(process.pid, "SIGKILL");`;
    await execa("node", ["--import", "tsx", "--input-type=module", "-e", source], { reject: false });
    expect(await ended(job.key)).toEqual({ kind: "exited", code: 0 });
  });

  it("knows nothing of a key that was never submitted", async () => {
    expect(await scheduler.state("never")).toEqual({ kind: "unknown" });
  });
});
