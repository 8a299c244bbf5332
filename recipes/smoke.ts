/**
 * The quickstart's path in about two minutes, for plumbing only: too few tasks and steps for its numbers to mean
 * anything, and the light server because it starts in seconds.
 */
import { sftThenRl } from "../schemas/recipe-builders.ts";
import { quickstartPreset } from "./quickstart-preset.ts";

export default sftThenRl({
  description: "Plumbing only: every stage once, on a handful of tasks.",
  model: "quickstart-base",
  context: 1024,
  tasks: { kind: "generated", family: "repo-chores", seed: 11, count: 60, split: { heldOut: 12, validation: 4 } },
  expert: { kind: "scripted", attempts: 3 },
  sft: { steps: 10, batchSize: 8, learningRate: 3e-3, warmupSteps: 1, lora: { rank: 8 }, saveEverySteps: 5 },
  rl: {
    tasks: { passRateBand: { min: 0, max: 1 } },
    steps: 2,
    promptsPerStep: 2,
    rolloutsPerPrompt: 4,
    learningRate: 1e-3,
    lora: { rank: 8 },
    maxTurns: 6,
    maxTokensPerTurn: 48,
    saveEverySteps: 1,
  },
  report: [{ stage: "rl", step: 2 }],
  evaluation: { ...quickstartPreset, name: "smoke", attempts: 2 },
  server: "light",
});
