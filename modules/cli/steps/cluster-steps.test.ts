import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestBytes, digestJson } from "../../../schemas/digest.ts";
import { UserError } from "../../../schemas/error.ts";
import type { Job, TrainJob } from "../../../schemas/job.ts";
import type { ObjectStore } from "../../../schemas/object-store.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { Run } from "../../../schemas/run.ts";
import type { TaskSet } from "../../../schemas/task.ts";
import type { Trajectory } from "../../../schemas/trajectory.ts";
import { findCheckpoint, listCheckpoints, readProbe } from "../../checkpoints/index.ts";
import type { BatchJob, BatchScheduler, BatchState } from "../../runs/batch-scheduler.ts";
import { snapshot } from "../../runs/fixture.ts";
import { newRun, type StepExecutor, type StepStatus } from "../../runs/index.ts";
import { createSharedStore } from "../../stores/index.ts";
import { familyEntry, loadFamily } from "../../tasks/index.ts";
import { planOf, targetOf } from "../../trainers/launch/fixture.ts";
import { clusterCheckpoint } from "./cluster-checkpoint.ts";
import type { ClusterStepTools } from "./cluster-tools.ts";
import { clusterTrain } from "./cluster-train.ts";
import { getPassRates } from "./pass-rates.ts";
import { taskSetKey } from "./step-tools.ts";
import { BASE, BashBatch, layOutCluster } from "./test-batch.ts";
import { contextOf, TestSteps } from "./test-steps.ts";

type Kind = "train" | "checkpoint";

let world: TestSteps;
let batch: BashBatch;
let tools: ClusterStepTools;
let taskSet: TaskSet;
/** Results of the steps that have ended. */
let results: Record<string, Record<string, unknown>>;

beforeEach(async () => {
  world = await TestSteps.start();
  layOutCluster(world.root);
  batch = new BashBatch(world.root);
  batch.env = ({ name }) => {
    const stage = name.includes(".sft") ? "sft" : "rl";
    return {
      SAVES: stage === "sft" ? "sft/epoch_1_step_39" : "rl/step_40",
      CONVERTED: join(world.root, `converted-${stage}`),
      PYTHONPATH: join(world.root, "python"),
    };
  };
  const store = createSharedStore({ mountPath: world.root, objects: world.tools.store });
  tools = {
    ...{ ...world.tools, store, batch, mountPath: world.root },
    checkpoint: (digest) => findCheckpoint(store, digest),
  };
  taskSet = { ...world.taskSet, family: { ...world.taskSet.family, name: "repo-chores" } };
  results = {};
});
afterEach(async () => {
  await batch.settled();
  await world.stop();
});

/** A run of both stages on the stub cluster, with its tasks and its selection. */
async function newClusterRun(id = "run-1", changes: Partial<Plan> = {}): Promise<Run> {
  const plan = planOf(targetOf({ storage: { mountPath: world.root } }));
  const onMount = (job: Job): Job =>
    job.kind === "train" && job.launch
      ? {
          ...job,
          launch: {
            ...job.launch,
            env: {
              ...job.launch.env,
              UPLIFT_START_FROM: String(job.launch.env.UPLIFT_START_FROM).replace("/fsx", world.root),
            },
          },
        }
      : job;
  plan.recipe.tasks = { ...plan.recipe.tasks, family: "repo-chores" };
  const run = newRun(
    id,
    {
      ...plan,
      jobs: plan.jobs.map(onMount),
      taskSet: { ...plan.taskSet, digest: digestJson(taskSet) },
      ...changes,
    },
    snapshot,
    new Date(),
  );
  await tools.store.put(taskSetKey(run), JSON.stringify(taskSet));
  await mkdir(tools.layout.run(id), { recursive: true });
  await writeFile(tools.layout.sftTrajectories(id), `${JSON.stringify(trajectory)}\n`);
  const selection = { rlTasks: ["task-0", "task-2"], heldOut: [], heldOutDropped: [], sft: null, rl: null };
  await writeFile(tools.layout.selection(id), JSON.stringify(selection));
  return run;
}

