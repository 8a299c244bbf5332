/**
 * TRL on one machine: a recipe's stage → JSON configuration for `python -m uplift_trl`, and back from its output.
 * The Python is in trl/uplift_trl; the layout of its output folder is described in docs/training.md.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Recipe } from "../../schemas/recipe.ts";
import type { Command, StepMetrics, Trainer, TrainingInputs, TrainingProgress } from "./trainer.ts";

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

function loraOf(lora: { rank: number; alpha?: number | undefined }) {
  return { rank: lora.rank, alpha: lora.alpha ?? 2 * lora.rank };
}

function renderConfig(recipe: Recipe, stage: "sft" | "rl"): Record<string, unknown> {
  if (stage === "rl") {
    const { rl } = recipe;
    return {
      stage,
      steps: rl.steps,
      promptsPerStep: rl.promptsPerStep,
      rolloutsPerPrompt: rl.rolloutsPerPrompt,
      learningRate: rl.learningRate,
      lora: loraOf(rl.lora),
      temperature: rl.temperature,
      maxTurns: rl.maxTurns,
      contextTokens: recipe.contextTokens,
      maxCompletionTokens: rl.maxTokensPerTurn,
      saveEverySteps: rl.saveEverySteps,
      seed: recipe.seed,
    };
  }
  if (recipe.kind !== "sft-rl") throw new TypeError("an RL-only recipe has no SFT stage");
  const { sft } = recipe;
  return {
    stage,
    steps: sft.steps,
    batchSize: sft.batchSize,
    learningRate: sft.learningRate,
    lora: loraOf(sft.lora),
    maxTokens: recipe.contextTokens,
    saveEverySteps: sft.saveEverySteps,
    seed: recipe.seed,
  };
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

async function readProgress(outputDir: string): Promise<TrainingProgress> {
  let text: string;
  try {
    text = await readFile(join(outputDir, "metrics.jsonl"), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { phase: null, metrics: [] };
    throw error;
  }
  let phase: string | null = null;
  const metrics = new Map<number, StepMetrics>();
  // The last line may be half written; it is whole at the next look.
  for (const line of text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter(Boolean)) {
    const parsed = MetricsLine.parse(JSON.parse(line));
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
};
