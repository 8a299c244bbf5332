import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestJson } from "../../../schemas/digest.ts";
import type { Job } from "../../../schemas/job.ts";
import { ratesOf } from "../../tasks/index.ts";
import { putPassRates, rolloutRatesKey } from "./pass-rates.ts";
import { select } from "./select.ts";
import { rlTasksOf, selectionOf } from "./selection.ts";
import { contextOf, finished, TestSteps } from "./test-steps.ts";

type SelectJob = Extract<Job, { kind: "select" }>;

const collect: Job = {
  ...{ id: "collect", kind: "collect", needs: [], expert: "1", splits: ["train", "held-out"] },
  ...{ attempts: 2, seed: 0, concurrency: 1 },
};
const rule = { of: "expert", min: 0.1, max: 1, dropAlwaysSolvedBy: null };
const choose: SelectJob = {
  ...{ id: "select", kind: "select", needs: ["collect"], evaluated: "held-out", rl: rule },
  sft: { maxPerTask: 1, maxLengthRatio: 2, maxTrajectories: null },
};
const probeJob: Job = { id: "probe-base", kind: "probe", needs: ["base"], checkpoint: "base", attempts: 2 };
const chooseRl: SelectJob = {
  ...{ id: "select-rl", kind: "select", needs: ["select", "probe-base"], evaluated: null, sft: null },
  rl: { ...rule, of: "probe-base", max: 0.9 },
};
/** How the expert's attempts ended: tasks 0 to 3 are to train on, 4 and 5 held out. */
const ends = {
  "task-0": ["passed", "passed"],
  "task-1": ["passed", "failed"],
  "task-2": ["failed", "failed"],
  "task-3": ["passed", "infrastructure"],
  "task-4": ["failed", "passed"],
  "task-5": ["failed", "infrastructure"],
} as const;

let world: TestSteps;
beforeEach(async () => {
  world = await TestSteps.start({ train: 4, heldOut: 2 });
});
afterEach(() => world.stop());

/** An earlier run of the recipe "earlier" that solved task-0 always and task-1 once. */
async function earlierRun(id: string, state: "succeeded" | "failed" | "running", taskSet = digestJson(world.taskSet)) {
  world.runs.push({ id, recipe: "earlier", state });
  const outcomes = (["passed", "passed", "failed"] as const).map((outcome, place) => ({
    taskId: place === 0 ? "task-0" : "task-1",
    outcome,
  }));
  const made = { runId: id, step: "rl", checkpoint: null, taskSet, rates: ratesOf(outcomes) };
  await putPassRates(world.tools.store, rolloutRatesKey(id), made);
}

async function chooseAfter(dropAlwaysSolvedBy: string, promptsPerStep = 2) {
  const job: SelectJob = { ...choose, rl: { ...rule, dropAlwaysSolvedBy } };
  const run = await world.run([collect, job], { promptsPerStep });
  await world.collected(run, ends);
  return { run, result: await finished(select(world.tools), contextOf<"select">(run, job)) };
}

describe("the choice by the expert's pass rates", () => {
  it("chooses SFT data, RL tasks, and the held-out tasks that were solved, in one step", async () => {
    const run = await world.run([collect, choose]);
    await world.collected(run, ends);
    const result = await finished(select(world.tools), contextOf<"select">(run, choose));
    expect(result).toEqual({ rlTasks: 3, heldOut: 1, heldOutDropped: 1, sftTrajectories: 3 });
    expect(await selectionOf(world.tools, run)).toMatchObject({
      ...{ rlTasks: ["task-0", "task-1", "task-3"], heldOut: ["task-4"], heldOutDropped: ["task-5"] },
      rl: { chosen: 3, below: 1, above: 0, unmeasured: 0 },
    });
    const lines = (await readFile(world.tools.layout.sftTrajectories(run.id), "utf8")).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).taskId)).toEqual(["task-0", "task-1", "task-3"]);
  });
});