const call = {
  id: "c1",
  type: "function" as const,
  function: { name: "read_file", arguments: '{"path": "a.conf"}' },
};
const trajectory: Trajectory = {
  ...{ schemaVersion: 1, taskId: "task-0", attempt: 0, policy: "expert", seed: 0, turns: 2, hitTurnLimit: false },
  tools: [],
  messages: [
    { role: "user", content: "?" },
    { role: "assistant", content: "", tool_calls: [call] },
    { role: "tool", tool_call_id: "c1", name: "read_file", content: "port=1" },
    { role: "assistant", content: "Done." },
  ],
  ...{ outcome: { kind: "passed" }, malformedToolCalls: 0, violations: [], promptTokens: 0, completionTokens: 0 },
  ...{ seconds: 0, infrastructureRetries: 0, startedAt: "2026-01-01T00:00:00.000Z" },
};

function jobOf<K extends Kind>(run: Run, id: string): Extract<Job, { kind: K }> {
  return run.plan.jobs.find((job) => job.id === id) as Extract<Job, { kind: K }>;
}

function stepOf(run: Run, id: string) {
  return run.steps.find((step) => step.id === id) ?? expect.fail(`no step ${id}`);
}

/** One look at a step, and what the reconciler keeps of it. */
async function look<K extends Kind>(
  executor: StepExecutor<K>,
  run: Run,
  id: string,
  tryNumber = 1,
): Promise<StepStatus> {
  const status = await executor.advance(contextOf<K>(run, jobOf<K>(run, id) as never, results, tryNumber));
  const state = { waiting: "pending", running: "running", succeeded: "succeeded", failed: "failed" } as const;
  stepOf(run, id).state = state[status.kind];
  return status;
}

/** Looks until the step has ended; its result, or the failure thrown. */
async function finish<K extends Kind>(executor: StepExecutor<K>, run: Run, id: string, tryNumber = 1) {
  for (;;) {
    const status = await look(executor, run, id, tryNumber);
    if (status.kind === "failed") throw new Error(`${status.restart ? "restart" : "final"}: ${status.error}`);
    if (status.kind === "succeeded") {
      results[id] = status.result;
      return status.result;
    }
    await sleep(20);
  }
}

const linesOf = async (path: string) => (await readFile(path, "utf8")).trim().split("\n");
const rowsOf = async (path: string) => (await linesOf(path)).map((line): unknown => JSON.parse(line));

