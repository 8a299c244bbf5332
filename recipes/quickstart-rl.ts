/**
 * GRPO from the base model, with no expert data: the other half of the quickstart's comparison.
 */
import { rlOnly } from "../schemas/recipe-builders.ts";
import { quickstartPreset } from "./quickstart-preset.ts";

export default rlOnly({
  description: "The same tiny model learns the same chores by GRPO alone.",
  model: "quickstart-base",
  context: 1024,
  tasks: {
    kind: "generated",
    family: "repo-chores",
    seed: 7,
    count: 300,
    split: { heldOut: 48, validation: 24 },
    // Other tasks than these would be another measurement: the plan refuses them.
    digest: "sha256:6777e30b939cb15ab20a2370af82f1709023d84bb55ea9ac83c489837daa2b6c",
  },
  expert: { kind: "scripted", attempts: 4 },
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
