import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, digestJson } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { Plan } from "../../schemas/plan.ts";
import type { RecipeInput, Report } from "../../schemas/recipe.ts";
import { rlOnly, sftThenRl } from "../../schemas/recipe-builders.ts";
import { type ClusterTrainer, compilePlan, parseRecipe, renderPlan } from "./index.ts";

/** Widened, so that the type checker leaves mistakes to the plan. */
function reports(...all: Report[]): Report[] {
  return all;
}
function generated(count: number) {
  return { kind: "generated" as const, family: "repo-chores", seed: 1, count, split: { heldOut: 8, validation: 4 } };
}
const rl = {
  ...{ steps: 8, promptsPerStep: 4, rolloutsPerPrompt: 4, learningRate: 1e-3, lora: { rank: 4 } },
  ...{ maxTurns: 6, maxTokensPerTurn: 48, saveEverySteps: 4 },
};
const written = {
  model: "tiny",
  context: 1024,
  tasks: generated(40),
  sft: { steps: 10, batchSize: 4, learningRate: 1e-3, lora: { rank: 4 }, saveEverySteps: 5 },
  rl,
  report: reports({ stage: "sft", step: 10 }, { stage: "rl", step: 8 }),
  evaluation: {
    ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 6, maxTokensPerTurn: 48, seed: 0 },
    failureRule: { retries: 3, exhausted: "counts-as-failure" as const },
  },
};
const { sft: _sft, ...withoutSft } = written;

function plan(
  recipe: object,
  changes: { harness?: string; split?: "held-out" | "validation"; rlTasks?: number } = {},
): Plan {
  return compilePlan({
    recipe: parseRecipe(recipe, (path) => `recipes/r.ts: ${path}`),
    locate: (path) => `recipes/r.ts: ${path}`,
    defaultName: "r",
    target: { ...{ kind: "local", name: "local", home: ".uplift", slots: 2, threads: 1 }, ...ports },
    taskSet: {
      ...{ digest: digestJson("tasks"), familyDigest: digestJson("family"), standIn: false },
      ...{ tasks: 40, groups: 30, train: 28, validation: 4, heldOut: 8 },
      ...{ heldOutUnsolved: null, rlTasks: changes.rlTasks ?? null, tooLong: [], solutionTokens: null },
    },
    ...{ model: null, nativeContextTokens: 2048 },
    baseModel: { name: "tiny", revision: null, digest: digestJson("base"), bytes: 3 },
    harness: changes.harness ?? "1",
    expert: "1",
    split: changes.split ?? "held-out",
    trainers: {
      local: { renderConfig: (_recipe, stage) => ({ stage }), check: () => [] },
      ...{ sft: noClusterTrainer("automodel"), rl: noClusterTrainer("nemo-rl") },
    },
  });
}
function noClusterTrainer(name: "automodel" | "nemo-rl"): ClusterTrainer {
  const never = () => {
    throw new Error(`a local plan asked ${name}`);
  };
  return { name, renderConfig: never, launch: never, check: never };
}
const ports = { controllerPort: 7600, environmentsPort: 7601, server: "vllm", endpointHours: 2 } as const;

function codes(make: () => unknown): string[] {
  try {
    make();
  } catch (error) {
    if (error instanceof UserError) return error.issues.map(({ code }) => code);
    throw error;
  }
  return [];
}

/** The same value with every object's keys in another order. */
function shuffled(value: unknown, order: (keys: string[]) => string[]): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, order));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    order(Object.keys(value)).map((key) => [key, shuffled((value as Record<string, unknown>)[key], order)]),
  );
}