describe("a run's Slurm jobs, with their real scripts", () => {
  it("go from the base model to RL's checkpoint, each recorded where it lies", async () => {
    const run = await newClusterRun();
    const [train, checkpoint] = [clusterTrain(tools), clusterCheckpoint(tools)];
    const sample = (id: string, reward: number) =>
      `{"agent_ref": [{"name": "a", "task_id": "${id}"}], "rewards": [${reward}.0], "sample_loss_mask": [1.0]}\n`;
    await writeFile(join(world.root, "notes/samples"), sample("task-0", 1) + sample("task-0", 0) + sample("task-2", 0));

    const base = await finish(checkpoint, run, "base");
    const baseRecord = await tools.checkpoint(String(base.checkpoint));
    expect(baseRecord).toMatchObject({
      name: "Qwen/Qwen3.8-27B",
      stage: "base",
      prefix: BASE,
      runId: null,
      parent: null,
    });
    const probe = await readProbe(baseRecord, tools.store);
    const { family } = await loadFamily(familyEntry("repo-chores").dir);
    expect(probe.cases.map(({ messages }) => messages.length)).toEqual([1, 3, 6, 8]);
    const [first] = probe.cases;
    const asked = JSON.parse(Buffer.from(first?.tokenIds ?? []).toString("utf8"));
    expect(asked).toEqual([[{ role: "user", content: family.description }], family.tools]);

    expect(await finish(train, run, "sft")).toEqual({ steps: 40, reward: null, loss: 0.5, seconds: null });
    const sft = await finish(checkpoint, run, "sft-40");
    // Where training would have converted RL's start model to.
    const start = `${tools.layout.run(run.id)}/checkpoints/sft-40`;
    const converted = join(world.root, `cache/megatron-v0.7.0/model_${start.replaceAll("/", "_")}/iter_0000000`);
    await mkdir(converted, { recursive: true });
    const rl = await finish(train, run, "rl");
    expect(rl).toEqual({ steps: 40, reward: 0.5, loss: 0.01, seconds: 600, passRates: "pass-rates/runs/run-1.json" });
    expect((await getPassRates(tools.store, String(rl.passRates)))?.rates).toEqual([
      { taskId: "task-0", passed: 1, attempts: 2, infrastructure: 0, rate: 0.5 },
      { taskId: "task-2", passed: 0, attempts: 1, infrastructure: 0, rate: 0 },
    ]);
    const last = await finish(checkpoint, run, "rl-40");

    const records = await listCheckpoints(tools.store);
    expect(records.map(({ prefix }) => prefix).sort()).toEqual([
      BASE,
      "runs/run-1/checkpoints/rl-40",
      "runs/run-1/checkpoints/sft-40",
    ]);
    const lineage = { runId: "run-1", base: base.checkpoint };
    expect(await tools.checkpoint(String(sft.checkpoint))).toMatchObject({ ...lineage, parent: base.checkpoint });
    const record = await tools.checkpoint(String(last.checkpoint));
    expect(record).toMatchObject({ ...lineage, parent: sft.checkpoint, stage: "rl", step: 40 });
    expect(record.files.map(({ path }) => path)).toContain("tokenizer.json");
    expect(await readProbe(record, tools.store)).toEqual(probe);

    for (const id of ["base", "sft", "sft-40", "rl-40"]) {
      const log = await linesOf(tools.layout.log(run.id, id));
      expect(new Set(log).size, log.join("\n")).toBe(log.length);
    }
    expect(batch.submitted.map(({ key, name, nodes, signal }) => ({ key, name, nodes, signal }))).toEqual([
      { key: "run-1.base.1", name: "run-1.base", nodes: 1, signal: null },
      { key: "run-1.sft.1", name: "run-1.sft", nodes: 2, signal: "B:USR1@420" },
      { key: "run-1.sft-40.1", name: "run-1.sft-40", nodes: 1, signal: null },
      { key: "run-1.rl.1", name: "run-1.rl", nodes: 4, signal: null },
      { key: "run-1.rl-40.1", name: "run-1.rl-40", nodes: 1, signal: null },
    ]);
    const runDir = tools.layout.run(run.id);
    expect(batch.submitted[1]?.env).toEqual({
      ...{ RUN_DIR: runDir, RUN_ID: "run-1", UPLIFT_JOB_KEY: "run-1.sft.1", UPLIFT_LOG: `${runDir}/sft.log` },
      ...{ HOME: join(world.root, "home/uplift"), USER: "uplift", LANG: "C.UTF-8" },
    });
  });

  it("read data whose rows are exactly these", async () => {
    const run = await newClusterRun();
    const executor = clusterTrain(tools);
    await look(executor, run, "sft");
    await look(executor, run, "rl");
    const data = join(tools.layout.run(run.id), "data");
    expect(await rowsOf(join(data, "sft.jsonl"))).toEqual([{ messages: trajectory.messages, tools: [] }]);
    const { family } = await loadFamily(familyEntry("repo-chores").dir);
    const row = (id: string) => ({
      responses_create_params: {
        input: [{ role: "user", content: `Solve ${id.slice(5)}.` }],
        tools: family.tools.map((tool) => ({ type: "function", ...tool.function, strict: false })),
      },
      agent_ref: { type: "responses_api_agents", name: "uplift_simple_agent", task_id: id },
      ...{ task_set: run.plan.taskSet.digest, task_id: id },
    });
    // A step takes 16 tasks: fewer rows would make no whole batch.
    const eight = Array.from({ length: 8 }, () => [row("task-0"), row("task-2")]).flat();
    expect(await rowsOf(join(data, "rl-train.jsonl"))).toEqual(eight);
    expect(world.environment.taskSets.get(run.plan.taskSet.digest)).toEqual(taskSet);
  });

  it("go on after a try that made no step, and a requeue stays the same try", async () => {
    const run = await newClusterRun();
    const executor = clusterTrain(tools);
    const plain = batch.env;
    batch.env = (job, restarts) => ({ ...plain(job, restarts), SAVES: "" });
    await expect(finish(executor, run, "sft")).rejects.toThrow(
      /^restart: its Slurm job ended as FAILED, with exit code 79; the end of .*sft\.log:\n[\s\S]*not finished and not requeued/,
    );
    const saves = ["sft/epoch_0_step_12", "sft/epoch_0_step_26", "sft/epoch_1_step_39"];
    batch.env = (job, restarts) => ({ ...plain(job, restarts), SAVES: saves[restarts] ?? "" });
    expect(await finish(executor, run, "sft", 2)).toMatchObject({ steps: 40 });
    expect(batch.submitted.map(({ key }) => key)).toEqual(["run-1.sft.1", "run-1.sft.2"]);
    const log = await linesOf(tools.layout.log(run.id, "sft"));
    expect(log.filter((line) => line.includes("requeued, restart")).length).toBe(2);
  });

  it("say why a driver failed, by the end of its own log", async () => {
    const run = await newClusterRun();
    await mkdir(join(tools.layout.run(run.id), "checkpoints/sft-40"), { recursive: true });
    await writeFile(join(tools.layout.run(run.id), "checkpoints/sft-40/config.json"), "{}");
    const plain = batch.env;
    batch.env = (job, restarts) => ({ ...plain(job, restarts), SAVES: "", WORKER_STATUS: "3" });
    await expect(finish(clusterTrain(tools), run, "rl")).rejects.toThrow(
      /^restart: its Slurm job ended as FAILED, with exit code 3;[\s\S]*\| the driver's last words\n.*ray\.sub ended with 3$/,
    );
  });

  it("fail for good where a start check fails", async () => {
    const run = await newClusterRun();
    await rm(join(world.root, BASE), { recursive: true });
    const [train, checkpoint] = [clusterTrain(tools), clusterCheckpoint(tools)];
    await expect(finish(train, run, "sft")).rejects.toThrow(/^final: [\s\S]*no model in .*Qwen3\.8-27B: config\.json/);
    await expect(finish(checkpoint, run, "base")).rejects.toThrow(/^final: [\s\S]*no model in /);
    expect(await listCheckpoints(tools.store)).toEqual([]);
  });

  it("are handed over once, whoever looks: a controller that was killed before Slurm's answer finds its job", async () => {
    const run = await newClusterRun();
    await look(clusterTrain(tools), run, "sft");
    // Nothing was written down: the next controller begins with the same try.
    stepOf(run, "sft").state = "pending";
    expect(await finish(clusterTrain(tools), run, "sft")).toMatchObject({ steps: 40 });
    expect(batch.submitted.length).toBe(1);
    // Slurm has forgotten it: what it made is there, so nothing is started.
    batch.forget("run-1.sft.1");
    expect(await finish(clusterTrain(tools), run, "sft")).toMatchObject({ steps: 40 });
    expect(batch.submitted.length).toBe(1);
  });

  it("are a failed try, and then another, where Slurm no longer knows one that ran and is not done", async () => {
    const run = await newClusterRun();
    const executor = clusterTrain(tools);
    const plain = batch.env;
    batch.env = (job, restarts) => ({ ...plain(job, restarts), SAVES: "" });
    await look(executor, run, "sft");
    await batch.settled();
    batch.forget("run-1.sft.1");
    batch.env = plain;
    stepOf(run, "sft").state = "running";
    expect(await look(executor, run, "sft")).toEqual({
      kind: "failed",
      error: expect.stringMatching(
        /^Slurm no longer knows its job, which has not made what it was to make; the end of /,
      ),
      restart: true,
    });
    expect(await finish(executor, run, "sft", 2)).toMatchObject({ steps: 40 });
    expect(batch.submitted.map(({ key }) => key)).toEqual(["run-1.sft.1", "run-1.sft.2"]);
  });

  it("are handed over again under the same key where a killed slurmctld has lost them from its queue", async () => {
    const run = await newClusterRun();
    const executor = clusterTrain(tools);
    await look(executor, run, "sft");
    await batch.settled();
    await rm(join(tools.layout.run(run.id), "trainer"), { recursive: true });
    batch.forget("run-1.sft.1");
    Object.assign(stepOf(run, "sft"), { state: "pending", handedOver: true });
    expect(await look(executor, run, "sft")).toMatchObject({ kind: "waiting", handedOver: true });
    expect(batch.submitted.map(({ key }) => key)).toEqual(["run-1.sft.1", "run-1.sft.1"]);
  });
});

