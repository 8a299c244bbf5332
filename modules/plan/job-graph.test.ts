import { describe, expect, it } from "vitest";
import { Job } from "../../schemas/job.ts";
import { Recipe } from "../../schemas/recipe.ts";
import { type JobGraphInputs, jobGraph } from "./job-graph.ts";

const shared = {
  model: "tiny",
  context: 1024,
  tasks: { kind: "generated", family: "repo-chores", seed: 1, count: 40, split: { heldOut: 8, validation: 4 } },
  expert: { kind: "scripted", attempts: 6, seed: 3 },
  evaluation: {
    ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 6, maxTokensPerTurn: 48, seed: 0 },
    failureRule: { retries: 3, exhausted: "counts-as-failure" },
  },
};
const rl = {
  ...{ steps: 8, promptsPerStep: 4, rolloutsPerPrompt: 4, learningRate: 1e-3, lora: { rank: 4 } },
  ...{ maxTurns: 6, maxTokensPerTurn: 48, saveEverySteps: 4 },
};
const sft = { steps: 10, batchSize: 4, learningRate: 1e-3, lora: { rank: 4 }, saveEverySteps: 5 };
const report = [{ stage: "rl", step: 8 }];

const rlOnly = (tasks?: object) => Recipe.parse({ kind: "rl", ...shared, report, rl: { ...rl, tasks } });
const sftThenRl = (tasks?: object) => Recipe.parse({ kind: "sft-rl", ...shared, report, sft, rl: { ...rl, tasks } });

function graph(recipe: Recipe, changes: Partial<JobGraphInputs> = {}): Job[] {
  return jobGraph({
    ...{ recipe, name: "r", expert: "1", split: "held-out" },
    train: (stage) => ({ trainer: "trl", config: { stage }, launch: null }),
    ...changes,
  });
}

const ids = (jobs: readonly Job[]) => jobs.map(({ id }) => id);
const jobOf = (jobs: readonly Job[], id: string) => jobs.find((job) => job.id === id);
const band = (of: string) => ({ passRateBand: { of, min: 0.2, max: 0.8 } });

describe("the job graph of a choice by the expert's pass rates", () => {
  it("chooses SFT data, RL tasks and tasks to evaluate on in one job after the expert", () => {
    const jobs = graph(sftThenRl());
    expect(ids(jobs)).toEqual([
      ...["base", "collect", "select", "sft", "sft-10", "rl", "rl-8"],
      ...["evaluate-base", "publish-base", "evaluate-rl-8", "publish-rl-8"],
    ]);
    expect(jobOf(jobs, "select")).toEqual({
      ...{ id: "select", kind: "select", needs: ["collect"], evaluated: "held-out" },
      sft: { maxPerTask: 4, maxLengthRatio: 2, maxTrajectories: null },
      rl: { of: "expert", min: 0.1, max: 0.9, dropAlwaysSolvedBy: null },
    });
    expect(jobOf(jobs, "collect")).toMatchObject({ splits: ["train", "held-out"], attempts: 6, seed: 3 });
    expect(jobOf(jobs, "rl")).toMatchObject({ needs: ["sft-10", "select"], startFrom: "sft-10" });
  });

  it("hands the run whose always-solved tasks are left out to the job that chooses", () => {
    const jobs = graph(rlOnly({ ...band("expert"), dropAlwaysSolvedBy: "quickstart-rl" }));
    expect(jobOf(jobs, "select")).toMatchObject({
      rl: { of: "expert", min: 0.2, max: 0.8, dropAlwaysSolvedBy: "quickstart-rl" },
    });
  });

  it("leaves a choice by a model of the dataset's index to that index: nothing is probed", () => {
    const jobs = graph(sftThenRl(band("moonshotai/Kimi-K3")));
    expect(ids(jobs)).not.toContain("select-rl");
    expect(jobOf(jobs, "select")).toMatchObject({ rl: { of: "moonshotai/Kimi-K3" } });
  });
});

