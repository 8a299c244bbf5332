/**
 * TRL on one machine: a recipe's stage → JSON configuration for `python -m uplift_trl`, and back from its output.
 * The Python is in trl/uplift_trl; the layout of its output folder is described in docs/training.md.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Issue } from "../../schemas/error.ts";
import { contextTokensOf, type Recipe } from "../../schemas/recipe.ts";
import type { Command, RolloutOutcome, StepMetrics, Trainer, TrainingInputs, TrainingProgress } from "./trainer.ts";

const MetricsLine = z.union([
  z.object({
    step: z.number().int(),
    steps: z.number().int(),
    loss: z.number().nullish(),
    reward: z.number().nullish(),
    attemptsLost: z.number().nullish(),
    seconds: z.number(),
  }),
  z.object({ phase: z.string() }),
]);

const OutcomeLine = z.object({
  step: z.number().int(),
  taskId: z.string(),
  outcome: z.enum(["passed", "failed", "infrastructure"]),
});

type Optimised = Pick<
  Recipe["rl"],
  "steps" | "learningRate" | "warmupSteps" | "schedule" | "weightDecay" | "maxGradNorm" | "lora" | "saveEverySteps"
>;

/** What both stages' configurations say in the same words; `lora` null trains all weights. */
function sharedConfig(recipe: Recipe, stage: Optimised): Record<string, unknown> {
  const { steps, learningRate, warmupSteps, schedule, weightDecay, maxGradNorm, lora, saveEverySteps } = stage;
  return {
    ...{ steps, learningRate, warmupSteps, schedule, weightDecay, maxGradNorm, saveEverySteps },
    lora: lora ? { rank: lora.rank, alpha: lora.alpha ?? 2 * lora.rank } : null,
    seed: recipe.seed,
  };
}

function renderConfig(recipe: Recipe, stage: "sft" | "rl"): Record<string, unknown> {
  const contextTokens = contextTokensOf(recipe.context);
  if (stage === "rl") {
    const { rl } = recipe;
    return {
      stage,
      ...sharedConfig(recipe, rl),
      promptsPerStep: rl.promptsPerStep,
      rolloutsPerPrompt: rl.rolloutsPerPrompt,
      klPenalty: rl.klPenalty,
      clip: rl.clip,
      temperature: rl.temperature,
      maxTurns: rl.maxTurns,
      contextTokens,
      maxCompletionTokens: rl.maxTokensPerTurn,
    };
  }
  if (recipe.kind !== "sft-rl") throw new TypeError("an RL-only recipe has no SFT stage");
  const { sft } = recipe;
  return { stage, ...sharedConfig(recipe, sft), batchSize: sft.batchSize, maxTokens: contextTokens };
}

/** What one machine with TRL cannot do of a recipe; all of it, so that nothing is silently left out. */
export function checkTrl(recipe: Recipe): Issue[] {
  const issues: Issue[] = [];
  const add = (path: string, issue: Omit<Issue, "code" | "path">) =>
    issues.push({ code: "not-on-this-target", path, ...issue });
  if (recipe.rope)
    add("rope", {
      asked: `positions are stretched by ${recipe.rope.factor} to reach ${contextTokensOf(recipe.context)} tokens`,
      found: "TRL on one machine trains at the model's own length and passes no RoPE block on",
      allowed: "no rope block",
      todo: "shorten context and remove rope, or plan for a cluster target",
    });
  const { rollouts } = recipe.rl;
  if (rollouts.placement === "dedicated")
    add("rl.rollouts", {
      asked: `rollouts on ${rollouts.nodes} nodes of their own${rollouts.async ? `, with weights up to ${rollouts.async.maxAgeSteps} steps old` : ""}`,
      found: "on one machine the process that trains generates too, in turns",
      allowed: '{ placement: "colocated" }, the default',
      todo: "leave rl.rollouts out, or plan for a cluster target",
    });
  const stages = recipe.kind === "sft-rl" ? { sft: recipe.sft, rl: recipe.rl } : { rl: recipe.rl };
  for (const [stage, { parallelism = {}, overrides = {} }] of Object.entries(stages)) {
    const spread = Object.entries<number | undefined>(parallelism).filter(([, ways = 1]) => ways > 1);
    if (spread.length > 0)
      add(`${stage}.parallelism`, {
        asked: spread.map(([name, ways]) => `${name} ${ways}`).join(", "),
        found: "TRL on one machine is one process",
        allowed: "1 for each of its fields",
        todo: `leave ${stage}.parallelism out, or plan for a cluster target`,
      });
    const keys = Object.keys(overrides).sort();
    if (keys.length > 0)
      add(`${stage}.overrides`, {
        asked: `${keys.join(", ")} of the trainer's own configuration`,
        found: "they are keys of the cluster's trainers; TRL's configuration is the recipe's fields and nothing else",
        allowed: "no overrides",
        todo: `leave ${stage}.overrides out, or plan for a cluster target`,
      });
  }
  return issues;
}

/** The environment every Python process of ours runs in: offline, quiet, and on as many threads as it was given. */
export function pythonEnvironment(codeDir: string, threads: number): Record<string, string> {
  return {
    PYTHONPATH: join(codeDir, "modules/trainers/trl"),
    PYTHONUNBUFFERED: "1",
    PYTHONDONTWRITEBYTECODE: "1",
    OMP_NUM_THREADS: String(threads),
    TOKENIZERS_PARALLELISM: "false",
    HF_HUB_OFFLINE: "1",
    TRANSFORMERS_OFFLINE: "1",
    HF_HUB_DISABLE_TELEMETRY: "1",
    CUDA_VISIBLE_DEVICES: "",
  };
}

/** The whole lines of a file of JSON lines; the last may be half written, and is whole at the next look. */
async function readLines(path: string): Promise<unknown[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  const whole = text.slice(0, text.lastIndexOf("\n") + 1).split("\n");
  return whole.filter(Boolean).map((line): unknown => JSON.parse(line));
}

async function readProgress(outputDir: string): Promise<TrainingProgress> {
  let phase: string | null = null;
  const metrics = new Map<number, StepMetrics>();
  for (const line of await readLines(join(outputDir, "metrics.jsonl"))) {
    const parsed = MetricsLine.parse(line);
    if ("phase" in parsed) phase = parsed.phase;
    else
      metrics.set(parsed.step, {
        step: parsed.step,
        steps: parsed.steps,
        loss: parsed.loss ?? null,
        reward: parsed.reward ?? null,
        attemptsLost: parsed.attemptsLost ?? 0,
        seconds: parsed.seconds,
      });
  }
  return { phase, metrics: [...metrics.values()].sort((a, b) => a.step - b.step) };
}

async function readOutcomes(outputDir: string): Promise<RolloutOutcome[]> {
  return (await readLines(join(outputDir, "attempts.jsonl"))).map((line) => OutcomeLine.parse(line));
}

/** TRL's adapter. */
export const trl: Trainer = {
  renderConfig,
  completeConfig: (config, inputs: TrainingInputs) => ({ ...config, ...inputs }),
  trainCommand: ({ python, codeDir, stage, configPath, outputDir, threads }): Command => ({
    command: python,
    args: ["-m", "uplift_trl", stage, "--config", configPath, "--output", outputDir],
    env: pythonEnvironment(codeDir, threads),
  }),
  readProgress,
  readOutcomes,
};