describe("what RL's rollouts solved", () => {
  /** A run whose RL has ended in Slurm, with one sample; its result when the counting is over. */
  async function counted(store: ObjectStore, seen: StepStatus[] = []): Promise<Record<string, unknown>> {
    const run = await newClusterRun();
    const logs = join(tools.layout.run(run.id), "logs/rl/exp_001");
    await mkdir(logs, { recursive: true });
    await mkdir(join(tools.layout.run(run.id), "trainer/rl/step_40"), { recursive: true });
    const samples = '{"agent_ref": [{"task_id": "task-0"}], "rewards": [1.0], "sample_loss_mask": [1.0]}\n';
    await writeFile(join(logs, "train_data_step40.jsonl"), samples);
    const ended = new Standing({ kind: "ended", state: "COMPLETED", exitCode: 0 });
    const executor = clusterTrain({ ...tools, store, batch: ended });
    for (;;) {
      const status = await look(executor, run, "rl");
      seen.push(status);
      if (status.kind === "succeeded") return status.result;
      if (status.kind !== "running") throw new Error(JSON.stringify(status));
      await sleep(5);
    }
  }

  it("is counted again after the store was away for a while, which the step says", async () => {
    let away = 2;
    const put: ObjectStore["put"] = async (key, bytes) => {
      if (key.startsWith("pass-rates/") && away-- > 0) throw outage("object-store-unreachable");
      return tools.store.put(key, bytes);
    };
    const seen: StepStatus[] = [];
    expect(await counted({ ...tools.store, put }, seen)).toMatchObject({ passRates: "pass-rates/runs/run-1.json" });
    const notes = seen.map((status) => (status.kind === "running" ? status.progress?.note : ""));
    expect(notes.filter((note) => note?.includes("nothing answers"))).toHaveLength(2);
    expect((await getPassRates(tools.store, "pass-rates/runs/run-1.json"))?.rates).toMatchObject([
      { taskId: "task-0" },
    ]);
  });

  it("is left out where it cannot be counted, and the step's result says why", async () => {
    const put: ObjectStore["put"] = () => Promise.reject(new Error("a defect"));
    const result = await counted({ ...tools.store, put });
    expect(result).toMatchObject({ steps: 0, passRatesMissing: "a defect" });
    expect(result).not.toHaveProperty("passRates");
  });
});

