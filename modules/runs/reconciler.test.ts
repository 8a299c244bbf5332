import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Job } from "../../schemas/job.ts";
import { type Run, RunStep } from "../../schemas/run.ts";
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
      return "gone";
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

/** A queue of somebody else's, as Slurm is one: it remembers every key, starts jobs by itself, and ends them in its own time. */
class Queue {
  readonly jobs = new Map<string, "queued" | "running" | "ending" | "cancelled" | "done">();

  readonly executor: StepExecutor = {
    slots: 0,
    sharedKey: () => null,
    advance: async (context) => {
      const key = `${context.run.id}.${context.job.id}.${context.tryNumber}`;
      const state = this.jobs.get(key) ?? "queued";
      this.jobs.set(key, state);
      switch (state) {
        case "queued":
          return { kind: "waiting", why: "in Slurm's queue: Priority", handedOver: true };
        case "running":
          return { kind: "running", progress: null };
        case "done":
          return { kind: "succeeded", result: {} };
        default:
          return { kind: "failed", error: "somebody cancelled its Slurm job", restart: false };
      }
    },
    cancel: async ({ run, job, tryNumber }) => {
      const key = `${run.id}.${job.id}.${tryNumber}`;
      const state = this.jobs.get(key);
      if (state === "queued") this.jobs.set(key, "cancelled");
      if (state === "running") this.jobs.set(key, "ending");
      if (state === "ending") this.jobs.set(key, "cancelled");
      return state === "running" || state === "ending" ? "ending" : "gone";
    },
  };
}

/** The store as a controller sees it that is killed after so many writes. */
function dyingAfter(writes: number): RunStore {
  let left = writes;
  const write =
    <Args extends unknown[]>(change: (...args: Args) => Promise<void>) =>
    (...args: Args) => {
      left -= 1;
      return left < 0 ? Promise.reject(new Error("killed")) : change(...args);
    };
  return Object.assign(new RunStore(drizzle(client)), {
    saveStep: write(store.saveStep.bind(store)),
    setState: write(store.setState.bind(store)),
  });
}

