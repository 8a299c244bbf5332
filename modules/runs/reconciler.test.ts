import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Job } from "../../schemas/job.ts";
import type { Run } from "../../schemas/run.ts";
import { newRun } from "./app.ts";
import { planWith, snapshot } from "./fixture.ts";
import { Reconciler } from "./reconciler.ts";
import type { StepExecutor, StepExecutors, StepStatus } from "./steps.ts";
import { migrations, RunStore } from "./store.ts";

let client: PGlite;
let store: RunStore;
let clock: number;

beforeAll(async () => {
  client = new PGlite();
  await client.exec(migrations.map(({ sql }) => sql).join("\n"));
  store = new RunStore(drizzle(client));
});
beforeEach(async () => {
  await client.exec("truncate runs, run_steps");
  clock = Date.parse("2026-01-01T00:00:00Z");
});
afterAll(() => client.close());

const now = () => new Date(clock);

/** Jobs the reconciler looks at: only ids, kinds and needs matter to it. */
const collect: Job = {
  id: "collect",
  kind: "collect",
  needs: [],
  expert: "1",
  splits: [],
  attempts: 1,
  seed: 0,
  concurrency: 1,
};
const select: Job = {
  id: "select",
  kind: "select",
  needs: ["collect"],
  evaluated: "held-out",
  sft: null,
  rl: { of: "expert", min: 0, max: 1, dropAlwaysSolvedBy: null },
};
const train: Job = {
  ...{ id: "rl", kind: "train", needs: ["select"], stage: "rl", trainer: "trl" },
  ...{ startFrom: "base", steps: 4, saveEverySteps: 2, config: {}, launch: null },
};
const checkpoint: Job = { id: "rl-2", kind: "checkpoint", needs: [], name: "x", stage: "rl", step: 2, train: "rl" };

async function submit(id: string, jobs: Job[]): Promise<void> {
  await store.add(newRun(id, planWith(jobs), snapshot, now()));
}

/** Executors that answer from a list of statuses a step; the last one stays. */
function scripted(script: Record<string, StepStatus[]>, asked: string[] = []): StepExecutors {
  const executor: StepExecutor = {
    slots: 1,
    sharedKey: () => null,
    async advance({ run, job, tryNumber }) {
      asked.push(`${run.id}/${job.id}#${tryNumber}`);
      const statuses = script[job.id] ?? [];
      return (statuses.length > 1 ? statuses.shift() : statuses[0]) ?? { kind: "succeeded", result: {} };
    },
    async cancel({ job }) {
      asked.push(`cancel ${job.id}`);
    },
  };
  return {
    collect: executor,
    select: { ...executor, slots: 0 },
    probe: executor,
    train: executor,
    checkpoint: executor,
    evaluate: executor,
    publish: { ...executor, slots: 0 },
  } as StepExecutors;
}

const running: StepStatus = { kind: "running", progress: null };
const states = (run: Run) => Object.fromEntries(run.steps.map(({ id, state }) => [id, state]));

const look = (id: string) => store.get(id);

function reconciler(executors: StepExecutors, slots = 2): Reconciler {
  return new Reconciler({ store, executors, slots, now });
}

