import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../../schemas/digest.ts";
import { Cost } from "../../../schemas/estimate.ts";
import { peaksOf } from "../../../schemas/gpu-peaks.ts";
import { INSTANCES } from "../../../schemas/instance.ts";
import { Recipe } from "../../../schemas/recipe.ts";
import { ASSUMPTIONS, EXPECTED, NAMES } from "./assumptions.ts";
import { meanAttempt, slowestAttempt } from "./attempts.ts";
import { estimateCost } from "./estimate.ts";
import { exportSeconds } from "./export.ts";
import {
  githubInput,
  githubTasks,
  rlLayout,
  servingLayout,
  sftLayout,
  stageLayouts,
  unreal256kInput,
} from "./fixture.ts";
import type { CostInput } from "./input.ts";
import { rlStep } from "./steps.ts";
import { number } from "./text.ts";

const stageOf = (input: CostInput, stage: "sft" | "rl" | "evaluation") => {
  const found = estimateCost(input).cost.stages.find((cost) => cost.stage === stage);
  if (!found) throw new Error(`no ${stage}`);
  return found;
};

/** Recipes and layouts of many sizes. */
const sizes = fc.record({
  contextPower: fc.integer({ min: 14, max: 18 }),
  known: fc.boolean(),
  nodes: fc.constantFrom(2, 4, 8, 16).map(Number),
  contextParallel: fc.constantFrom(1, 2, 4),
  concurrent: fc.integer({ min: 1, max: 60 }),
  steps: fc.integer({ min: 1, max: 200 }),
  save: fc.integer({ min: 1, max: 50 }),
  prompts: fc.integer({ min: 1, max: 64 }),
  rollouts: fc.integer({ min: 2, max: 16 }),
  turns: fc.integer({ min: 1, max: 300 }),
  lora: fc.boolean(),
  kl: fc.boolean(),
  instance: fc.constantFrom(INSTANCES["p5.48xlarge"], INSTANCES["p5en.48xlarge"], INSTANCES["p6-b200.48xlarge"]),
  walltimeHours: fc.integer({ min: 4, max: 96 }),
});
type Sizes = typeof sizes extends fc.Arbitrary<infer T> ? T : never;

function inputOf(size: Sizes): CostInput {
  const contextTokens = 2 ** size.contextPower;
  const base = githubInput();
  const { lora, ...rest } = base.recipe.rl;
  const recipe = Recipe.parse({
    ...base.recipe,
    context: contextTokens,
    rl: {
      ...rest,
      ...(size.lora ? { lora } : {}),
      steps: size.steps,
      saveEverySteps: size.save,
      promptsPerStep: size.prompts,
      rolloutsPerPrompt: size.rollouts,
      maxTurns: size.turns,
      maxTokensPerTurn: 4096,
      klPenalty: size.kl ? 0.01 : 0,
    },
  });
  return {
    ...base,
    recipe,
    contextTokens,
    instance: size.instance,
    taskSet: { ...githubTasks, solutionTokens: size.known ? githubTasks.solutionTokens : null },
    layouts: stageLayouts([
      sftLayout(size.nodes, 8),
      rlLayout(size.nodes, size.contextParallel, size.concurrent),
      servingLayout(2 * size.concurrent),
    ]),
    maxWalltimeSeconds: size.walltimeHours * 3600,
  };
}