describe("a step whose job somebody else starts", () => {
  const rl: Job = { ...train, needs: [] };
  const queued = (script: Record<string, StepStatus[]> = {}) => {
    const queue = new Queue();
    return { queue, executors: { ...scripted(script), train: queue.executor } as StepExecutors };
  };

  it("is pending in its queue, is followed there, and runs when its job does", async () => {
    await submit("a", [rl]);
    const { queue, executors } = queued();
    const loop = reconciler(executors, 0);
    await loop.tick();
    const inQueue = { state: "pending", tries: 0, asked: 1, handedOver: true, error: "in Slurm's queue: Priority" };
    expect((await look("a")).steps[0]).toMatchObject(inQueue);
    queue.jobs.set("a.rl.1", "running");
    await loop.tick();
    expect((await look("a")).steps[0]).toMatchObject({ state: "running", tries: 1, handedOver: false, error: null });
    queue.jobs.set("a.rl.1", "done");
    await loop.tick();
    expect((await look("a")).state).toBe("succeeded");
    expect([...queue.jobs]).toEqual([["a.rl.1", "done"]]);
  });

  it("is ended at once when another step fails, while a third one ends well", async () => {
    const third: Job = { ...collect, id: "third" };
    await submit("a", [collect, third, rl]);
    const { queue, executors } = queued({
      collect: [running, { kind: "failed", error: "bad input", restart: false }],
      third: [running, running, { kind: "succeeded", result: {} }],
    });
    const loop = reconciler(executors);
    await loop.tick();
    expect(queue.jobs.get("a.rl.1")).toBe("queued");
    await loop.tick();
    expect(queue.jobs.get("a.rl.1")).toBe("cancelled");
    const run = await look("a");
    expect(states(run)).toEqual({ collect: "failed", third: "running", rl: "pending" });
    expect(run.steps[2]).toMatchObject({ tries: 1, handedOver: false, error: null });
    await loop.tick();
    expect((await look("a")).state).toBe("failed");
    expect((await look("a")).error).toBe("collect: bad input");
  });

  it("is in no queue any more when its run has failed", async () => {
    await submit("a", [rl, collect]);
    const { queue, executors } = queued({ collect: [{ kind: "failed", error: "bad input", restart: false }] });
    await reconciler(executors).tick();
    expect(queue.jobs.get("a.rl.1")).toBe("cancelled");
    const step = { state: "pending", tries: 1, handedOver: false, error: null };
    expect(await look("a")).toMatchObject({ state: "failed", steps: [step, { state: "failed" }] });
  });

  it("is ended too when its start was written down by nobody", async () => {
    await submit("a", [collect, { ...collect, id: "third" }, rl]);
    const { queue, executors } = queued({
      collect: [running, { kind: "failed", error: "bad input", restart: false }],
      third: [running],
    });
    // Two writes each: that it is asked for, and what came of it. Killed between the two of the last.
    await expect(new Reconciler({ store: dyingAfter(5), executors, slots: 2, now }).tick()).rejects.toThrow(/1 of 1/);
    expect((await look("a")).steps[2]).toMatchObject({ handedOver: false, asked: 1, tries: 0 });
    expect(queue.jobs.get("a.rl.1")).toBe("queued");
    await reconciler(executors).tick();
    expect(queue.jobs.get("a.rl.1")).toBe("cancelled");
  });

  it("keeps another run from asking for the same thing", async () => {
    await submit("a", [rl]);
    await submit("b", [rl]);
    const { queue, executors } = queued();
    const shared = { ...executors, train: { ...executors.train, sharedKey: () => "the same" } };
    await reconciler(shared).tick();
    await reconciler(shared).tick();
    expect([...queue.jobs.keys()]).toEqual(["a.rl.1"]);
  });

  it("comes back after a cancel under a key that Slurm does not know as cancelled", async () => {
    await submit("a", [rl]);
    const { queue, executors } = queued();
    const loop = reconciler(executors);
    await loop.tick();
    await store.requestCancel("a");
    await loop.tick();
    expect((await look("a")).steps[0]).toMatchObject({ state: "cancelled", handedOver: false, error: null });
    await store.resume("a");
    await loop.tick();
    expect([...queue.jobs]).toEqual([
      ["a.rl.1", "cancelled"],
      ["a.rl.2", "queued"],
    ]);
    expect((await look("a")).state).toBe("running");
  });

  it("lets its run be cancelling until the job is gone, and every other run go on", async () => {
    await submit("a", [rl]);
    await submit("b", [collect]);
    const { queue, executors } = queued({ collect: [running, running, running, { kind: "succeeded", result: {} }] });
    const loop = reconciler(executors);
    await loop.tick();
    queue.jobs.set("a.rl.1", "running");
    await loop.tick();
    await store.requestCancel("a");
    await loop.tick();
    expect(queue.jobs.get("a.rl.1")).toBe("ending");
    expect(await look("a")).toMatchObject({ state: "cancelling", steps: [{ state: "running" }] });
    await loop.tick();
    expect((await look("b")).state).toBe("succeeded");
    expect((await look("a")).state).toBe("cancelling");
    await loop.tick();
    expect(await look("a")).toMatchObject({ state: "cancelled", steps: [{ state: "cancelled" }] });
  });

  it("keeps a broken run from being failed until what is left of it is gone", async () => {
    await submit("a", [rl]);
    const { queue, executors } = queued();
    let looks = 0;
    const slow: StepExecutor = {
      ...queue.executor,
      advance: async () => ({ kind: "failed", error: "lost", restart: false }),
      cancel: async () => (++looks > 2 ? "gone" : "ending"),
    };
    const loop = reconciler({ ...executors, train: slow } as StepExecutors);
    await loop.tick();
    expect(await look("a")).toMatchObject({ state: "running", steps: [{ state: "failed" }] });
    await loop.tick();
    expect(await look("a")).toMatchObject({ state: "failed", error: "rl: lost" });
  });

  it("has the end of each of a run's steps asked for, though one of them cannot be ended now", async () => {
    await submit("a", [collect, rl]);
    const { queue, executors } = queued({ collect: [running] });
    const stuck = { ...executors.collect, cancel: () => Promise.reject(new Error("no answer")) };
    const loop = reconciler({ ...executors, collect: stuck });
    await loop.tick();
    await store.requestCancel("a");
    await expect(loop.tick()).rejects.toThrow();
    expect(queue.jobs.get("a.rl.1")).toBe("cancelled");
    expect((await look("a")).state).toBe("cancelling");
  });
});

