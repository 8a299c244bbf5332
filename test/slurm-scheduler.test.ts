/**
 * The batch scheduler on a real Slurm 22.05 of this test's own, over REST and by commands: the same contract, then its faults.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BatchJob, type BatchState, SlurmCommands, SlurmRest, SlurmScheduler } from "../modules/runs/index.ts";
import { type SlurmCluster, startSlurm } from "./support/slurm.ts";

let slurm: SlurmCluster;
let work: string;
let serial = 0;

beforeAll(async () => {
  slurm = await startSlurm();
  work = join(slurm.folder, "work");
  await mkdir(work);
});
afterAll(() => slurm?.stop());

const overRest = (changes: Partial<ConstructorParameters<typeof SlurmRest>[0]> = {}) =>
  new SlurmScheduler(new SlurmRest({ url: slurm.restUrl, user: slurm.user, token: () => slurm.token(), ...changes }));
const byCommands = () => new SlurmScheduler(new SlurmCommands({ env: slurm.env }));

/** A job of one node, of a name of its own, whose log is `logOf` it. */
function job(script: string, changes: Partial<BatchJob> = {}): BatchJob {
  const name = changes.name ?? `run-${++serial}.sft`;
  return {
    key: `${name}.1`,
    name,
    script: `#!/bin/bash\n${script}\n`,
    env: {},
    workingDirectory: work,
    logPath: join(work, `${name}.log`),
    nodes: 1,
    gpusPerNode: 8,
    partition: "main",
    account: "research",
    walltimeSeconds: 3600,
    signal: null,
    ...changes,
  };
}

const logOf = (of: BatchJob) => readFile(of.logPath, "utf8").catch(() => "");

/** Waits for a state; says which one it is where it does not come. */
async function become(
  scheduler: SlurmScheduler,
  key: string,
  fits: (state: BatchState) => boolean,
): Promise<BatchState> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    const state = await scheduler.state(key);
    if (fits(state)) return state;
    if (Date.now() > deadline) throw new Error(`${key} stays ${JSON.stringify(state)}`);
    await sleep(100);
  }
}
const ended = (scheduler: SlurmScheduler, key: string) => become(scheduler, key, ({ kind }) => kind === "ended");
const running = (scheduler: SlurmScheduler, key: string) => become(scheduler, key, ({ kind }) => kind === "running");
const waiting = (scheduler: SlurmScheduler, key: string) => become(scheduler, key, ({ kind }) => kind === "waiting");

/** Asks for the end of a job, as often as it takes. */
async function cancelled(scheduler: SlurmScheduler, key: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while ((await scheduler.cancel(key)) !== "gone") {
    if (Date.now() > deadline) throw new Error(`${key} does not end: ${JSON.stringify(await scheduler.state(key))}`);
    await sleep(100);
  }
}

/** Until a job has written a line, since it runs a moment before its script does. */
async function written(of: BatchJob, line: string): Promise<void> {
  for (let look = 0; look < 1200; look++) {
    if ((await logOf(of)).includes(line)) return;
    await sleep(50);
  }
  throw new Error(`${of.key} does not write "${line}":\n${await logOf(of)}`);
}