describe("the choice by a probe's pass rates", () => {
  const first: SelectJob = { ...choose, rl: null };

  it("fills in the RL tasks after the first choice, from what the checkpoint solved", async () => {
    const run = await world.run([collect, first, probeJob, chooseRl]);
    await world.collected(run, ends);
    const executor = select(world.tools);
    expect(await finished(executor, contextOf<"select">(run, first))).toEqual({
      ...{ heldOut: 1, heldOutDropped: 1, sftTrajectories: 3 },
    });
    await expect(rlTasksOf(world.tools, run)).rejects.toThrow("has not chosen its RL tasks");

    const outcomes = (["passed", "failed"] as const).flatMap((outcome) => [
      { taskId: "task-2", outcome },
      { taskId: "task-0", outcome: "passed" as const },
      { taskId: "task-3", outcome: "failed" as const },
    ]);
    const made = { runId: run.id, step: "probe-base", checkpoint: null, taskSet: digestJson(world.taskSet) };
    await putPassRates(world.tools.store, "pass-rates/probes/p.json", { ...made, rates: ratesOf(outcomes) });
    const context = contextOf<"select">(run, chooseRl, { "probe-base": { passRates: "pass-rates/probes/p.json" } });
    expect(await finished(executor, context)).toEqual({ rlTasks: 1 });
    expect(await rlTasksOf(world.tools, run)).toEqual(["task-2"]);
    expect(await selectionOf(world.tools, run)).toMatchObject({
      ...{ heldOut: ["task-4"], sft: { trajectories: 3 }, rl: { chosen: 1, below: 1, above: 1 } },
    });
    // After a kill the step is simply asked again.
    expect(await finished(executor, context)).toEqual({ rlTasks: 1 });
  });

  it("is a defect where the plan names no probe of its own", async () => {
    const run = await world.run([collect, first, chooseRl]);
    await world.collected(run, ends);
    await finished(select(world.tools), contextOf<"select">(run, first));
    await expect(finished(select(world.tools), contextOf<"select">(run, chooseRl))).rejects.toThrow("no probe of it");
  });
});

describe("tasks that an earlier run always solved", () => {
  it("are left out, and the run is named in the step's result", async () => {
    await earlierRun("earlier-20260101-000000-aaaa", "succeeded");
    const { run, result } = await chooseAfter("earlier-20260101-000000-aaaa");
    expect(result).toMatchObject({ rlTasks: 2, alwaysSolved: 1, alwaysSolvedBy: "earlier-20260101-000000-aaaa" });
    expect(await selectionOf(world.tools, run)).toMatchObject({
      rlTasks: ["task-1", "task-3"],
      rl: { chosen: 2, below: 1, alwaysSolved: 1, alwaysSolvedBy: "earlier-20260101-000000-aaaa" },
    });
  });

  it("are those of the newest run of a recipe that succeeded", async () => {
    await earlierRun("earlier-3", "running");
    await earlierRun("earlier-2", "succeeded");
    await earlierRun("earlier-1", "succeeded");
    expect((await chooseAfter("earlier")).result).toMatchObject({ alwaysSolvedBy: "earlier-2" });
  });

  it("are refused where a run, its record or its tasks are not what was meant", async () => {
    await expect(chooseAfter("nobody")).rejects.toThrow("earlier-run-unknown");
    await earlierRun("earlier-2", "failed");
    await expect(chooseAfter("earlier")).rejects.toThrow(/of this recipe's 1 runs none succeeded.*earlier-run-unknown/);
    world.runs.push({ id: "earlier-0", recipe: "other", state: "succeeded" });
    await expect(chooseAfter("other")).rejects.toThrow(/earlier-0 \(succeeded\) has no record.*earlier-run-no-record/);
    await earlierRun("earlier-4", "succeeded", digestJson("other tasks"));
    await expect(chooseAfter("earlier-4")).rejects.toThrow("earlier-run-other-tasks");
  });

  it("are refused where fewer are left than a step has", async () => {
    await earlierRun("earlier-2", "succeeded");
    await expect(chooseAfter("earlier", 3)).rejects.toThrow(/2 of the 3 tasks.*too-few-rl-tasks/);
  });

  it("may be named by a run whose evaluation failed later: its training is what counts", async () => {
    await earlierRun("earlier-2", "failed");
    expect((await chooseAfter("earlier-2")).result).toMatchObject({ alwaysSolvedBy: "earlier-2" });
  });
});