describe("the estimate of the reference case", () => {
  it("is these hours and dollars", () => {
    const { cost, walltimeSeconds, issues, warnings } = estimateCost(githubInput());
    expect([...issues, ...warnings]).toEqual([]);
    expect(cost.stages.map(({ stage, nodes, hours }) => ({ stage, nodes, ...hours }))).toEqual([
      { stage: "sft", nodes: 2, low: 0.26, expected: 0.34, high: 0.63 },
      { stage: "rl", nodes: 4, low: 14.34, expected: 29.54, high: 62.24 },
      { stage: "export", nodes: 1, low: 0.27, expected: 0.39, high: 0.85 },
      { stage: "evaluation", nodes: 1, low: 9.31, expected: 21.18, high: 49.4 },
    ]);
    expect(cost.hours).toEqual({ low: 24.18, expected: 51.45, high: 113.12 });
    expect(cost.dollars).toEqual({ low: 4270.22, expected: 8887.95, high: 19019.76 });
    expect(walltimeSeconds).toEqual({ sft: 3600, rl: 24 * 3600 });
  });

  it("shows arithmetic that gives the numbers it shows", () => {
    const { why, stepSeconds, dollars, hours } = stageOf(githubInput(), "sft");
    const text = why.join("\n");
    const [, sequences, gpus, share, peak, imbalance, seconds] =
      /Step: (\d+) of 8 trajectories on each group of (\d+) GPUs, at (\d+) % of (\d+) TFLOP\/s, × ([\d.]+) for unequal lengths = ([\d.]+) s/
        .exec(text)
        ?.map(Number) ?? [];
    const tokens = Number(/A trajectory has ([\d,]+) tokens/.exec(text)?.[1]?.replace(",", ""));
    const gigaflop = Number(/A token takes (\d+) GFLOP/.exec(text)?.[1]);
    const shown =
      ((sequences ?? 0) * tokens * gigaflop * 1e9 * (imbalance ?? 0)) /
      ((gpus ?? 0) * (peak ?? 0) * 1e12 * ((share ?? 0) / 100));
    expect(shown / (seconds ?? 0)).toBeCloseTo(1, 1);
    expect(stepSeconds.expected).toBeCloseTo((seconds ?? 0) + 5, 1);
    expect(dollars.expected).toBe(Math.round(2 * hours.expected * 63.3 * 100) / 100);
  });

  it("says that it is unproven, what it leaves out, and which assumptions matter most", () => {
    for (const { why } of estimateCost(githubInput()).cost.stages) {
      const text = why.join("\n");
      expect(text).toContain("Unproven:");
      expect(text).toContain("Least certain:");
    }
    // 46 held-out and 221 training tasks, which SFT learns from.
    const { attempts } = githubInput().recipe.expert;
    expect(stageOf(githubInput(), "evaluation").why[0]).toBe(
      `The expert's endpoint is not counted: ${number(267 * attempts)} attempts of moonshotai/Kimi-K3 (267 tasks × ${attempts}), wherever it runs.`,
    );
    // Evaluating other tasks than the held-out ones, 24 instead of 46, asks as many fewer of the expert.
    expect(stageOf(githubInput({ evaluatedTasks: 24 }), "evaluation").why[0]).toContain("(245 tasks × ");
  });

  it("counts a whole node for the export of each reported checkpoint and of SFT's last, each once", () => {
    const exportOf = (report: Recipe["report"]) => {
      const input = githubInput();
      return estimateCost({ ...input, recipe: { ...input.recipe, report } }).cost.stages.find(
        ({ stage }) => stage === "export",
      );
    };
    // 240 s and 180 s to start, 4 readings of 55.56 GB at 1 GB/s, written at 1 GB/s.
    const one = exportSeconds(githubInput().model, 1, EXPECTED);
    expect(one).toBeCloseTo(240 + 180 + 5 * 55.56, 9);
    const rl = (step: number) => ({ stage: "rl" as const, step });
    const both = exportOf([{ stage: "sft", step: 20 }, rl(40)]);
    expect(both).toMatchObject({ nodes: 1, gpus: 8, stepSeconds: { expected: 697.8 } });
    expect(both?.gpuHours.expected).toBe(3.12);
    expect(both?.dollars.expected).toBeCloseTo(0.39 * 63.3, 2);
    expect(both?.why[0]).toBe(
      "2 checkpoints become full models, each in a job that has a whole node to itself: 4 min for its container, 3 min for the converter, 4 readings of 55.6 GB at 1.0 GB/s, written at 1.0 GB/s = 11.6 min each.",
    );
    // SFT's last checkpoint is exported though only RL is reported; a step that is reported twice is one.
    expect(exportOf([rl(40)])?.hours).toEqual(both?.hours);
    expect(exportOf([rl(40), rl(40)])?.hours).toEqual(both?.hours);
    expect(exportOf([rl(10), rl(20), rl(40)])?.hours.expected).toBeCloseTo((4 * one) / 3600, 2);
  });

  it("counts the attempts of a task choice by the SFT model's own pass rates", () => {
    const withProbe = unreal256kInput();
    const { rl } = withProbe.recipe;
    const tasks = { ...rl.tasks, passRateBand: { ...rl.tasks.passRateBand, of: "expert" } };
    const without = { ...withProbe, recipe: { ...withProbe.recipe, rl: { ...rl, tasks } } };
    expect(stageOf(withProbe, "evaluation").why.join("\n")).toContain("720 attempts at training tasks");
    expect(stageOf(without, "evaluation").why.join("\n")).not.toContain("attempts at training tasks");
    expect(stageOf(withProbe, "evaluation").hours.expected).toBeGreaterThan(
      stageOf(without, "evaluation").hours.expected,
    );
  });

  it("is the same bytes whatever the order of the layouts and of the input's keys", () => {
    const input = githubInput();
    const turned = Object.fromEntries(Object.entries(input).reverse()) as unknown as CostInput;
    const again = estimateCost({ ...turned, layouts: [...input.layouts].reverse() });
    expect(canonicalJson(again)).toBe(canonicalJson(estimateCost(input)));
  });
});

