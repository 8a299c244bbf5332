import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Recipe, type RlRecipeInput, type SftRlRecipeInput } from "../../schemas/recipe.ts";
import { checkTrl, trl } from "./trl.ts";

let output: string;
beforeEach(async () => {
  output = await mkdtemp(join(tmpdir(), "uplift-trl-"));
});
afterEach(() => rm(output, { recursive: true, force: true }));

const shared = {
  model: "tiny",
  context: "128k" as const,
  tasks: { kind: "generated" as const, family: "repo-chores", seed: 1, count: 40, split: { heldOut: 8 } },
  report: [{ stage: "rl" as const, step: 8 }],
  evaluation: {
    ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 6, maxTokensPerTurn: 48, seed: 0 },
    failureRule: { retries: 3, exhausted: "counts-as-failure" as const },
  },
  seed: 5,
};
const rl = {
  ...{ steps: 8, promptsPerStep: 4, rolloutsPerPrompt: 6, learningRate: 1e-3, maxTurns: 6, maxTokensPerTurn: 48 },
  saveEverySteps: 4,
};
const sft = { steps: 10, batchSize: 4, learningRate: 3e-3, saveEverySteps: 5 };
const rlRecipe = (changes: Partial<RlRecipeInput["rl"]> = {}) =>
  Recipe.parse({ kind: "rl", ...shared, rl: { ...rl, ...changes } });
const sftRecipe = (changes: Partial<SftRlRecipeInput["sft"]> = {}) =>
  Recipe.parse({ kind: "sft-rl", ...shared, rl, sft: { ...sft, ...changes } });

describe("TRL's configuration", () => {
  it("of SFT has every setting of the recipe, defaults filled in", () => {
    expect(trl.renderConfig(sftRecipe(), "sft")).toEqual({
      ...{ stage: "sft", steps: 10, batchSize: 4, learningRate: 3e-3, saveEverySteps: 5, seed: 5, maxTokens: 131_072 },
      ...{ warmupSteps: 0, schedule: "cosine", weightDecay: 0, maxGradNorm: 1, lora: null },
    });
    const set = {
      ...{ warmupSteps: 4, weightDecay: 0.1, maxGradNorm: 0.5, lora: { rank: 16 } },
      schedule: "constant" as const,
    };
    expect(trl.renderConfig(sftRecipe(set), "sft")).toMatchObject({ ...set, lora: { rank: 16, alpha: 32 } });
  });

  it("of RL has every setting of the recipe, defaults filled in", () => {
    expect(trl.renderConfig(rlRecipe(), "rl")).toEqual({
      ...{ stage: "rl", steps: 8, learningRate: 1e-3, saveEverySteps: 4, seed: 5, contextTokens: 131_072 },
      ...{ warmupSteps: 0, schedule: "constant", weightDecay: 0, maxGradNorm: 1, lora: null },
      ...{ promptsPerStep: 4, rolloutsPerPrompt: 6, temperature: 1, maxTurns: 6, maxCompletionTokens: 48 },
      ...{ klPenalty: 0, clip: { low: 0.2, high: 0.2 } },
    });
    const set = {
      ...{ warmupSteps: 3, weightDecay: 0.01, maxGradNorm: 2, klPenalty: 0.04, clip: { low: 0.2, high: 0.28 } },
      ...{ schedule: "cosine" as const, lora: { rank: 8, alpha: 8 }, temperature: 0.9 },
    };
    expect(trl.renderConfig(rlRecipe(set), "rl")).toMatchObject(set);
  });

  it("has a context that is written in tokens as it is written", () => {
    expect(trl.renderConfig({ ...rlRecipe(), context: 1024 }, "rl")).toMatchObject({ contextTokens: 1024 });
  });

  it("of SFT is not there for a recipe that trains by RL alone", () => {
    expect(() => trl.renderConfig(rlRecipe(), "sft")).toThrow("no SFT stage");
  });
});