describe("a plan", () => {
  it("is the same, byte for byte, whatever the order of a recipe's keys", () => {
    const expected = canonicalJson(plan(sftThenRl(written)));
    fc.assert(
      fc.property(fc.infiniteStream(fc.nat()), (numbers) => {
        const order = (keys: string[]) =>
          keys
            .map((key) => [numbers.next().value as number, key] as const)
            .sort(([a], [b]) => a - b)
            .map(([, key]) => key);
        expect(canonicalJson(plan(shuffled(sftThenRl(written), order) as RecipeInput))).toBe(expected);
      }),
      { numRuns: 50 },
    );
  });

  it("is its own digest's content and survives a round trip through JSON", () => {
    const made = plan(sftThenRl(written));
    const { digest, ...body } = Plan.parse(JSON.parse(canonicalJson(made)));
    expect(digestJson(body)).toBe(digest);
  });

  it("trains SFT from the base, RL from the last SFT checkpoint, and evaluates the base and what is reported", () => {
    const jobs = plan(sftThenRl(written)).jobs;
    expect(jobs.map(({ id }) => id)).toEqual([
      ...["base", "collect", "select", "sft", "sft-10", "rl", "rl-8"],
      ...["evaluate-base", "publish-base", "evaluate-sft-10", "publish-sft-10", "evaluate-rl-8", "publish-rl-8"],
    ]);
    expect(jobs.find(({ id }) => id === "rl")).toMatchObject({ startFrom: "sft-10", needs: ["sft-10", "select"] });
  });

  it("has no SFT job for RL alone, which starts from the base", () => {
    const jobs = plan(rlOnly({ ...withoutSft, report: reports({ stage: "rl", step: 8 }) })).jobs;
    expect(jobs.filter(({ kind }) => kind === "train").map(({ id }) => id)).toEqual(["rl"]);
    expect(jobs.find(({ id }) => id === "rl")).toMatchObject({ startFrom: "base" });
  });

  it("evaluates validation tasks and publishes nothing while settings are tuned", () => {
    const made = plan(sftThenRl(written), { split: "validation" });
    expect(made.jobs.filter(({ kind }) => kind === "publish")).toEqual([]);
    expect(made.jobs.find(({ kind }) => kind === "collect")).toMatchObject({ splits: ["train", "validation"] });
    expect(made.measurementKey).not.toBe(plan(sftThenRl(written)).measurementKey);
    expect(made.estimate.attempts.evaluation).toBe(3 * 4 * 8);
  });

  it("only needs jobs that come before it", () => {
    const jobs = plan(sftThenRl(written)).jobs;
    jobs.forEach((job, index) => {
      const before = jobs.slice(0, index).map(({ id }) => id);
      expect(before).toEqual(expect.arrayContaining([...job.needs]));
    });
  });

  it("keeps its comparability key when training changes, and loses it when measuring does", () => {
    const key = plan(sftThenRl(written)).measurementKey;
    expect(plan(sftThenRl({ ...written, rl: { ...rl, learningRate: 2e-3 } })).measurementKey).toBe(key);
    expect(plan(rlOnly({ ...withoutSft, report: reports({ stage: "rl", step: 8 }) })).measurementKey).toBe(key);
    const others = [
      plan(sftThenRl({ ...written, evaluation: { ...written.evaluation, temperature: 0.5 } })),
      plan(sftThenRl({ ...written, context: 2048 })),
      plan(sftThenRl({ ...written, server: "light" })),
      plan(sftThenRl({ ...written, expert: { kind: "scripted", attempts: 4 } })),
      plan(sftThenRl(written), { harness: "2" }),
    ];
    for (const other of others) expect(other.measurementKey).not.toBe(key);
  });

  it("counts what it will attempt", () => {
    expect(plan(sftThenRl(written)).estimate.attempts).toEqual({
      expert: (28 + 8) * 8,
      probe: 0,
      rollouts: 8 * 4 * 4,
      evaluation: 3 * 8 * 8,
    });
  });

  it("can be read as a page that names every job and the key", () => {
    const made = plan(sftThenRl(written));
    const page = renderPlan(made);
    for (const { id } of made.jobs) expect(page).toContain(id);
    expect(page).toContain("28 train, 4 validation, 8 held out");
    expect(Math.max(...page.split("\n").map((line) => line.length))).toBeLessThan(130);
  });
});

