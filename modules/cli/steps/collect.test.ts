import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Job } from "../../../schemas/job.ts";
import type { Run } from "../../../schemas/run.ts";
import { collect, trajectoriesFile } from "./collect.ts";
import { contextOf, TestSteps } from "./test-steps.ts";

const job: Extract<Job, { kind: "collect" }> = {
  ...{ id: "collect", kind: "collect", needs: [], expert: "1", splits: ["train"] },
  ...{ attempts: 1, seed: 0, concurrency: 1 },
};
let world: TestSteps;
let run: Run;

beforeEach(async () => {
  world = await TestSteps.start();
  run = await world.run([job]);
});
afterEach(() => world.stop());

describe("a collection", () => {
  const folder = () => dirname(trajectoriesFile(world.tools, run));
  const made = () => collect(world.tools).made?.(contextOf(run, job));

  it("is not made while no whole count of it is there", async () => {
    expect(await made()).toBeNull();
    await mkdir(folder(), { recursive: true });
    // What a kill leaves of one that is being written.
    await writeFile(join(folder(), "complete.json.new"), '{"traj');
    expect(await made()).toBeNull();
  });

  it("is counted once its process has ended well, and then found by the next run that asks for the same", async () => {
    await world.collected(run, { "task-0": ["passed"], "task-1": ["failed"], "task-2": ["infrastructure"] });
    const scheduler = Object.assign(Object.create(world.tools.scheduler), {
      state: async () => ({ kind: "exited", code: 0 }),
    });
    const counts = { trajectories: 3, passed: 1, infrastructure: 1 };
    const status = await collect({ ...world.tools, scheduler }).advance(contextOf(run, job));
    expect(status).toEqual({ kind: "succeeded", result: counts });
    expect((await readdir(folder())).sort()).toEqual(["complete.json", "trajectories.jsonl"]);
    const other = await world.run([job], {}, "run-2");
    expect(await collect(world.tools).made?.(contextOf(other, job))).toEqual(counts);
  });

  it("is an error, and not made again beside it, where its count is damaged", async () => {
    await mkdir(folder(), { recursive: true });
    await writeFile(join(folder(), "complete.json"), '{"traj');
    await expect(made()).rejects.toThrow();
  });
});