describe("what TRL on one machine cannot do", () => {
  it("is nothing of a recipe that asks for no more than a process, with or without an adapter", () => {
    const colocated = { rollouts: { placement: "colocated" as const }, overrides: {}, klPenalty: 0.1 };
    expect(checkTrl(rlRecipe({ ...colocated, parallelism: { nodes: 1, tensorParallel: 1 } }))).toEqual([]);
    expect(checkTrl(sftRecipe({ lora: { rank: 4 } }))).toEqual([]);
  });

  it("is named field by field, all at once", () => {
    const recipe = Recipe.parse({
      ...{ kind: "sft-rl", ...shared, context: "256k" },
      rope: { type: "yarn", factor: 2, originalMaxTokens: 131_072 },
      sft: { ...sft, parallelism: { nodes: 2, contextParallel: 8 }, overrides: { "step_scheduler.ckpt": 1, a: 2 } },
      rl: {
        ...{ ...rl, parallelism: { tensorParallel: 4 } },
        rollouts: { placement: "dedicated", nodes: 3, async: { maxAgeSteps: 2 } },
      },
    });
    const issues = checkTrl(recipe);
    expect(new Set(issues.map(({ code }) => code))).toEqual(new Set(["not-on-this-target"]));
    expect(issues.map(({ path, asked }) => `${path}: ${asked}`)).toEqual([
      "rope: positions are stretched by 2 to reach 262144 tokens",
      "rl.rollouts: rollouts on 3 nodes of their own, with weights up to 2 steps old",
      "sft.parallelism: nodes 2, contextParallel 8",
      "sft.overrides: a, step_scheduler.ckpt of the trainer's own configuration",
      "rl.parallelism: tensorParallel 4",
    ]);
  });
});

describe("TRL's outcomes of rollouts", () => {
  it("are none before the first step, then one a rollout", async () => {
    expect(await trl.readOutcomes(output)).toEqual([]);
    await writeFile(
      join(output, "attempts.jsonl"),
      '{"step":1,"taskId":"a","outcome":"passed"}\n{"step":1,"taskId":"b","outcome":"infrastructure"}\n{"step":2,"ta',
    );
    expect(await trl.readOutcomes(output)).toEqual([
      { step: 1, taskId: "a", outcome: "passed" },
      { step: 1, taskId: "b", outcome: "infrastructure" },
    ]);
  });

  it("are refused where a line is not an outcome", async () => {
    await writeFile(join(output, "attempts.jsonl"), '{"step":1,"taskId":"a","outcome":"solved"}\n');
    await expect(trl.readOutcomes(output)).rejects.toThrow();
  });
});

const write = (...lines: string[]) => writeFile(join(output, "metrics.jsonl"), lines.join("\n"));

describe("TRL's progress", () => {
  it("is empty before the trainer wrote anything", async () => {
    expect(await trl.readProgress(output)).toEqual({ phase: null, metrics: [] });
  });

  it("has the newest phase and one entry a step, the newest where a restart repeated one", async () => {
    await write(
      '{"phase":"loading","time":"t"}',
      '{"stage":"rl","step":1,"steps":4,"loss":0.5,"reward":0.25,"seconds":6,"time":"t"}',
      '{"phase":"training","time":"t"}',
      '{"stage":"rl","step":2,"steps":4,"loss":0.4,"reward":0.5,"attemptsLost":3,"seconds":5,"time":"t"}',
      '{"stage":"rl","step":2,"steps":4,"loss":0.3,"reward":0.75,"seconds":5,"time":"t"}',
      "",
    );
    const { phase, metrics } = await trl.readProgress(output);
    expect(phase).toBe("training");
    expect(metrics).toEqual([
      { step: 1, steps: 4, loss: 0.5, reward: 0.25, attemptsLost: 0, seconds: 6 },
      { step: 2, steps: 4, loss: 0.3, reward: 0.75, attemptsLost: 0, seconds: 5 },
    ]);
  });

  it("leaves out a line that is still being written", async () => {
    await write('{"phase":"training"}', '{"step":1,"ste');
    expect(await trl.readProgress(output)).toEqual({ phase: "training", metrics: [] });
  });
});

describe("TRL's command", () => {
  it("runs the snapshot's code offline, on as many threads as it was given", () => {
    const command = trl.trainCommand({
      ...{
        python: "/venv/bin/python",
        codeDir: "/code",
        stage: "rl",
        configPath: "/c.json",
        outputDir: "/out",
        threads: 1,
      },
    });
    expect([command.command, ...command.args].join(" ")).toBe(
      "/venv/bin/python -m uplift_trl rl --config /c.json --output /out",
    );
    expect(command.env).toMatchObject({
      PYTHONPATH: "/code/modules/trainers/trl",
      OMP_NUM_THREADS: "1",
      HF_HUB_OFFLINE: "1",
    });
  });
});
