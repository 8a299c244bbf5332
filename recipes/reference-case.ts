/**
 * What the reference case's recipes share: a lab trained Qwen3.8-27B by SFT then GRPO, and by GRPO alone, on two
 * families of agentic tasks. Its write-up publishes tasks, splits, data rules, attempts and steps; it publishes no
 * optimiser settings. Those are our choices, each with its reason.
 */
import type { Preset } from "../schemas/preset.ts";

/** The preset of every row of the reference case: eight attempts at each held-out task, as published. */
export const agenticPreset: Preset = {
  name: "agentic",
  attempts: 8,
  // Not published. As in rollouts: NeMo-RL's server samples only as it trains, and what is measured is what was trained.
  temperature: 1,
  topP: 1,
  // Not published; the tasks are "tens of turns", and two of 50 audited passes had run out of them.
  maxTurns: 100,
  // Not published. Room for a thought and a file edit, and 16 such answers fit 128k.
  maxTokensPerTurn: 8192,
  seed: 0,
  // As published: a few percent of attempts break; they count alike for every model and are shown beside the score.
  failureRule: { retries: 3, exhausted: "counts-as-failure" },
};

/** The expert: writes the SFT data and decides which held-out tasks are solvable, as published. */
export const kimiK3 = { kind: "model", model: "moonshotai/Kimi-K3", attempts: 8 } as const;

/** Computer use in a GitHub-like application. The index is a stand-in: the lab's tasks are not public. */
export const githubTasks = {
  kind: "dataset",
  family: "github",
  index: "task-sets/github.json",
  digest: "sha256:ac54341da31d46d08b7fd3101683546932048d78f0c122b10f861d475288e58c",
  // 46 of them fit 128k and were solved by the expert.
  split: { heldOut: 52, validation: 24 },
} as const;

/** Development in five Unreal Engine projects. The index is a stand-in: the lab's tasks are not public. */
export const unrealTasks = {
  kind: "dataset",
  family: "unreal",
  index: "task-sets/unreal.json",
  digest: "sha256:b3d7b29df109004a54f3e5812d0717d75c41a38893332d8cd880d351b2b995d6",
  // 54 of them fit 128k and were solved by the expert.
  split: { heldOut: 84, validation: 24 },
} as const;

/** SFT: at most 4 successful trajectories a task, none over twice the shortest, as published. */
export const loraSft = {
  data: { maxPerTask: 4, maxLengthRatio: 2 },
  // 41 trajectories were published for GitHub: four passes over them, since fewer barely move an adapter.
  steps: 20,
  batchSize: 8,
  // Megatron-Bridge's LoRA recipe for this model's size.
  learningRate: 1e-4,
  warmupSteps: 2,
  // LoRA is published, its rank is not; a rank that vLLM serves unmerged too.
  lora: { rank: 32, alpha: 64 },
  saveEverySteps: 10,
} as const;

/** GRPO with reward 1 when the grader passes, rollouts sharing the trainer's GPUs: as published. */
export const grpo = {
  // 128 attempts a step: a group of 8 tells a 1 in 8 task from an unsolved one, 16 tasks keep one task from ruling a step.
  promptsPerStep: 16,
  rolloutsPerPrompt: 8,
  // Ten times what full fine-tuning takes: an adapter's updates are smaller, and merged into bfloat16 they may vanish.
  learningRate: 1e-5,
  warmupSteps: 2,
  lora: { rank: 32, alpha: 64 },
  // No reward model to over-optimise: the grader is the truth, so no pull back to the start.
  klPenalty: 0,
  // DAPO's wider upper bound: keeps rare successes from being clipped away.
  clip: { low: 0.2, high: 0.28 },
  maxTurns: 100,
  maxTokensPerTurn: 8192,
  rollouts: { placement: "colocated" },
  // One node fits, and takes two days for 40 steps; rollouts, which take most of a step, share four.
  parallelism: { nodes: 4 },
  saveEverySteps: 10,
} as const;