describe("an estimate", () => {
  it("has low ≤ expected ≤ high, GPU-hours and dollars that follow from hours, and totals that are sums", () => {
    fc.assert(
      fc.property(sizes, (size) => {
        const { cost } = estimateCost(inputOf(size));
        expect(Cost.parse(cost)).toEqual(cost);
        for (const { nodes, gpus, ...stage } of cost.stages) {
          for (const range of [stage.stepSeconds, stage.hours, stage.gpuHours, stage.dollars]) {
            expect(range.low).toBeGreaterThan(0);
            expect(range.low).toBeLessThanOrEqual(range.expected);
            expect(range.expected).toBeLessThanOrEqual(range.high);
          }
          for (const bound of ["low", "expected", "high"] as const) {
            expect(stage.gpuHours[bound]).toBeCloseTo(stage.hours[bound] * gpus, 2);
            expect(stage.dollars[bound]).toBeCloseTo(
              (stage.gpuHours[bound] / gpus) * nodes * cost.price.dollarsPerNodeHour,
              1,
            );
          }
        }
        for (const bound of ["low", "expected", "high"] as const)
          expect(cost.dollars[bound]).toBeCloseTo(
            cost.stages.reduce((sum, { dollars }) => sum + dollars[bound], 0),
            1,
          );
      }),
      { numRuns: 60 },
    );
  });

  const grows = (name: string, smaller: (size: Sizes) => CostInput, larger: (size: Sizes) => CostInput) =>
    it(name, () => {
      fc.assert(
        fc.property(sizes, (size) => {
          const a = estimateCost(smaller(size)).cost.hours;
          const b = estimateCost(larger(size)).cost.hours;
          expect(a.expected).toBeLessThanOrEqual(b.expected + 0.02);
          expect(a.high).toBeLessThanOrEqual(b.high + 0.02);
        }),
        { numRuns: 80 },
      );
    });

  grows(
    "is never slower with twice the nodes",
    (size) => inputOf({ ...size, nodes: size.nodes * 2 }),
    (size) => inputOf(size),
  );
  grows(
    "never takes less time with a longer context",
    // The same memory for caches holds half as many sequences of twice the length.
    (size) => inputOf({ ...size, concurrent: 2 * size.concurrent }),
    (size) => inputOf({ ...size, contextPower: size.contextPower + 1 }),
  );
  grows(
    "takes more time for more steps",
    (size) => inputOf(size),
    (size) => inputOf({ ...size, steps: size.steps + 1 }),
  );
  grows(
    "takes more time for more rollouts",
    (size) => inputOf(size),
    (size) => inputOf({ ...size, rollouts: size.rollouts + 1 }),
  );
  grows(
    "takes more time for more turns",
    (size) => inputOf(size),
    (size) => inputOf({ ...size, turns: size.turns + 10 }),
  );
  grows(
    "takes more time to train all weights than adapters",
    (size) => inputOf({ ...size, lora: true }),
    (size) => inputOf({ ...size, lora: false }),
  );
  grows(
    "takes more time on a slower GPU",
    (size) => inputOf({ ...size, instance: INSTANCES["p6-b200.48xlarge"] }),
    (size) => inputOf({ ...size, instance: INSTANCES["p5.48xlarge"] }),
  );

  it("gets no longer from the fast value of an assumption, and no shorter from the slow one", () => {
    // Where a turn limit caps what is written, a larger share of it leaves less to read: a fraction of a percent.
    const certain = NAMES.filter((name) => name !== "generatedShare");
    fc.assert(
      fc.property(sizes, fc.constantFrom(...certain), (size, name) => {
        const input = inputOf(size);
        const { rl } = input.recipe;
        const limits = { contextTokens: input.contextTokens, maxTurns: rl.maxTurns, maxTokensPerTurn: 4096 };
        const at = (value: number) => {
          const values = { ...EXPECTED, [name]: value };
          const mean = meanAttempt(limits, size.known ? 47_000 : null, values);
          const batch = {
            attempts: rl.promptsPerStep * rl.rolloutsPerPrompt,
            atOnce: null,
            mean,
            slowest: slowestAttempt(limits, mean, values),
          };
          const work = { contextTokens: input.contextTokens, batch, training: { lora: size.lora, recompute: true } };
          return rlStep(
            input.model,
            peaksOf(input.instance),
            rlLayout(size.nodes, size.contextParallel, size.concurrent),
            { ...work, referencePass: size.kl, async: false },
            values,
          ).seconds;
        };
        const { fast, expected, slow } = ASSUMPTIONS[name];
        expect(at(fast)).toBeLessThanOrEqual(at(expected) * 1.0000001);
        expect(at(expected)).toBeLessThanOrEqual(at(slow) * 1.0000001);
      }),
      { numRuns: 300 },
    );
  });
});