describe.each([
  ["REST", overRest],
  ["commands", byCommands],
])("a job over Slurm's %s", (_, schedulerOf) => {
  it("is unknown, then runs with its nodes, GPUs, environment and folder, then has ended with its exit code", async () => {
    const scheduler = schedulerOf();
    const script = [
      'echo "$CUDA_VISIBLE_DEVICES | $(scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l) nodes | $PWD | $VALUE | $UPLIFT_JOB_KEY"',
      'echo "to standard error" >&2',
      "scontrol show job $SLURM_JOB_ID | grep -oE 'TimeLimit=[^ ]+|OverSubscribe=[^ ]+|Account=[^ ]+|mem=[0-9]+M|NtasksPerN:B:S:C=1'",
      "until [ -e go ]; do sleep 0.1; done; rm go; exit 3",
    ];
    const one = job(script.join("\n"), { nodes: 2, env: { VALUE: 'a "b"; $HOME\n=c' }, walltimeSeconds: 3601 });
    expect(await scheduler.state(one.key)).toEqual({ kind: "unknown" });
    await scheduler.submit(one);
    expect(await running(scheduler, one.key)).toMatchObject({
      nodes: expect.stringMatching(/^n\[\d[-,]\d\]$/),
      restarts: 0,
    });
    await written(one, "mem=");
    await writeFile(join(work, "go"), "");
    expect(await ended(scheduler, one.key)).toEqual({ kind: "ended", state: "FAILED", exitCode: 3 });
    const lines = (await logOf(one)).split("\n");
    expect(lines.slice(0, 3)).toEqual([
      `0,1,2,3,4,5,6,7 | 2 nodes | ${work} | a "b"; $HOME`,
      `=c | ${one.key}`,
      "to standard error",
    ]);
    expect(lines.slice(3, -1)).toEqual([
      "Account=research",
      "TimeLimit=01:01:00",
      "mem=2000000M",
      "NtasksPerN:B:S:C=1",
      "OverSubscribe=NO",
    ]);
  });

  it("is started once however often it is submitted, and not again when it has ended", async () => {
    const scheduler = schedulerOf();
    const one = job("echo run");
    await scheduler.submit(one);
    await schedulerOf().submit(one);
    expect(await ended(scheduler, one.key)).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
    await scheduler.submit(one);
    expect((await slurm.run("squeue", "-h", "-t", "all", `--name=${one.name}`)).split("\n")).toHaveLength(1);
    expect(await logOf(one)).toBe("run\n");
  });

  it("waits for an earlier try of its step, and ends when cancelled, waiting or running", async () => {
    const scheduler = schedulerOf();
    const first = job("echo up; sleep 1000", { gpusPerNode: 0 });
    const second = { ...first, key: `${first.name}.2` };
    await scheduler.submit(first);
    await scheduler.submit(second);
    await written(first, "up");
    expect(await scheduler.state(second.key)).toEqual({ kind: "waiting", reason: "Dependency" });
    expect(await scheduler.cancel(second.key)).toBe("ending");
    expect(await scheduler.state(second.key)).toEqual({ kind: "ended", state: "CANCELLED", exitCode: null });
    expect(await scheduler.state(first.key)).toMatchObject({ kind: "running" });
    await cancelled(scheduler, first.key);
    expect(await scheduler.state(first.key)).toEqual({ kind: "ended", state: "CANCELLED", exitCode: null });
    expect(await scheduler.cancel("of no job")).toBe("gone");
  });

  it("that does not end when asked to holds nobody up: it is ending, and later gone", async () => {
    const scheduler = schedulerOf();
    // Until SIGKILL, which follows after Slurm's KillWait.
    const one = job("trap '' TERM; echo up; while :; do sleep 0.1; done");
    await scheduler.submit(one);
    await written(one, "up");
    expect(await scheduler.cancel(one.key)).toBe("ending");
    expect(await scheduler.state(one.key)).toMatchObject({ kind: "running" });
    await cancelled(scheduler, one.key);
    expect(await scheduler.state(one.key)).toEqual({ kind: "ended", state: "CANCELLED", exitCode: null });
  });

  it("in a partition that is down waits until it is up; one that is drained or inactive takes it later", async () => {
    const scheduler = schedulerOf();
    const setPartition = (state: string) => slurm.run("scontrol", "update", "partitionname=main", `state=${state}`);
    const late = job("echo run");
    try {
      for (const state of ["drain", "inactive"]) {
        await setPartition(state);
        await expect(scheduler.submit(late)).rejects.toMatchObject({
          issues: [{ code: "slurm-partition-closed", found: expect.stringContaining("inactive or drain") }],
        });
        expect(await scheduler.state(late.key)).toEqual({ kind: "unknown" });
      }
      await setPartition("down");
      await scheduler.submit(late);
      expect(await scheduler.state(late.key)).toEqual({ kind: "waiting", reason: "PartitionDown" });
    } finally {
      await setPartition("up");
    }
    expect(await ended(scheduler, late.key)).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
    expect(await logOf(late)).toBe("run\n");
  });

  it("that it has no place for now is refused in Slurm's words, and is not there", async () => {
    const scheduler = schedulerOf();
    for (const [code, changes, words] of [
      ["slurm-refused", { partition: "gpus" }, "Invalid partition name specified"],
      ["slurm-nodes-missing", { gpusPerNode: 16 }, "Requested node configuration is not available"],
      ["slurm-nodes-missing", { nodes: 9 }, "Node count specification invalid"],
    ] as const) {
      const one = job("echo never", changes);
      await expect(scheduler.submit(one)).rejects.toMatchObject({
        issues: [{ code, found: expect.stringContaining(words) }],
      });
      expect(await scheduler.state(one.key)).toEqual({ kind: "unknown" });
    }
  });

  it.concurrent("that puts itself back waits, runs again with one restart more, and goes on in the same log", async () => {
    const scheduler = schedulerOf();
    const one = job(
      'echo "restarts [$SLURM_RESTART_COUNT]"\n[ -n "$SLURM_RESTART_COUNT" ] && exit 0\nscontrol requeue $SLURM_JOB_ID\nexit 75',
    );
    await scheduler.submit(one);
    await waiting(scheduler, one.key);
    expect(await ended(scheduler, one.key)).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
    expect(await logOf(one)).toContain("restarts []\n");
    expect(await logOf(one)).toMatch(/restarts \[1\]\n$/);
  });

  it.concurrent("is told by the signal it asked for, itself and not its steps, some time before its limit", async () => {
    const scheduler = schedulerOf();
    const script = [
      "trap 'echo script told; told=1' USR1",
      "bash -c \"trap 'echo step told' USR1; while :; do sleep 0.1; done\" &",
      'until [ -n "$told" ]; do sleep 0.1; done',
      "kill %1; wait; exit 7",
    ];
    const one = job(script.join("\n"), { walltimeSeconds: 60, signal: "B:USR1@57" });
    await scheduler.submit(one);
    expect(await ended(scheduler, one.key)).toEqual({ kind: "ended", state: "FAILED", exitCode: 7 });
    // slurmstepd may add lines of its own.
    expect((await logOf(one)).split("\n").filter((line) => line.endsWith("told"))).toEqual(["script told"]);
  });
});

