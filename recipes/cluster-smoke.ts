/**
 * The acceptance run of a new cluster: every stage once, on Qwen3.8-27B and generated tasks, in hours instead of days. What it proves
 * is that collection, SFT, GRPO, export, serving, evaluation and the leaderboard work there together; its numbers mean little.
 */
import { sftThenRl } from "../schemas/recipe-builders.ts";

export default sftThenRl({
  description: "Acceptance run of a new cluster: every stage once, on tasks that a 27B model mostly solves.",
  model: "Qwen/Qwen3.8-27B",
  // No modelRevision: whatever lies in models/Qwen--Qwen3.8-27B of the shared storage will do. Recipes that count pin a commit.
  context: 32_768,
  tasks: { kind: "generated", family: "repo-chores", seed: 23, count: 60, split: { heldOut: 12, validation: 4 } },
  expert: { kind: "scripted", attempts: 2 },
  sft: {
    steps: 4,
    batchSize: 8,
    learningRate: 1e-4,
    warmupSteps: 1,
    lora: { rank: 32, alpha: 64 },
    saveEverySteps: 2,
  },
  rl: {
    // All tasks that the expert solves: those that the model solves always teach nothing, and nothing is to be learned.
    tasks: { passRateBand: { min: 0, max: 1 } },
    steps: 2,
    promptsPerStep: 8,
    rolloutsPerPrompt: 4,
    learningRate: 1e-5,
    lora: { rank: 32, alpha: 64 },
    maxTurns: 12,
    maxTokensPerTurn: 1024,
    saveEverySteps: 1,
  },
  report: [{ stage: "rl", step: 2 }],
  evaluation: {
    name: "cluster-smoke",
    attempts: 2,
    temperature: 1,
    topP: 1,
    maxTurns: 12,
    maxTokensPerTurn: 1024,
    seed: 0,
    failureRule: { retries: 3, exhausted: "counts-as-failure" },
  },
});
