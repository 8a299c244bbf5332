import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestJson } from "../../../schemas/digest.ts";
import type { Job, TrainJob } from "../../../schemas/job.ts";
import type { Run } from "../../../schemas/run.ts";
import { ProcessScheduler, type ProcessState } from "../../runs/index.ts";
import { checkpoint } from "./checkpoint.ts";
import { getPassRates } from "./pass-rates.ts";
import type { StepTools } from "./step-tools.ts";
import { contextOf, TestSteps } from "./test-steps.ts";
import { train } from "./train.ts";

const job: TrainJob = {
  ...{ id: "rl", kind: "train", needs: ["base", "select"], stage: "rl", trainer: "trl", startFrom: "base" },
  ...{ steps: 2, saveEverySteps: 2, config: {}, launch: null },
};
const merge: Extract<Job, { kind: "checkpoint" }> = {
  ...{ id: "rl-2", kind: "checkpoint", needs: [], name: "r RL step 2", stage: "rl", step: 2, train: "rl" },
};

/** A scheduler of one process that stands as it is told, and what it was asked to start. */
class OneProcess extends ProcessScheduler {
  started: readonly string[] = [];
  constructor(private readonly stands: ProcessState) {
    super(() => "");
  }
  override async state(): Promise<ProcessState> {
    return this.stands;
  }
  override async submit({ args }: { args: readonly string[] }): Promise<void> {
    this.started = args;
  }
}

let world: TestSteps;
beforeEach(async () => {
  world = await TestSteps.start();
});
afterEach(() => world.stop());

const toolsWith = (scheduler: ProcessScheduler): StepTools => ({ ...world.tools, scheduler });

/** What a trainer that has ended leaves: a complete checkpoint of its last step, and how its rollouts ended. */
async function ended(run: Run): Promise<void> {
  const output = world.tools.layout.output(run.id, "rl");
  const weights = join(output, "checkpoints/step-2/weights");
  await mkdir(dirname(weights), { recursive: true });
  await writeFile(weights, "w");
  const file = { path: "weights", bytes: 1, sha256: createHash("sha256").update("w").digest("hex") };
  await writeFile(join(dirname(weights), "complete.json"), JSON.stringify({ step: 2, stage: "rl", files: [file] }));
  const outcomes = ["passed", "passed", "infrastructure", "failed"].map((outcome, place) =>
    JSON.stringify({ step: 1 + (place % 2), taskId: place < 3 ? "task-0" : "task-1", outcome }),
  );
  await writeFile(join(output, "attempts.jsonl"), `${outcomes.join("\n")}\n`);
}

describe("a train step", () => {
  it("keeps what RL's rollouts solved under the run's name when the trainer has ended", async () => {
    const run = await world.run([job]);
    await ended(run);
    const executor = train(toolsWith(new OneProcess({ kind: "exited", code: 0 })));
    const status = await executor.advance(contextOf<"train">(run, job));
    expect(status).toMatchObject({ kind: "succeeded", result: { passRates: "pass-rates/runs/run-1.json" } });
    const rates = await getPassRates(world.tools.store, "pass-rates/runs/run-1.json");
    expect(rates).toMatchObject({ runId: "run-1", step: "rl", taskSet: digestJson(world.taskSet), checkpoint: null });
    expect(rates?.rates).toEqual([
      { taskId: "task-0", passed: 2, attempts: 2, infrastructure: 1, rate: 1 },
      { taskId: "task-1", passed: 0, attempts: 1, infrastructure: 0, rate: 0 },
    ]);
  });

  it("of a cluster's trainer is refused on one machine, with nothing started", async () => {
    const run = await world.run([job]);
    const scheduler = new OneProcess({ kind: "unknown" });
    for (const trainer of ["automodel", "nemo-rl"] as const)
      await expect(train(toolsWith(scheduler)).advance(contextOf<"train">(run, { ...job, trainer }))).rejects.toThrow(
        `rl is trained with ${trainer}`,
      );
    expect(scheduler.started).toEqual([]);
  });
});

describe("a checkpoint step", () => {
  const commandOf = async (config: Record<string, unknown>) => {
    const run = await world.run([{ ...job, config }, merge]);
    const { tasks } = run.plan.recipe;
    run.plan.recipe.tasks = { ...tasks, family: "repo-chores" };
    await ended(run);
    const scheduler = new OneProcess({ kind: "unknown" });
    const results = { base: { checkpoint: world.checkpoint.digest } };
    await checkpoint(toolsWith(scheduler)).advance(contextOf<"checkpoint">(run, merge, results));
    return scheduler.started.filter((argument) => /^(merge|adopt|--[a-z]+)$/.test(argument));
  };

  it("merges an adapter into the model its training started from", async () => {
    expect(await commandOf({ lora: { rank: 4, alpha: 8 } })).toEqual(["merge", "--base", "--adapter", "--output"]);
  });

  it("takes all weights as they were trained where there is no adapter", async () => {
    expect(await commandOf({ lora: null })).toEqual(["adopt", "--base", "--trained", "--output"]);
  });
});