describe("a recipe's mistakes", () => {
  it("are all reported at once, each with the field's path", () => {
    const wrong = sftThenRl({
      ...written,
      tasks: generated(10),
      rl: { ...rl, tasks: { passRateBand: { min: 0.9, max: 0.1 } }, maxTokensPerTurn: 4096 },
      report: reports({ stage: "rl", step: 5 }),
    });
    expect(codes(() => plan(wrong)).sort()).toEqual([
      "context-too-short",
      "pass-rate-band-empty",
      "report-step-not-saved",
      "split-impossible",
    ]);
  });

  it("name an unknown field and where it stands", () => {
    const recipe = { ...sftThenRl(written), rl: { ...rl, learningrate: 1 } };
    expect(() => plan(recipe)).toThrow(/recipes\/r\.ts: rl: the field "learningrate" is set/);
    expect(codes(() => plan(recipe))).toEqual(["recipe-unknown-field"]);
  });

  it("say what is allowed, from the rule that was broken", () => {
    const allowedOf = (changes: object) => {
      try {
        plan({ ...sftThenRl(written), ...changes });
      } catch (error) {
        if (error instanceof UserError) return error.issues.map(({ allowed }) => allowed);
      }
      return [];
    };
    expect(allowedOf({ rl: { ...rl, steps: 0 } })).toEqual(["more than 0"]);
    expect(allowedOf({ context: "64k" })).toEqual(['"128k" or "256k", or a value of type number']);
    expect(allowedOf({ server: "sglang" })).toEqual(['"vllm" or "light"']);
    expect(allowedOf({ tasks: { kind: "found" } })).toEqual(['"generated" or "dataset"']);
    expect(allowedOf({ kind: "dpo" })).toEqual(['kind "sft-rl" (sftThenRl) or "rl" (rlOnly)']);
  });

  it("are reported with those of meaning in the fields whose form is right", () => {
    const wrong = {
      ...sftThenRl(written),
      evaluation: { ...written.evaluation, topP: 3 },
      sft: { ...written.sft, learningrate: 1, data: { maxTrajectories: 2 } },
      report: [
        { stage: "rl", step: 5 },
        { stage: "rl", step: 8 },
        { stage: "rl", step: 8 },
        { stage: "rl", step: "9" },
      ],
    };
    const found = codes(() => plan(wrong)).sort();
    expect(found).toEqual([
      ...["recipe-invalid", "recipe-invalid", "recipe-unknown-field"],
      ...["report-step-not-saved", "report-twice", "sft-batch-too-large"],
    ]);
  });

  it("include numbers that no trainer could use", () => {
    const invalid = [
      ...[{ seed: -5 }, { seed: 2 ** 40 }, { rl: { ...rl, clip: { low: 2, high: 0.2 } } }],
      ...[
        { rl: { ...rl, learningRate: 100 } },
        { rl: { ...rl, temperature: 50 } },
        { rl: { ...rl, lora: { rank: 0 } } },
      ],
    ];
    for (const change of invalid)
      expect(codes(() => plan({ ...sftThenRl(written), ...change }))).toEqual(["recipe-invalid"]);
    const warmup = { ...sftThenRl(written), rl: { ...rl, warmupSteps: 8 } };
    expect(codes(() => plan(warmup))).toEqual(["warmup-too-long"]);
  });

  it("include fewer RL tasks than one step takes, which would train nothing", () => {
    expect(codes(() => plan(sftThenRl(written), { rlTasks: 3 }))).toEqual(["too-few-rl-tasks"]);
    expect(codes(() => plan(sftThenRl(written), { rlTasks: 4 }))).toEqual([]);
  });

  it("include SFT settings in a recipe that trains by RL alone", () => {
    expect(codes(() => plan({ ...rlOnly(withoutSft), sft: written.sft }))).toEqual([
      "recipe-unknown-field",
      "report-stage-missing",
    ]);
  });

  it("include a reported SFT checkpoint in a recipe that trains by RL alone", () => {
    expect(codes(() => plan(rlOnly(withoutSft)))).toEqual(["report-stage-missing"]);
  });

  it("include a reported step beyond the last one, and accept the last one though it is no multiple", () => {
    expect(codes(() => plan(sftThenRl({ ...written, report: reports({ stage: "rl", step: 12 }) })))).toEqual([
      "report-step-not-saved",
    ]);
    expect(
      plan(sftThenRl({ ...written, rl: { ...rl, steps: 7 }, report: reports({ stage: "rl", step: 7 }) })).name,
    ).toBe("r");
  });
});