/** As stores say that they are away. */
const outage = (code: string) =>
  new UserError({ code, path: "p", asked: "a", found: "nothing answers", allowed: "b", todo: "c" });

describe("the base model", () => {
  it("is registered once for two runs, and again when its files have changed", async () => {
    const [one, two] = [await newClusterRun("run-1"), await newClusterRun("run-2")];
    const executor = clusterCheckpoint(tools);
    const contexts = [one, two].map((run) => contextOf<"checkpoint">(run, jobOf<"checkpoint">(run, "base")));
    expect(executor.sharedKey(contexts[0] as never)).toBe("base Qwen/Qwen3.8-27B null");
    expect(executor.sharedKey(contexts[1] as never)).toBe("base Qwen/Qwen3.8-27B null");
    expect(await executor.made?.(contexts[1] as never)).toBeNull();
    const made = await finish(executor, one, "base");
    expect(await executor.made?.(contexts[1] as never)).toEqual(made);
    await writeFile(join(world.root, BASE, "generation_config.json"), "{}");
    expect(await executor.made?.(contexts[1] as never)).toBeNull();
    expect(await finish(executor, two, "base")).not.toEqual(made);
    expect(batch.submitted.map(({ key }) => key)).toEqual(["run-1.base.1", "run-2.base.1"]);
  });

  it("is refused with every sentence on what is wrong with it", async () => {
    const run = await newClusterRun();
    await writeFile(join(world.root, BASE, "model.safetensors"), "cut");
    await writeFile(join(world.root, BASE, "config.json"), "{}");
    await expect(finish(clusterCheckpoint(tools), run, "base")).rejects.toThrow(
      /^restart: [\s\S]*config\.json names no architectures\n.*model\.safetensors is cut off: [\s\S]*is no model to start from/,
    );
  });
});

