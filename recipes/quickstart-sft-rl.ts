/**
 * SFT on a scripted expert's successful trajectories, then GRPO. See docs/quickstart.md for what each number does.
 */
import { sftThenRl } from "../schemas/recipe-builders.ts";
import { quickstartExpert, quickstartPreset, quickstartTasks } from "./quickstart-preset.ts";

export default sftThenRl({
  description: "A purpose-made tiny model learns to do chores in git repositories: SFT, then GRPO.",
  model: "quickstart-base",
  context: 1024,
  tasks: quickstartTasks,
  expert: quickstartExpert,
  sft: {
    data: { maxPerTask: 4, maxLengthRatio: 2, maxTrajectories: 120 },
    steps: 40,
    batchSize: 16,
    learningRate: 3e-3,
    warmupSteps: 4,
    lora: { rank: 16 },
    saveEverySteps: 20,
  },
  rl: {
    tasks: { passRateBand: { min: 0.05, max: 1 } },
    steps: 20,
    promptsPerStep: 8,
    rolloutsPerPrompt: 8,
    learningRate: 1e-3,
    lora: { rank: 16 },
    maxTurns: 8,
    maxTokensPerTurn: 48,
    saveEverySteps: 5,
  },
  report: [{ stage: "rl", step: 20 }],
  evaluation: quickstartPreset,
});