describe("the reconciler", () => {
  it("starts a step when what it needs has succeeded, and ends the run with its last step", async () => {
    await submit("a", [collect, select]);
    const loop = reconciler(scripted({ collect: [running, { kind: "succeeded", result: {} }] }));
    await loop.tick();
    expect(states(await look("a"))).toEqual({ collect: "running", select: "pending" });
    await loop.tick();
    expect(states(await look("a"))).toEqual({ collect: "succeeded", select: "succeeded" });
    expect((await look("a")).state).toBe("succeeded");
  });

  it("starts a checkpoint while its trainer still runs, and holds no slot for one that waits", async () => {
    await submit("a", [{ ...train, needs: [] }, checkpoint]);
    const loop = reconciler(scripted({ rl: [running], "rl-2": [{ kind: "waiting", why: "not saved" }, running] }));
    await loop.tick();
    expect(states(await look("a"))).toEqual({ rl: "running", "rl-2": "pending" });
    expect((await look("a")).steps[1]?.tries).toBe(0);
    await loop.tick();
    expect(states(await look("a"))["rl-2"]).toBe("running");
  });

  it("never runs more steps than there are slots, over all runs", async () => {
    await submit("a", [collect, { ...train, needs: [] }]);
    await submit("b", [collect, { ...train, needs: [] }]);
    await reconciler(scripted({ collect: [running], rl: [running] })).tick();
    const all = [...(await look("a")).steps, ...(await look("b")).steps];
    expect(all.filter(({ state }) => state === "running")).toHaveLength(2);
  });

  it("lets one run make what two runs share, and the other find it made", async () => {
    await submit("a", [collect]);
    await submit("b", [collect]);
    const asked: string[] = [];
    const executors = scripted({ collect: [running, running, { kind: "succeeded", result: {} }] }, asked);
    const shared = { ...executors, collect: { ...executors.collect, sharedKey: () => "the same" } };
    const loop = reconciler(shared, 2);
    await loop.tick();
    await loop.tick();
    expect(asked).toEqual(["a/collect#1", "a/collect#1"]);
    await loop.tick();
    expect((await look("b")).state).toBe("succeeded");
  });

  it("restarts a broken step after a pause, keeps its history, and gives up when it gets no further", async () => {
    await submit("a", [collect]);
    const broken: StepStatus = { kind: "failed", error: "killed", restart: true };
    const asked: string[] = [];
    const loop = reconciler(scripted({ collect: [broken] }, asked));
    await loop.tick();
    await loop.tick();
    expect(asked).toEqual(["a/collect#1"]);
    for (let i = 0; i < 6; i += 1) {
      clock += 61_000;
      await loop.tick();
    }
    expect(asked.slice(0, 4)).toEqual(["a/collect#1", "a/collect#2", "a/collect#3", "a/collect#4"]);
    // Whatever the last try may have left running is ended with the run, and nothing is started after.
    expect(new Set(asked.slice(4))).toEqual(new Set(["cancel collect"]));
    const run = await look("a");
    expect(run.state).toBe("failed");
    expect(run.error).toBe("collect: killed");
    expect(run.steps[0]?.history.map(({ number }) => number)).toEqual([1, 2, 3]);
  });

  it("goes on restarting a step that gets further each time", async () => {
    await submit("a", [collect]);
    let done = 0;
    const executors = scripted({});
    const progressing: StepExecutor<"collect"> = {
      ...executors.collect,
      async advance() {
        done += 1;
        if (done > 20) return { kind: "succeeded", result: {} };
        return done % 2 === 0
          ? { kind: "failed", error: "crashed", restart: true }
          : { kind: "running", progress: { done, total: 20, unit: "steps", note: "", etaSeconds: null } };
      },
    };
    const loop = reconciler({ ...executors, collect: progressing });
    for (let i = 0; i < 25; i += 1) {
      clock += 61_000;
      await loop.tick();
    }
    const run = await look("a");
    expect(run.state).toBe("succeeded");
    expect(run.steps[0]?.history).toHaveLength(10);
  });

  it("does not restart what cannot succeed, and lets the run's other steps end first", async () => {
    await submit("a", [collect, { ...train, needs: [] }]);
    const loop = reconciler(
      scripted({
        collect: [{ kind: "failed", error: "bad input", restart: false }],
        rl: [running, { kind: "succeeded", result: {} }],
      }),
    );
    await loop.tick();
    expect((await look("a")).state).toBe("failed");
    expect(states(await look("a"))).toEqual({ collect: "failed", rl: "pending" });
  });

  it("turns an executor's own error into that step's failure", async () => {
    await submit("a", [collect]);
    const executors = scripted({});
    const throwing = { ...executors.collect, advance: () => Promise.reject(new Error("no disk")) };
    await reconciler({ ...executors, collect: throwing }).tick();
    expect((await look("a")).error).toBe("collect: no disk");
  });

  it("is replaced by another one at any moment, which goes on from the store", async () => {
    await submit("a", [collect, select]);
    const asked: string[] = [];
    const executors = scripted({ collect: [running, { kind: "succeeded", result: {} }] }, asked);
    await reconciler(executors).tick();
    await reconciler(executors).tick();
    expect((await look("a")).state).toBe("succeeded");
    expect(asked).toEqual(["a/collect#1", "a/collect#1", "a/select#1"]);
  });

  it("gives what another run has made no slot", async () => {
    await submit("a", [collect]);
    const executors = scripted({});
    const made = { ...executors.collect, made: async () => ({ found: true }) };
    await reconciler({ ...executors, collect: made }, 0).tick();
    expect((await look("a")).steps[0]).toMatchObject({ state: "succeeded", result: { found: true } });
  });

  it("starts trainers of all runs before any evaluation", async () => {
    const evaluate: Job = { id: "evaluate-base", kind: "evaluate", needs: [], checkpoint: "base" };
    await submit("a", [evaluate, { ...train, needs: [] }]);
    await submit("b", [{ ...train, needs: [] }]);
    await reconciler(scripted({ rl: [running], "evaluate-base": [running] }), 2).tick();
    expect(states(await look("a"))).toEqual({ "evaluate-base": "pending", rl: "running" });
    expect(states(await look("b"))).toEqual({ rl: "running" });
  });

  it("looks after all other runs when one cannot be looked at, and reports that", async () => {
    await submit("a", [collect]);
    await store.requestCancel("a");
    const executors = scripted({});
    const stuck = { ...executors.collect, cancel: () => Promise.reject(new Error("cannot be ended")) };
    const ready = { ...executors, collect: stuck };
    await submit("c", [{ ...select, needs: [] }]);
    await expect(reconciler(ready).tick()).rejects.toThrow(/1 of 2 runs/);
    expect((await look("c")).state).toBe("succeeded");
  });

  it("lets a failed run go on from what succeeded", async () => {
    await submit("a", [collect, select]);
    const asked: string[] = [];
    const script = {
      collect: [{ kind: "succeeded", result: {} }] as StepStatus[],
      select: [
        { kind: "failed", error: "disk full", restart: false },
        { kind: "succeeded", result: {} },
      ] as StepStatus[],
    };
    const loop = reconciler(scripted(script, asked));
    await loop.tick();
    expect((await look("a")).state).toBe("failed");
    await store.resume("a");
    await loop.tick();
    expect((await look("a")).state).toBe("succeeded");
    expect(asked.filter((entry) => entry.startsWith("a/collect"))).toEqual(["a/collect#1"]);
    await expect(store.resume("a")).rejects.toThrow(/run-not-ended/);
  });

  it("ends everything of a cancelled run and starts nothing more", async () => {
    await submit("a", [collect, select]);
    const asked: string[] = [];
    const loop = reconciler(scripted({ collect: [running] }, asked));
    await loop.tick();
    await store.requestCancel("a");
    await loop.tick();
    expect(asked).toContain("cancel collect");
    const run = await look("a");
    expect(run.state).toBe("cancelled");
    expect(states(run)).toEqual({ collect: "cancelled", select: "cancelled" });
    await expect(store.requestCancel("a")).rejects.toThrow(/run-ended/);
  });
});
