/**
 * Bench: how fast recipes are planned, how that grows with the number of tasks, and how it compares, in the same run,
 * with composing and validating as many NeMo-RL YAML files by OmegaConf in Python.
 *
 *   npx tsx bench/plan/run.ts --python $(tools/python-env.sh bench/plan) [--recipes 1000] [--json]
 *
 * Reads recipes/; writes a temporary folder and removes it. PATH: a Python with bench/plan/requirements.lock; without
 * it the comparison is left out and said so.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { stringify } from "yaml";
import { datasetUse, gatherFacts } from "../../modules/cli/make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../../modules/cli/project.ts";
import { compilePlan, type PlanInputs } from "../../modules/plan/index.ts";
import { summariseDataset } from "../../modules/tasks/index.ts";
import type { DatasetIndex } from "../../schemas/dataset.ts";
import type { Recipe } from "../../schemas/recipe.ts";

const SHIPPED = ["github-sft-rl", "github-rl", "unreal-sft-rl", "unreal-rl", "unreal-256k-sft-rl", "unreal-256k-rl"];
const TARGETS = ["aws-p5", "aws-p5en", "aws-p6-b200"];
const TASK_COUNTS = [100, 1000, 10_000, 100_000];

const { values } = parseArgs({
  options: {
    recipes: { type: "string", default: "1000" },
    python: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const count = Number(values.recipes);

/** The n-th different recipe: another seed, learning rate and number of prompts of a shipped one. */
function variant(recipe: Recipe, n: number): Recipe {
  const rl = { ...recipe.rl, learningRate: recipe.rl.learningRate * (1 + n / 1000), promptsPerStep: 16 + 8 * (n % 3) };
  return { ...recipe, name: `variant-${n}`, seed: n, rl };
}

const seconds = (since: number) => (performance.now() - since) / 1000;

async function planMany(): Promise<{ seconds: number; peakMib: number; configs: Record<string, unknown>[] }> {
  const targets = await Promise.all(TARGETS.map(loadTarget));
  const facts: PlanInputs[] = [];
  for (const name of SHIPPED)
    for (const target of targets)
      facts.push((await gatherFacts(join(PROJECT_DIR, "recipes", `${name}.ts`), target)).inputs);
  const digests = new Set<string>();
  const configs: Record<string, unknown>[] = [];
  let peak = 0;
  const started = performance.now();
  for (let n = 0; n < count; n += 1) {
    const fact = facts[n % facts.length] as PlanInputs;
    const plan = compilePlan({ ...fact, recipe: variant(fact.recipe, n) });
    digests.add(plan.digest);
    const rl = plan.jobs.find((job) => job.kind === "train" && job.stage === "rl");
    if (rl?.kind === "train") configs.push(rl.config);
    if (n % 50 === 0) peak = Math.max(peak, process.memoryUsage.rss());
  }
  const took = seconds(started);
  if (digests.size !== count) throw new Error(`${count} recipes gave ${digests.size} plans`);
  return { seconds: took, peakMib: peak / 2 ** 20, configs };
}

/** A made-up index with near copies, lengths and pass rates. */
function indexOf(tasks: number): DatasetIndex {
  return {
    ...{ schemaVersion: 1, family: "bench", description: "", standIn: true },
    tasks: Array.from({ length: tasks }, (_, n) => ({
      id: `task-${n}`,
      project: `project-${n % 7}`,
      difficulty: 1 + (n % 3),
      // One in ten is a near copy.
      group: `group-${n % 10 === 1 ? n - 1 : n}`,
      shortestSolutionTokens: 5000 + ((n * 7919) % 250_000),
      passRates: { "moonshotai/Kimi-K3": { passed: n % 9, attempts: 8 } },
    })),
  };
}

async function growth(): Promise<{ tasks: number; seconds: number }[]> {
  const { inputs } = await gatherFacts(join(PROJECT_DIR, "recipes/github-sft-rl.ts"), await loadTarget("aws-p5en"));
  if (inputs.recipe.tasks.kind !== "dataset") throw new TypeError("the reference case's tasks lie in an index");
  // A split that leaves enough of the smallest index to train on.
  const split = { heldOut: 10, validation: 6 };
  const recipe: Recipe = { ...inputs.recipe, tasks: { ...inputs.recipe.tasks, split } };
  return TASK_COUNTS.map((tasks) => {
    const index = indexOf(tasks);
    const started = performance.now();
    compilePlan({ ...inputs, recipe, taskSet: summariseDataset(index, datasetUse(recipe, index)) });
    return { tasks, seconds: seconds(started) };
  });
}

interface Composed {
  readonly files: number;
  readonly composeSeconds: number;
  readonly validateSeconds: number;
  readonly peakMib: number;
}

/** The same number of files by OmegaConf: a base file and each recipe's own keys over it, as NeMo-RL's users keep them. */
async function compose(python: string, configs: readonly Record<string, unknown>[]): Promise<Composed> {
  const folder = await mkdtemp(join(tmpdir(), "uplift-bench-"));
  try {
    await writeFile(join(folder, "base.yaml"), stringify(withoutInterpolation(configs[0])));
    await writeFile(
      join(folder, "schema.json"),
      await readFile(join(PROJECT_DIR, "modules/trainers/nemo-rl/v0.7.0.schema.json")),
    );
    for (const [n, config] of configs.entries()) {
      const { grpo, policy } = withoutInterpolation(config) as { grpo: object; policy: object };
      await writeFile(join(folder, `overrides-${String(n).padStart(5, "0")}.yaml`), stringify({ grpo, policy }));
    }
    const { stdout } = await execa(python, [join(PROJECT_DIR, "bench/plan/compose.py"), folder]);
    return JSON.parse(stdout);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** `${oc.env:RUN_DIR}` needs the node's environment; the bench has none. */
function withoutInterpolation(config: unknown): unknown {
  return JSON.parse(JSON.stringify(config).replaceAll(/\$\{[^}]*\}/g, "/run"));
}

const planned = await planMany();
const grown = await growth();
const composed = values.python ? await compose(values.python, planned.configs) : null;
const result = {
  recipes: count,
  planSeconds: planned.seconds,
  millisecondsAPlan: (planned.seconds / count) * 1000,
  peakMib: planned.peakMib,
  growth: grown,
  composed,
  timesFaster: composed && (composed.composeSeconds + composed.validateSeconds) / planned.seconds,
};
if (values.json) process.stdout.write(`${JSON.stringify(result)}\n`);
else {
  const lines = [
    `${count} recipes planned in ${result.planSeconds.toFixed(2)} s: ${result.millisecondsAPlan.toFixed(2)} ms a plan, ${planned.peakMib.toFixed(0)} MiB at most`,
    ...grown.map(({ tasks, seconds: took }) => `  a plan of ${tasks} tasks: ${(took * 1000).toFixed(1)} ms`),
    composed
      ? `OmegaConf: ${composed.files} files composed in ${composed.composeSeconds.toFixed(2)} s, validated in ${composed.validateSeconds.toFixed(2)} s, ${composed.peakMib.toFixed(0)} MiB; Uplift is ${result.timesFaster?.toFixed(1)} times as fast`
      : "OmegaConf: not compared; give --python a Python with bench/plan/requirements.lock",
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
}