describe("the job graph of a choice by a checkpoint's pass rates", () => {
  it("probes the base model and chooses RL's tasks after that, without the expert on training tasks", () => {
    const jobs = graph(rlOnly({ ...band("base"), dropAlwaysSolvedBy: "earlier" }));
    expect(ids(jobs).slice(0, 6)).toEqual(["base", "collect", "select", "probe-base", "select-rl", "rl"]);
    expect(jobOf(jobs, "collect")).toMatchObject({ splits: ["held-out"] });
    expect(jobOf(jobs, "select")).toMatchObject({ evaluated: "held-out", sft: null, rl: null });
    expect(jobOf(jobs, "probe-base")).toEqual({
      ...{ id: "probe-base", kind: "probe", needs: ["base"], checkpoint: "base", attempts: 6 },
    });
    expect(jobOf(jobs, "select-rl")).toEqual({
      ...{ id: "select-rl", kind: "select", needs: ["select", "probe-base"], evaluated: null, sft: null },
      rl: { of: "probe-base", min: 0.2, max: 0.8, dropAlwaysSolvedBy: "earlier" },
    });
    expect(jobOf(jobs, "rl")).toMatchObject({ needs: ["base", "select-rl"] });
    expect(jobOf(jobs, "evaluate-base")).toMatchObject({ needs: ["base", "select"] });
  });

  it("probes the last SFT checkpoint, which needs the first choice's data, between SFT and RL", () => {
    const jobs = graph(sftThenRl(band("sft")));
    expect(ids(jobs).slice(0, 8)).toEqual([
      ...["base", "collect", "select", "sft", "sft-10", "probe-sft-10", "select-rl", "rl"],
    ]);
    expect(jobOf(jobs, "collect")).toMatchObject({ splits: ["train", "held-out"] });
    expect(jobOf(jobs, "sft")).toMatchObject({ needs: ["base", "select"] });
    expect(jobOf(jobs, "probe-sft-10")).toMatchObject({ needs: ["sft-10"], checkpoint: "sft-10" });
    expect(jobOf(jobs, "rl")).toMatchObject({ needs: ["sft-10", "select-rl"] });
  });
});

describe("any job graph", () => {
  const recipes = [rlOnly, sftThenRl].flatMap((make) => [make(), make(band("base")), make(band("m"))]);

  it("is accepted by the schema and names every job after those it needs", () => {
    for (const recipe of [...recipes, sftThenRl(band("sft"))]) {
      const jobs = graph(recipe).map((job) => Job.parse(job));
      expect(new Set(ids(jobs)).size).toBe(jobs.length);
      jobs.forEach((job, place) => {
        for (const need of job.needs) expect(ids(jobs).slice(0, place)).toContain(need);
      });
    }
  });

  it("asks for each stage's training once, with the checkpoint it starts from", () => {
    const asked: string[] = [];
    const jobs = graph(sftThenRl(), {
      train: (stage, startFrom) => {
        asked.push(`${stage} from ${startFrom}`);
        return { trainer: stage === "sft" ? "automodel" : "nemo-rl", config: { stage }, launch: null };
      },
    });
    expect(asked).toEqual(["sft from base", "rl from sft-10"]);
    expect(jobOf(jobs, "rl")).toMatchObject({ trainer: "nemo-rl", config: { stage: "rl" }, steps: 8 });
  });

  it("evaluates on validation tasks without publishing where settings are tuned", () => {
    const jobs = graph(rlOnly(band("base")), { split: "validation" });
    expect(jobOf(jobs, "collect")).toMatchObject({ splits: ["validation"] });
    expect(jobOf(jobs, "select")).toMatchObject({ evaluated: "validation" });
    expect(jobs.filter(({ kind }) => kind === "publish")).toEqual([]);
  });

  it("refuses to probe an SFT checkpoint that there is not", () => {
    expect(() => graph(rlOnly(band("sft")))).toThrow("no SFT checkpoint");
  });
});
