/**
 * GRPO from the base model, with no expert data: the other half of the quickstart's comparison.
 */
import { rlOnly } from "../schemas/recipe-builders.ts";
import { quickstartExpert, quickstartPreset, quickstartTasks } from "./quickstart-preset.ts";

export default rlOnly({
  description: "The same tiny model learns the same chores by GRPO alone.",
  model: "quickstart-base",
  context: 1024,
  tasks: quickstartTasks,
  expert: quickstartExpert,
  rl: {
    tasks: { passRateBand: { min: 0.05, max: 1 } },
    steps: 30,
    promptsPerStep: 8,
    rolloutsPerPrompt: 8,
    learningRate: 1e-3,
    lora: { rank: 16 },
    maxTurns: 8,
    maxTokensPerTurn: 48,
    saveEverySteps: 5,
  },
  report: [{ stage: "rl", step: 30 }],
  evaluation: quickstartPreset,
});
