/**
 * Recipe: what a researcher writes. One file a recipe in recipes/, default export, file name = recipe name.
 *
 *   export default sftThenRl({ … })   or   export default rlOnly({ … })
 *
 * What a kind of recipe cannot have cannot be typed: an RL-only recipe has no `sft`.
 */
import { z } from "zod";
import { Stage } from "./checkpoint.ts";
import { Preset } from "./preset.ts";

const Name = z.string().regex(/^[a-z0-9][a-z0-9-]*$/, "lower-case letters, digits and dashes");
const Positive = z.number().int().positive();

const Lora = z.strictObject({
  /** Rank of the adapter matrices. */
  rank: Positive.max(256),
  /** Scale: the update is multiplied by alpha / rank. Default 2 × rank. */
  alpha: Positive.optional(),
});

const Tasks = z.strictObject({
  /** Task family: a folder in modules/tasks. */
  family: Name,
  /** Seed of the task generator and of the split. */
  seed: z.number().int(),
  /** Tasks to generate, near copies included. */
  tasks: Positive,
  /** Tasks nobody trains or tunes on; the leaderboard's number comes from these. */
  heldOut: Positive,
  /** Tasks settings are tuned on; apart from the held-out ones. Default 24. */
  validation: Positive.default(24),
});

const Expert = z.strictObject({
  /** The family's scripted expert. */
  name: z.literal("scripted").default("scripted"),
  /** Attempts of the expert at each training and held-out task. Default 8. */
  attempts: Positive.default(8),
  seed: z.number().int().default(0),
});

const Sft = z.strictObject({
  data: z
    .strictObject({
      /** Successful trajectories kept of one task. Default 4. */
      maxPerTask: Positive.default(4),
      /** A trajectory longer than this many times the task's shortest success is dropped. Default 2. */
      maxLengthRatio: z.number().min(1).default(2),
      /** Trajectories in all, spread over tasks; all that pass the filter by default. */
      maxTrajectories: Positive.optional(),
    })
    .prefault({}),
  /** Optimiser steps. */
  steps: Positive,
  /** Trajectories a step. */
  batchSize: Positive,
  /** Peak learning rate of AdamW. */
  learningRate: z.number().positive(),
  lora: Lora,
  /** A checkpoint is saved after every this many steps and after the last. */
  saveEverySteps: Positive,
});

const Rl = z.strictObject({
  tasks: z
    .strictObject({
      /**
       * Train on tasks whose pass rate, over the attempts of `of`, lies in this band (both ends included).
       * Default 0.1 to 0.9 of the expert's attempts.
       */
      passRateBand: z.strictObject({
        of: z.literal("expert").default("expert"),
        min: z.number().min(0).max(1),
        max: z.number().min(0).max(1),
      }),
    })
    .prefault({ passRateBand: { min: 0.1, max: 0.9 } }),
  /** Optimiser steps. */
  steps: Positive,
  /** Tasks a step. */
  promptsPerStep: Positive,
  /** Attempts at each of a step's tasks: the group GRPO compares. */
  rolloutsPerPrompt: Positive.min(2),
  /** Constant learning rate of AdamW. */
  learningRate: z.number().positive(),
  lora: Lora,
  /** Sampling temperature of rollouts. Default 1. */
  temperature: z.number().positive().default(1),
  /** Assistant messages an attempt may have. */
  maxTurns: Positive,
  /** Tokens of one assistant message. */
  maxTokensPerTurn: Positive,
  /** A checkpoint is saved after every this many steps and after the last. */
  saveEverySteps: Positive,
});

const Report = z.strictObject({ stage: Stage.exclude(["base"]), step: Positive });

const shared = {
  /** Default: the file's name. */
  name: Name.optional(),
  description: z.string().default(""),
  /** Base model: a folder in tools/base-model, or a path. */
  model: z.string(),
  /** Longest prompt + answer in training, serving and evaluation, tokens. */
  contextTokens: Positive,
  tasks: Tasks,
  expert: Expert.prefault({}),
  rl: Rl,
  /** Checkpoints whose held-out score is reported, declared before training: no best-of picking afterwards. */
  report: z.array(Report).min(1),
  evaluation: Preset,
  /** Seed of every trainer. Default 0. */
  seed: z.number().int().default(0),
  /** Server of the evaluated endpoints; default: the target's. */
  server: z.enum(["vllm", "light"]).optional(),
};

export const SftRlRecipe = z.strictObject({ kind: z.literal("sft-rl"), ...shared, sft: Sft });
export const RlRecipe = z.strictObject({ kind: z.literal("rl"), ...shared });

/** A recipe with all defaults filled in. */
export const Recipe = z.discriminatedUnion("kind", [SftRlRecipe, RlRecipe]);
export type Recipe = z.infer<typeof Recipe>;

/** What is written in a recipe file. */
export type SftRlRecipeInput = Omit<z.input<typeof SftRlRecipe>, "kind">;
export type RlRecipeInput = Omit<z.input<typeof RlRecipe>, "kind">;
export type RecipeInput = z.input<typeof Recipe>;

/** Supervised fine-tuning on the expert's trajectories, then GRPO from the result. */
export function sftThenRl(recipe: SftRlRecipeInput): RecipeInput {
  return { kind: "sft-rl", ...recipe };
}

/** GRPO from the base model. */
export function rlOnly(recipe: RlRecipeInput): RecipeInput {
  return { kind: "rl", ...recipe };
}