describe("a step that may be made already", () => {
  it("waits and says why where that cannot be told", async () => {
    await submit("a", [collect]);
    await submit("b", [{ ...select, needs: [] }]);
    const executors = scripted({});
    let broken = true;
    const made = async () => (broken ? Promise.reject(new Error("checkpoint.json cannot be read")) : null);
    const loop = reconciler({ ...executors, collect: { ...executors.collect, made } });
    await loop.tick();
    const waiting = { state: "pending", tries: 0, error: "checkpoint.json cannot be read" };
    expect((await look("a")).steps[0]).toMatchObject(waiting);
    expect((await look("b")).state).toBe("succeeded");
    broken = false;
    await loop.tick();
    expect((await look("a")).state).toBe("succeeded");
  });
});

describe("a try", () => {
  it("belongs to one life of its run: whatever is killed, cancelled or fails, resume never asks for it again", async () => {
    const event = fc.constantFrom("tick", "tick", "kill", "start", "end", "lose", "fail");
    const lives = fc.array(fc.array(event, { maxLength: 6 }), { minLength: 2, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(lives, fc.nat(2), async (lives, writes) => {
        await client.exec("truncate runs, run_steps");
        await submit("a", [
          { ...train, needs: [] },
          { ...checkpoint, train: null },
          { ...collect, needs: ["rl"] },
        ]);
        const queue = new Queue();
        const set = (state: "running" | "done" | "cancelled") => {
          for (const [key, was] of queue.jobs) if (was === "queued" || was === "running") queue.jobs.set(key, state);
        };
        let life = 0;
        let fails = false;
        const askedIn = new Map<string, Set<number>>();
        const watched = (advance: StepExecutor["advance"]): StepExecutor => ({
          ...queue.executor,
          advance: (context) => {
            const key = `${context.job.id}.${context.tryNumber}`;
            askedIn.set(key, (askedIn.get(key) ?? new Set()).add(life));
            return advance(context);
          },
        });
        const away = watched(async () =>
          fails ? { kind: "failed", error: "broken", restart: life % 2 === 0 } : { kind: "waiting", why: "outage" },
        );
        const queued = watched(queue.executor.advance);
        const executors = { ...scripted({}), train: queued, checkpoint: away, collect: away } as StepExecutors;
        const tick = (through: RunStore) => new Reconciler({ store: through, executors, slots: 2, now }).tick();
        for (const events of lives) {
          for (const name of events) {
            clock += 61_000;
            if (name === "tick") await tick(store);
            if (name === "kill") await tick(dyingAfter(writes)).catch(() => {});
            if (name === "start") set("running");
            if (name === "end") set("done");
            if (name === "lose") set("cancelled");
            if (name === "fail") fails = !fails;
          }
          const { state } = await look("a");
          if (state === "succeeded") break;
          if (state === "running") await store.requestCancel("a");
          // One that was running is gone at the third look.
          for (let i = 0; i < 3; i += 1) await tick(store);
          await store.resume("a");
          life += 1;
        }
        expect([...askedIn].filter(([, own]) => own.size > 1)).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  it("of a record that another version wrote has not been asked for and is in no queue", () => {
    const old = {
      ...{ id: "rl", kind: "train", state: "pending", tries: 1, progress: null, result: null, error: null },
      ...{ startedAt: null, endedAt: null },
    };
    expect(RunStep.parse(old)).toMatchObject({ handedOver: false, asked: 0, tries: 1 });
  });
});