describe("a trained checkpoint", () => {
  it("waits for its step while the trainer runs, and fails where that ended without it", async () => {
    const run = await newClusterRun();
    const executor = clusterCheckpoint(tools);
    stepOf(run, "sft").state = "running";
    expect(await look(executor, run, "sft-40")).toEqual({ kind: "waiting", why: null });
    stepOf(run, "sft").state = "failed";
    expect(await look(executor, run, "sft-40")).toEqual({
      ...{ kind: "failed", error: "sft ended without saving step 40", restart: false },
    });
    expect(batch.submitted).toEqual([]);
  });

  it.each([
    ["runs", { state: "running" }],
    ["is in the queue", { state: "pending", handedOver: true }],
  ] as const)(
    "is followed where its job %s, whatever can be read of its trainer's folder now",
    async (_how, fields) => {
      const run = await newClusterRun();
      const trainer = join(tools.layout.run(run.id), "trainer");
      await mkdir(trainer, { recursive: true });
      await writeFile(join(trainer, "sft"), "no folder");
      stepOf(run, "sft").state = "succeeded";
      Object.assign(stepOf(run, "sft-40"), fields);
      const running = new Standing({ kind: "running", nodes: "node-1", restarts: 0 });
      const executor = clusterCheckpoint({ ...tools, batch: running });
      expect(await look(executor, run, "sft-40")).toEqual({ kind: "running", progress: null });
    },
  );
});

/** A scheduler whose one job stands as it is told. */
class Standing implements BatchScheduler {
  readonly keys: string[] = [];
  constructor(readonly stands: BatchState) {}
  async submit({ key }: BatchJob): Promise<void> {
    this.keys.push(key);
  }
  async state(): Promise<BatchState> {
    return this.stands;
  }
  async cancel(key: string): Promise<"ending"> {
    this.keys.push(`cancelled ${key}`);
    return "ending";
  }
}