describe("the time limit of a stage's jobs", () => {
  it("is the high estimate rounded up to an hour where one job does, else the partition's limit, and says so", () => {
    const one = estimateCost(githubInput({ maxWalltimeSeconds: 72 * 3600 }));
    const rl = one.cost.stages[1];
    expect(one.walltimeSeconds.rl).toBe(Math.ceil((rl?.hours.high ?? 0) - 1e-9) * 3600);
    expect(rl?.why.join("\n")).toContain("One job, with a limit of");
    const several = estimateCost(githubInput({ maxWalltimeSeconds: 4 * 3600 }));
    expect(several.walltimeSeconds).toEqual({ sft: 3600, rl: 4 * 3600 });
    expect(several.cost.stages[1]?.why.join("\n")).toMatch(/A job may last 4 h: the stage takes \d+ jobs one after/);
    expect(several.cost.stages[1]?.hours.expected).toBeGreaterThan(rl?.hours.expected ?? 0);
  });

  it("that ends before a first step is saved is refused", () => {
    const { issues } = estimateCost(githubInput({ maxWalltimeSeconds: 3600 }));
    expect(issues.map(({ code }) => code)).toEqual(["walltime-too-short"]);
    expect(issues[0]).toMatchObject({ path: "target.slurm.maxWalltimeHours", asked: "jobs of at most 60 min" });
    expect(issues[0]?.found).toMatch(/take about [\d.]+ min in rl: no job/);
    // Both stages: still one mistake, with the longer of the two.
    const both = estimateCost(githubInput({ maxWalltimeSeconds: 1800 })).issues;
    expect(both.map(({ found }) => found.replaceAll(/[\d.]+ (min|h)/g, "…"))).toEqual([
      "start, one step, its save and the time kept to end take about … in sft, … in rl: no job would get anywhere",
    ]);
    expect(both[0]?.allowed).toBe(issues[0]?.allowed);
    const hours = Number(/at least (\d+) hours/.exec(issues[0]?.allowed ?? "")?.[1]);
    expect(estimateCost(githubInput({ maxWalltimeSeconds: hours * 3600 })).issues).toEqual([]);
  });
});

describe("a stage without a layout", () => {
  it("is left out with a warning", () => {
    const { cost, warnings } = estimateCost(githubInput({ layouts: stageLayouts([rlLayout(4, 4, 25)]) }));
    expect(cost.stages.map(({ stage }) => stage)).toEqual(["rl", "export"]);
    expect(warnings.map(({ code, path }) => `${code} ${path}`)).toEqual([
      "stage-not-estimated sft",
      "stage-not-estimated evaluation",
    ]);
  });
});
