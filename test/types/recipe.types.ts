/**
 * Recipes that must not compile: `tsc` fails here when one of these starts to be accepted.
 */
import { rlOnly, sftThenRl } from "../../schemas/recipe-builders.ts";

const evaluation = {
  ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 8, maxTokensPerTurn: 48, seed: 0 },
  failureRule: { retries: 3, exhausted: "counts-as-failure" },
} as const;
const rl = {
  steps: 45,
  promptsPerStep: 8,
  rolloutsPerPrompt: 8,
  learningRate: 1e-3,
  maxTurns: 8,
  maxTokensPerTurn: 48,
  saveEverySteps: 10,
} as const;
const sft = { steps: 20, batchSize: 8, learningRate: 1e-3, saveEverySteps: 10 } as const;
const tasks = { kind: "generated", family: "chores", seed: 1, count: 100, split: { heldOut: 10 } } as const;
const written = { model: "Qwen/Qwen3.8-27B", context: "128k", tasks, rl, evaluation } as const;
const rope = { type: "yarn", factor: 4, originalMaxTokens: 32_768 } as const;
const rl40 = [{ stage: "rl", step: 40 }] as const;

// What is right compiles: saved steps, the last one though no multiple, a context of the model's own or with a rope
// block, a folder whose length only the plan can read.
rlOnly({ ...written, report: [...rl40, { stage: "rl", step: 45 }] });
rlOnly({ ...written, context: "256k", report: rl40 });
rlOnly({ ...written, model: "Qwen/Qwen3-32B", rope, report: rl40 });
rlOnly({ ...written, model: "models/mine", context: "256k", report: rl40 });
sftThenRl({ ...written, sft, report: [...rl40, { stage: "sft", step: 20 }] });
rlOnly({ ...written, rl: { ...rl, rollouts: { placement: "dedicated", async: { maxAgeSteps: 1 } } }, report: rl40 });

// @ts-expect-error RL alone has no SFT settings.
rlOnly({ ...written, sft, report: rl40 });
// @ts-expect-error SFT then RL needs SFT settings.
sftThenRl({ ...written, report: rl40 });
// @ts-expect-error RL alone has no SFT checkpoint to report.
rlOnly({ ...written, report: [{ stage: "sft", step: 20 }] });
// @ts-expect-error There is no such stage.
rlOnly({ ...written, report: [{ stage: "dpo", step: 1 }] });
// @ts-expect-error Step 35 is not saved: it saves every 10 steps.
rlOnly({ ...written, report: [{ stage: "rl", step: 35 }] });
// @ts-expect-error One saved and one that is not.
rlOnly({
  ...written,
  report: [
    { stage: "rl", step: 40 },
    { stage: "rl", step: 15 },
  ],
});
// @ts-expect-error The SFT stage saves every 10 steps.
sftThenRl({ ...written, sft, report: [{ stage: "sft", step: 5 }] });
// @ts-expect-error Qwen3-32B has 40,960 tokens of its own: 128k needs a rope block.
rlOnly({ ...written, model: "Qwen/Qwen3-32B", report: rl40 });
// @ts-expect-error And so does 256k.
rlOnly({ ...written, model: "Qwen/Qwen3-32B", context: "256k", report: rl40 });
// @ts-expect-error Asynchronous rollouts cannot share the trainer's GPUs.
rlOnly({ ...written, rl: { ...rl, rollouts: { placement: "colocated", async: { maxAgeSteps: 1 } } }, report: rl40 });
// @ts-expect-error A dataset needs an index and its digest.
rlOnly({ ...written, tasks: { kind: "dataset", family: "github", split: { heldOut: 10 } }, report: rl40 });
// @ts-expect-error A misspelt field.
rlOnly({ ...written, contextTokens: 1024, report: rl40 });
// @ts-expect-error A misspelt field deeper down.
rlOnly({ ...written, rl: { ...rl, learningrate: 1e-3 }, report: rl40 });
// @ts-expect-error A context nobody named.
rlOnly({ ...written, context: "64k", report: rl40 });
