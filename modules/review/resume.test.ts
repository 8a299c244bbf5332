import { describe, expect, it } from "vitest";
import { changed, clusterPlan, compare, costOf } from "./fixture.ts";

describe("resuming old checkpoints", () => {
  const resumes = (change: Parameters<typeof changed>[1]) =>
    compare(clusterPlan, changed(clusterPlan, change)).resumes.map(({ stage, because }) => [stage, because]);
  const train = (body: Parameters<Parameters<typeof changed>[1]>[0], stage: string) => {
    const job = body.jobs.find(({ id }) => id === stage);
    if (job?.kind !== "train") throw new Error(`no job ${stage}`);
    return job;
  };

  it("is possible for a longer run at a constant learning rate, its rendered steps included", () => {
    const longer = resumes((body) => {
      body.recipe.rl.steps = 60;
      train(body, "rl").steps = 60;
      train(body, "rl").config = { grpo: { max_num_steps: 60, num_prompts_per_step: 16 } };
    });
    expect(longer).toEqual([
      ["sft", []],
      ["rl", []],
    ]);
  });

  it("is not for a longer run along a cosine, nor for what starts from its end", () => {
    const longer = resumes((body) => {
      if (body.recipe.kind === "sft-rl") body.recipe.sft.steps = 40;
    });
    expect(longer).toEqual([
      ["sft", ["SFT steps"]],
      ["rl", ["the checkpoint it starts from"]],
    ]);
  });

  it("is not under another layout, LoRA rank, image, or rendered key", () => {
    const rl = (change: Parameters<typeof changed>[1]) => resumes(change)[1]?.[1];
    expect(
      rl((body) => {
        body.recipe.rl.lora = { rank: 64 };
      }),
    ).toEqual(["RL LoRA"]);
    expect(
      rl((body) => {
        const rlLayout = body.layouts.find(({ stage }) => stage === "rl")?.layout;
        if (rlLayout?.kind === "rl") rlLayout.train.tensorParallel = 8;
      }),
    ).toEqual(["RL layout (loading a checkpoint under another one is unproven)"]);
    expect(
      rl((body) => {
        const job = train(body, "rl");
        if (job.launch) job.launch.image = "other@sha256:1";
      }),
    ).toEqual(["RL trainer"]);
    expect(
      rl((body) => {
        train(body, "rl").config = { grpo: { max_num_steps: 40, num_prompts_per_step: 8 } };
      }),
    ).toEqual(["rendered jobs.rl.config.grpo.num_prompts_per_step"]);
  });

  it("is possible where only the evaluation or the checkpoints reported change", () => {
    const kept = resumes((body) => {
      body.recipe.evaluation.attempts = 16;
      body.recipe.report = [...body.recipe.report, { stage: "rl", step: 20 }];
      body.estimate.cost = costOf([]);
    });
    expect(kept).toEqual([
      ["sft", []],
      ["rl", []],
    ]);
  });
});
