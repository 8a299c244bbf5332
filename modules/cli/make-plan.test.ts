import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { canonicalJson, digestJson } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { Plan } from "../../schemas/plan.ts";
import { Recipe } from "../../schemas/recipe.ts";
import { AwsTarget, type Target } from "../../schemas/target.ts";
import { compilePlan, renderPlan } from "../plan/index.ts";
import { gatherFacts, makePlan } from "./make-plan.ts";
import { loadTarget, PROJECT_DIR } from "./project.ts";
import { loadRecipe } from "./recipe-file.ts";

const CASE = ["github-sft-rl", "github-rl", "unreal-sft-rl", "unreal-rl", "unreal-256k-sft-rl", "unreal-256k-rl"];
const CLUSTERS = ["kubernetes", "aws-p5", "aws-p5en", "aws-p6-b200"];
const recipeFile = (name: string) => join(PROJECT_DIR, "recipes", `${name}.ts`);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-plan-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A shipped recipe with changes, as YAML in a folder of its own. */
async function yamlOf(name: string, changes: Record<string, unknown> = {}): Promise<string> {
  const { recipe } = await loadRecipe(recipeFile(name));
  const index = join(PROJECT_DIR, "recipes/task-sets");
  const written = JSON.parse(
    JSON.stringify({ ...(recipe as object), ...changes }).replaceAll("task-sets/", `${index}/`),
  );
  const file = join(folder, `${name}.yaml`);
  await writeFile(file, stringify(written));
  return file;
}

async function mistakes(make: Promise<unknown>): Promise<readonly { code: string; path: string }[]> {
  const error = await make.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof UserError) return error.issues;
  throw error ?? new Error("it was planned");
}

describe("the reference case", () => {
  it.each(CASE.flatMap((name) => CLUSTERS.map((target) => [name, target] as const)))(
    "plans %s on %s: layouts that fit, configurations without a mistake, a price",
    async (name, target) => {
      const { plan } = await makePlan(recipeFile(name), await loadTarget(target));
      const { digest, ...body } = Plan.parse(JSON.parse(canonicalJson(plan)));
      expect(digestJson(body)).toBe(digest);
      const stages = plan.recipe.kind === "sft-rl" ? ["sft", "rl", "serving"] : ["rl", "serving"];
      expect(plan.layouts.map(({ stage }) => stage)).toEqual(stages);
      for (const { fit } of plan.layouts) expect(fit.totalGib).toBeLessThanOrEqual(fit.limitGib);
      const { cost } = plan.estimate;
      expect(cost?.hours.low).toBeGreaterThan(0);
      expect(cost?.hours.high).toBeGreaterThan(cost?.hours.expected ?? Number.POSITIVE_INFINITY);
      expect(plan.warnings.map(({ code }) => code)).toContain("stand-in-tasks");
    },
  );

  it("has the published counts: 46 and 54 held-out tasks, 175, 139 and 53 for RL", async () => {
    const target = await loadTarget("aws-p5en");
    const counts: Record<string, [number, number | null]> = {};
    for (const name of CASE.filter((one) => !one.includes("256k"))) {
      const { taskSet } = (await makePlan(recipeFile(name), target)).plan;
      counts[name] = [taskSet.heldOut, taskSet.rlTasks];
    }
    expect(counts).toEqual({
      "github-sft-rl": [46, 175],
      "github-rl": [46, 139],
      "unreal-sft-rl": [54, 53],
      "unreal-rl": [54, 53],
    });
  });

  it("takes in with 256k what 128k leaves out, and loses nothing", async () => {
    const target = await loadTarget("aws-p5en");
    const [short, long] = [
      (await makePlan(recipeFile("unreal-rl"), target)).plan.taskSet,
      (await makePlan(recipeFile("unreal-256k-rl"), target)).plan.taskSet,
    ];
    expect(short.digest).toBe(long.digest);
    const left = new Set(short.tooLong.map(({ id }) => id));
    expect(long.tooLong.length).toBeGreaterThan(0);
    for (const { id, shortestSolutionTokens } of long.tooLong) {
      expect(left.has(id)).toBe(true);
      expect(shortestSolutionTokens).toBeGreaterThan(262_144);
    }
    expect(long.train).toBeGreaterThan(short.train);
    expect(long.heldOut).toBeGreaterThan(short.heldOut);
  });
});