describe("when something breaks", () => {
  it("a job that a killed slurmctld has lost is unknown, and submitted again runs once; its JobId's new owner is left alone", async () => {
    const scheduler = overRest();
    // Nothing is there for it to run on, so that it waits.
    await slurm.run("scontrol", "update", "nodename=n4", "state=drain", "reason=test");
    const lost = job("echo run", { nodes: 4 });
    // What slurmctld has just written, it writes again after 5 s at the earliest.
    await slurm.stopController();
    await slurm.startController();
    await slurm.run("sbatch", "--hold", "--wrap=true", "--output=/dev/null");
    await sleep(500);
    await scheduler.submit(lost);
    const jobId = await slurm.run("squeue", "-h", "-o", "%i", `--name=${lost.name}`);
    await slurm.killController();
    for (const each of [scheduler, byCommands()])
      expect(await each.state(lost.key)).toMatchObject({ kind: "unreachable" });
    await expect(scheduler.submit(lost)).rejects.toMatchObject({ code: "slurm-unreachable" });
    await slurm.startController();
    expect(await scheduler.state(lost.key)).toEqual({ kind: "unknown" });

    const other = job("sleep 1000");
    await scheduler.submit(other);
    expect(await slurm.run("squeue", "-h", "-o", "%i", `--name=${other.name}`)).toBe(jobId);
    expect(await scheduler.cancel(lost.key)).toBe("gone");
    expect(await running(scheduler, other.key)).toMatchObject({ kind: "running" });
    await cancelled(scheduler, other.key);

    await scheduler.submit(lost);
    await slurm.run("scontrol", "update", "nodename=n4", "state=resume");
    expect(await ended(scheduler, lost.key)).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
    expect(await logOf(lost)).toBe("run\n");
  });

  it("nodes drained for an upgrade end what runs and keep the rest, also through a restart of slurmctld, which opens a closed partition", async () => {
    const scheduler = overRest();
    const first = job("echo up; until [ -e end ]; do sleep 0.1; done; rm end");
    const second = job("echo run");
    await scheduler.submit(first);
    await written(first, "up");
    await slurm.run("scontrol", "update", "nodename=ALL", "state=drain", "reason=upgrade");
    await slurm.run("scontrol", "update", "partitionname=main", "state=down");
    await scheduler.submit(second);
    await writeFile(join(work, "end"), "");
    expect(await ended(scheduler, first.key)).toMatchObject({ state: "COMPLETED" });
    await slurm.stopController();
    await slurm.startController();
    expect(await slurm.run("sinfo", "-h", "-o", "%P %a %T")).toBe("main* up drained");
    expect(await scheduler.state(second.key)).toMatchObject({ kind: "waiting" });
    // A new slurmctld takes no nodes back before it has heard of them.
    while ((await slurm.run("scontrol", "show", "nodes")).includes("State=UNKNOWN")) await sleep(100);
    await slurm.run("scontrol", "update", "nodename=ALL", "state=resume");
    expect(await ended(scheduler, second.key)).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
  });

  it("a job whose node is lost waits again and goes on elsewhere in the same log", async () => {
    const scheduler = overRest();
    const script =
      'echo "start [$SLURM_RESTART_COUNT] on $SLURMD_NODENAME"; [ -n "$SLURM_RESTART_COUNT" ] || sleep 1000';
    const one = job(script);
    await scheduler.submit(one);
    await written(one, "start []");
    const node = /on (n\d)/.exec(await logOf(one))?.[1] ?? "";
    await slurm.killNode(node);
    await waiting(scheduler, one.key);
    expect(await ended(scheduler, one.key)).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
    expect(await logOf(one)).toMatch(
      new RegExp(`^start \\[\\] on ${node}\nstart \\[1\\] on n(?!${node.slice(1)})\\d\n$`),
    );
    await slurm.startNode(node);
  });

  it("a submission whose answer is lost is not made a second time", async () => {
    // Passes a request on, and breaks the connection instead of answering a submission.
    const proxy = createServer(async (request, response) => {
      const headers = Object.fromEntries(
        Object.entries(request.headers).filter(([name]) => name.startsWith("x-slurm")),
      );
      const body = request.method === "POST" ? await text(request) : undefined;
      const answer = await fetch(`${slurm.restUrl}${request.url}`, {
        method: request.method ?? "GET",
        headers: { ...(headers as Record<string, string>), "content-type": "application/json" },
        ...(body === undefined ? {} : { body }),
      });
      if (request.method === "POST") request.socket.destroy();
      else response.writeHead(answer.status).end(await answer.text());
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const scheduler = overRest({ url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` });
    const one = job("echo run");
    await expect(scheduler.submit(one)).rejects.toMatchObject({ code: "slurm-unreachable" });
    await scheduler.submit(one);
    await ended(scheduler, one.key);
    expect(await logOf(one)).toBe("run\n");
    proxy.close();
  });

  it("a token that Slurm does not take, or that cannot be read, is told as unreachable, without the token", async () => {
    const good = await slurm.token();
    const bad = `${good.slice(0, -12)}AAAAAAAAAAAA`;
    const noFile = join(work, "no token");
    for (const token of [() => Promise.resolve(bad), () => readFile(noFile, "utf8")]) {
      const scheduler = overRest({ token });
      const state = await scheduler.state("a key");
      expect(state).toMatchObject({ kind: "unreachable", why: expect.stringContaining(`token of ${slurm.user}`) });
      expect(JSON.stringify(state)).not.toContain(bad);
      await expect(scheduler.submit(job("true"))).rejects.toMatchObject({ code: "slurm-unreachable" });
    }
  });

  it("slurmrestd away, or a machine without Slurm's commands, is a state and no error; back, it is used at once", async () => {
    const scheduler = overRest();
    await slurm.stopRest();
    expect(await scheduler.state("a key")).toMatchObject({
      kind: "unreachable",
      why: expect.stringContaining("ECONNREFUSED"),
    });
    await slurm.startRest();
    expect(await scheduler.state("a key")).toEqual({ kind: "unknown" });
    const none = new SlurmScheduler(new SlurmCommands({ env: { PATH: work } }));
    expect(await none.state("a key")).toMatchObject({ kind: "unreachable", why: expect.stringContaining("ENOENT") });
    await expect(none.submit(job("true"))).rejects.toMatchObject({ code: "slurm-unreachable" });
  });
});

it("The committed schemas of a submission are those of the pinned client's OpenAPI documents", async () => {
  await execa("node_modules/.bin/tsx", ["tools/slurm-schema.ts", "--check"], {
    cwd: resolve(import.meta.dirname, ".."),
  });
});
