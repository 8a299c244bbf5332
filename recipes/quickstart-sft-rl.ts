/**
 * SFT on a scripted expert's successful trajectories, then GRPO. See docs/quickstart.md for what each number does.
 */
import { sftThenRl } from "../schemas/recipe-builders.ts";
import { quickstartPreset } from "./quickstart-preset.ts";

export default sftThenRl({
  description: "A purpose-made tiny model learns to do chores in git repositories: SFT, then GRPO.",
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