describe("a cluster's plan", () => {
  it("warns of each image by tag, and of an expert that is a model, which no run can use yet", async () => {
    const warned = async (name: string, target: string) =>
      (await makePlan(recipeFile(name), await loadTarget(target))).plan.warnings.map(
        ({ code, path }) => `${code} ${path}`,
      );
    const smoke = await warned("cluster-smoke", "kubernetes");
    expect(smoke.filter((one) => one.startsWith("image"))).toEqual([
      "image-not-pinned target.images.automodel",
      "image-not-pinned target.images.nemoRl",
      "image-not-pinned target.images.vllm",
    ]);
    expect(smoke).not.toContain("expert-model-not-run expert");
    expect(await warned("github-rl", "aws-p5en")).toContain("expert-model-not-run expert");
  });

  it("names the field of the target as the source of a price that it gives, without a table's date", async () => {
    const plan = async (target: string) =>
      renderPlan((await makePlan(recipeFile("cluster-smoke"), await loadTarget(target))).plan);
    expect(await plan("kubernetes")).toContain("(the target: target.pricing.dollarsPerNodeHour)\n");
    expect(await plan("aws-p5en")).toMatch(/[ ]2026-07-20\)\n/);
  });

  /** The same value with every mapping's keys in another order. */
  function shuffled(value: unknown, order: (keys: string[]) => string[]): unknown {
    if (Array.isArray(value)) return value.map((item) => shuffled(item, order));
    if (typeof value !== "object" || value === null) return value;
    const members = value as Record<string, unknown>;
    return Object.fromEntries(order(Object.keys(members)).map((key) => [key, shuffled(members[key], order)]));
  }

  it("is the same, byte for byte, whatever the order of keys in recipe and target", async () => {
    const target = await loadTarget("aws-p5en");
    const { inputs } = await gatherFacts(recipeFile("github-sft-rl"), target);
    const expected = canonicalJson(compilePlan(inputs));
    fc.assert(
      fc.property(fc.infiniteStream(fc.nat()), (numbers) => {
        const order = (keys: string[]) =>
          keys
            .map((key) => [numbers.next().value as number, key] as const)
            .sort(([a], [b]) => a - b)
            .map(([, key]) => key);
        const again = { ...inputs, recipe: Recipe.parse(shuffled(inputs.recipe, order)) };
        expect(canonicalJson(compilePlan({ ...again, target: shuffled(target, order) as Target }))).toBe(expected);
      }),
      { numRuns: 20 },
    );
  });

  it("never asks for more than the target has: nodes, memory of a GPU, whole nodes, sequences of full length", async () => {
    const target = await loadTarget("aws-p5");
    const { inputs } = await gatherFacts(recipeFile("unreal-256k-sft-rl"), target);
    const clusters = await Promise.all(CLUSTERS.map(loadTarget));
    fc.assert(
      fc.property(
        fc.constantFrom(...clusters),
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 1, max: 8 }),
        fc.constantFrom("colocated", "dedicated"),
        fc.boolean(),
        (cluster, maxNodes, nodes, placement, adapters) => {
          const rl = { ...inputs.recipe.rl, parallelism: { nodes }, rollouts: { placement } };
          const recipe = Recipe.parse({ ...inputs.recipe, rl: adapters ? rl : { ...rl, lora: undefined } });
          const within = { ...cluster, maxNodes } as Target;
          try {
            for (const { layout, fit } of compilePlan({ ...inputs, recipe, target: within }).layouts) {
              expect(layout.nodes).toBeLessThanOrEqual(maxNodes);
              expect(fit.totalGib).toBeLessThanOrEqual(fit.limitGib);
              if (layout.kind === "serving") expect(layout.engine.concurrentSequences).toBeGreaterThan(0);
              else {
                const { tensorParallel, contextParallel, pipelineParallel, dataParallel } = layout.train;
                const generating = layout.kind === "rl" ? layout.generationNodes : 0;
                const gpus = (layout.nodes - generating) * layout.gpusPerNode;
                expect(tensorParallel * contextParallel * pipelineParallel * dataParallel).toBe(gpus);
              }
            }
          } catch (error) {
            // Refused is right as well, if it is for a reason that has a remedy.
            if (!(error instanceof UserError)) throw error;
            for (const { todo } of error.issues) expect(todo).not.toBe("");
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("a recipe in YAML", () => {
  it.each(["quickstart-sft-rl", "quickstart-rl"])("plans to the same bytes as %s in TypeScript", async (name) => {
    const target = await loadTarget("local");
    const [ts, yaml] = [await makePlan(recipeFile(name), target), await makePlan(await yamlOf(name), target)];
    expect(canonicalJson(yaml.plan)).toBe(canonicalJson(ts.plan));
  });

  it("plans to the same bytes on a cluster, but for the path of its index", async () => {
    const target = await loadTarget("aws-p6-b200");
    const { recipe } = await loadRecipe(recipeFile("unreal-256k-sft-rl"));
    const beside = join(PROJECT_DIR, "recipes", "unreal-256k-sft-rl.test.yaml");
    await writeFile(beside, stringify({ ...(recipe as object), name: "unreal-256k-sft-rl" }));
    try {
      const ts = await makePlan(recipeFile("unreal-256k-sft-rl"), target);
      const yaml = await makePlan(beside, target);
      expect(yaml.plan.name).toBe(ts.plan.name);
      // A name that is written is part of the recipe; nothing else differs.
      expect(canonicalJson({ ...yaml.plan, digest: "", recipe: { ...yaml.plan.recipe, name: undefined } })).toBe(
        canonicalJson({ ...ts.plan, digest: "" }),
      );
    } finally {
      await rm(beside);
    }
  });

  it("has every mistake with its line and column, those of meaning too", async () => {
    const file = await yamlOf("quickstart-rl", { report: [{ stage: "rl", step: 7 }] });
    const lines = (await readFile(file, "utf8")).split("\n");
    const found = await mistakes(makePlan(file, await loadTarget("local")));
    expect(found.map(({ code }) => code)).toEqual(["report-step-not-saved"]);
    const line = lines.findIndex((text) => text.includes("- stage: rl")) + 1;
    expect(found[0]?.path).toContain(`${file}:${line}:`);
  });
});

it("mistakes of form and of meaning in a YAML recipe come together", async () => {
  const { recipe } = await loadRecipe(recipeFile("quickstart-rl"));
  const { rl } = recipe as { rl: object };
  const file = await yamlOf("quickstart-rl", { report: [{ stage: "rl", step: 7 }], rl: { ...rl, learningrate: 1 } });
  const found = await mistakes(makePlan(file, await loadTarget("local")));
  expect(found.map(({ code }) => code).sort()).toEqual(["recipe-unknown-field", "report-step-not-saved"]);
  for (const { path } of found) expect(path).toMatch(/\.yaml:\d+:\d+: /);
});

describe("a plan is refused", () => {
  async function refused(changes: object, recipe: Record<string, unknown> = {}, name = "github-sft-rl") {
    const target = AwsTarget.parse({ ...(await loadTarget("aws-p5en")), ...changes });
    return (await mistakes(makePlan(await yamlOf(name, recipe), target))).map(({ code }) => code);
  }
  const rlOf = async (changes: object) => {
    const { recipe } = await loadRecipe(recipeFile("github-sft-rl"));
    return { rl: { ...(recipe as { rl: object }).rl, ...changes } };
  };

  it("when a stage does not fit, naming the term that binds and the nearest change that fits", async () => {
    const full = await rlOf({ lora: undefined, parallelism: { nodes: 1 } });
    const found = await mistakes(
      makePlan(await yamlOf("github-sft-rl", full), AwsTarget.parse({ ...(await loadTarget("aws-p5")), maxNodes: 1 })),
    );
    const misfit = found.find(({ code, path }) => code === "does-not-fit" && path.includes("rl"));
    expect(misfit).toMatchObject({ found: expect.stringContaining("GiB"), allowed: expect.stringContaining("GiB") });
    expect((misfit as unknown as { todo: string }).todo).not.toMatch(/^neither/);
  });

  it("when it would outlive its capacity block", async () => {
    const block = {
      kind: "capacity-block",
      id: "cr-1",
      startsAt: "2026-12-01T00:00:00Z",
      endsAt: "2026-12-02T00:00:00Z",
    };
    expect(await refused({ pricing: block })).toContain("capacity-block-too-short");
  });

  it("when an override is no key of the trainer's, or a combination it refuses", async () => {
    expect(await refused({}, await rlOf({ overrides: { grpo: { num_promts_per_step: 3 } } }))).toEqual([
      "nemo-rl-unknown-key",
    ]);
    const { recipe } = await loadRecipe(recipeFile("github-sft-rl"));
    const { sft } = recipe as { sft: object };
    const overrides = { step_scheduler: { ckpt_every_step: 3 } };
    expect(await refused({}, { sft: { ...sft, overrides } })).toEqual(["am-unknown-keys"]);
  });

  it("when the tasks are others than the recipe's digest says", async () => {
    const { recipe } = await loadRecipe(recipeFile("github-sft-rl"));
    const { tasks } = recipe as { tasks: object };
    expect(await refused({}, { tasks: { ...tasks, digest: digestJson("others") } })).toEqual([
      "dataset-digest-mismatch",
    ]);
  });

  it("when the context is longer than the model's own, or a rope block stretches what need not be", async () => {
    expect(await refused({}, { context: 300_000 })).toEqual(["context-beyond-model"]);
    const rope = { type: "yarn", factor: 2, originalMaxTokens: 131_072 };
    expect(await refused({}, { rope })).toEqual(["rope-not-needed"]);
  });
});