describe("what Slurm says of a job", () => {
  const standing = (stands: BatchState) => clusterTrain({ ...tools, batch: new Standing(stands) });
  const progress = { total: 40, unit: "steps", note: "training, loss 0.500", etaSeconds: null };
  const logged = async (run: Run, steps: number) => {
    const text = `2026-12-01 10:00:00 | INFO | root | step ${steps - 1} | epoch 0 | loss 0.5000 | grad_norm 1\n`;
    await writeFile(tools.layout.log(run.id, "sft"), text);
  };

  it("is told while it waits, and after a lost node without another try", async () => {
    const run = await newClusterRun();
    const executor = standing({ kind: "waiting", reason: "Resources" });
    expect(await look(executor, run, "sft")).toEqual({
      ...{ kind: "waiting", why: "in Slurm's queue: Resources", handedOver: true },
    });
    stepOf(run, "sft").state = "running";
    await logged(run, 7);
    expect(await look(executor, run, "sft")).toEqual({
      kind: "running",
      progress: { ...progress, done: 7, note: "in Slurm's queue again: Resources" },
    });
  });

  it("is how far it got while it runs, by what was logged or saved", async () => {
    const run = await newClusterRun();
    const executor = standing({ kind: "running", nodes: "node-1", restarts: 0 });
    expect(await look(executor, run, "sft")).toEqual({
      kind: "running",
      progress: { ...progress, done: 0, note: "starting" },
    });
    await logged(run, 7);
    expect(await look(executor, run, "sft")).toEqual({ kind: "running", progress: { ...progress, done: 7 } });
    await mkdir(join(tools.layout.run(run.id), "trainer/sft/epoch_0_step_9"), { recursive: true });
    expect(await look(executor, run, "sft")).toEqual({ kind: "running", progress: { ...progress, done: 10 } });
  });

  it("is nothing while it does not answer: the step stays as it is", async () => {
    const run = await newClusterRun();
    const executor = standing({ kind: "unreachable", why: "connect ECONNREFUSED" });
    expect(await look(executor, run, "sft")).toEqual({
      kind: "waiting",
      why: "Slurm does not answer: connect ECONNREFUSED",
    });
    stepOf(run, "sft").handedOver = true;
    expect(await look(executor, run, "sft")).toMatchObject({ kind: "waiting", handedOver: true });
    stepOf(run, "sft").state = "running";
    await logged(run, 7);
    expect(await look(executor, run, "sft")).toEqual({
      kind: "running",
      progress: { ...progress, done: 7, note: "Slurm does not answer: connect ECONNREFUSED" },
    });
  });

  const ends: [string, number | null, boolean, string][] = [
    ["FAILED", 78, false, "its Slurm job ended as FAILED, with exit code 78"],
    ["FAILED", 1, true, "its Slurm job ended as FAILED, with exit code 1"],
    ["FAILED", 75, true, "its Slurm job ended as FAILED, with exit code 75"],
    ["FAILED", 79, true, "its Slurm job ended as FAILED, with exit code 79"],
    ["TIMEOUT", null, true, "its Slurm job ended as TIMEOUT, without an exit code"],
    ["NODE_FAIL", null, true, "its Slurm job ended as NODE_FAIL, without an exit code"],
    ["CANCELLED", null, false, "somebody cancelled its Slurm job"],
    ["COMPLETED", 0, true, "it ended without its last checkpoint, step 40"],
  ];
  it.each(ends)("%s with exit code %s: another try %s", async (state, exitCode, restart, error) => {
    const run = await newClusterRun();
    await writeFile(tools.layout.log(run.id, "sft"), "first\nlast words\n");
    const status = await look(standing({ kind: "ended", state, exitCode }), run, "sft");
    const log = tools.layout.log(run.id, "sft");
    const quoted = exitCode === 0 ? error : `${error}; the end of ${log}:\n  | first\n  | last words`;
    expect(status).toEqual({ kind: "failed", error: quoted, restart });
  });

  it("is not asked of RL before the environment service has its tasks", async () => {
    const run = await newClusterRun();
    const scheduler = new Standing({ kind: "unknown" });
    const down = { ...tools, batch: scheduler, environmentsUrl: "http://127.0.0.1:1" };
    expect(await look(clusterTrain(down), run, "rl")).toMatchObject({
      kind: "waiting",
      why: expect.stringMatching(/^the environment service does not take the run's tasks: .*ECONNREFUSED/),
    });
    world.outage = "the environment service does not answer";
    expect(await look(clusterTrain({ ...tools, batch: scheduler }), run, "rl")).toEqual({
      kind: "waiting",
      why: "the environment service does not answer",
    });
    expect(scheduler.keys).toEqual([]);
    world.outage = null;
    await look(clusterTrain({ ...tools, batch: scheduler }), run, "rl");
    expect(scheduler.keys).toEqual(["run-1.rl.1"]);
  });

  it("is asked to end it by its key", async () => {
    const run = await newClusterRun();
    const scheduler = new Standing({ kind: "unknown" });
    const context = contextOf<"train">(run, jobOf<"train">(run, "sft") as TrainJob);
    expect(await clusterTrain({ ...tools, batch: scheduler }).cancel(context)).toBe("ending");
    expect(scheduler.keys).toEqual(["cancelled run-1.sft.1"]);
  });
});

describe("a run's folder", () => {
  it("is the plan's files, written once, and never over other bytes", async () => {
    const run = await newClusterRun();
    const scheduler = new Standing({ kind: "unknown" });
    const executor = clusterTrain({ ...tools, batch: scheduler });
    await look(executor, run, "sft");
    await look(executor, run, "sft");
    const config = join(tools.layout.run(run.id), "config/sft.automodel.yaml");
    expect(await readFile(config, "utf8")).toContain("NeMo Automodel's configuration of github-sft-rl, stage sft.");
    await writeFile(config, "edited: true\n");
    await expect(look(executor, run, "sft")).rejects.toThrow(
      /config\/sft\.automodel\.yaml is gone, or there with other bytes/,
    );
    expect(await readFile(config, "utf8")).toBe("edited: true\n");
    expect(scheduler.keys.length).toBe(2);
    await rm(dirname(config), { recursive: true });
    await look(executor, run, "sft");
    expect(scheduler.keys.length).toBe(3);
  });

  it("stays what it was first handed over with, where a newer Uplift would write other files", async () => {
    const run = await newClusterRun();
    const handedOver: string[] = [];
    const scheduler = new Standing({ kind: "unknown" });
    scheduler.submit = async ({ script }: BatchJob) => void handedOver.push(script);
    const executor = clusterTrain({ ...tools, batch: scheduler });
    await look(executor, run, "sft");
    // As an older Uplift would have written them.
    const runDir = tools.layout.run(run.id);
    const digests = JSON.parse(await readFile(join(runDir, "files.json"), "utf8"));
    expect(Object.keys(digests)).toEqual(expect.arrayContaining(["config/sft.automodel.yaml", "data/sft.jsonl"]));
    for (const name of ["slurm/sft.sbatch", "slurm/rl.sbatch", "gym/uplift.yaml"]) {
      const older = `${await readFile(join(runDir, name), "utf8")}# of an older Uplift\n`;
      await writeFile(join(runDir, name), older);
      digests[name] = digestBytes(older);
    }
    await writeFile(join(runDir, "files.json"), JSON.stringify(digests));
    await look(executor, run, "sft", 2);
    await look(executor, run, "rl");
    expect(handedOver.map((script) => script.endsWith("# of an older Uplift\n"))).toEqual([false, true, true]);
    expect(JSON.parse(await readFile(join(runDir, "files.json"), "utf8"))).toMatchObject({
      ...digests,
      "data/rl-train.jsonl": digestBytes(await readFile(join(runDir, "data/rl-train.jsonl"))),
    });
    await writeFile(join(runDir, "data/sft.jsonl"), "{}\n");
    await expect(look(executor, run, "sft", 3)).rejects.toThrow(/data\/sft\.jsonl is gone, or there with other bytes/);
  });
});
