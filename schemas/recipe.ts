/**
 * Recipe: what a researcher writes. One file a recipe in recipes/, default export, file name = recipe name; the same
 * fields may be written in YAML.
 *
 *   export default sftThenRl({ … })   or   export default rlOnly({ … })
 *
 * What a kind of recipe cannot have cannot be typed: an RL-only recipe has no `sft`; the builders, with what the type
 * checker can say of values, are in recipe-builders.ts. Every field's line here is its documentation; docs/recipe-reference.md is made
 * from it.
 */
import { z } from "zod";
import { Stage } from "./checkpoint.ts";
import { Digest } from "./digest.ts";
import { Preset } from "./preset.ts";
import { Rope } from "./rope.ts";
import { text } from "./text.ts";

const Name = text(/^[a-z0-9][a-z0-9-]*$/, "lower-case letters, digits and dashes");
const Positive = z.number().int().positive();

/** Context lengths by name, tokens. */
export const CONTEXT_TOKENS = { "128k": 131_072, "256k": 262_144 } as const;

const Context = z.union([z.enum(["128k", "256k"]), Positive]);
export type Context = z.infer<typeof Context>;

/** A context in tokens. */
export function contextTokensOf(context: Context): number {
  return typeof context === "number" ? context : CONTEXT_TOKENS[context];
}

const Lora = z.strictObject({
  /** Rank of the adapter matrices. */
  rank: Positive.max(256),
  /** Scale: the update is multiplied by alpha / rank. Default 2 × rank. */
  alpha: Positive.max(4096).optional(),
});

const Split = z.strictObject({
  /** Tasks nobody trains or tunes on; the leaderboard's number comes from these. Near copies stay on one side. */
  heldOut: Positive,
  /** Tasks settings are tuned on; apart from the held-out ones. Default 24. */
  validation: Positive.default(24),
});

const GeneratedTasks = z.strictObject({
  /** Tasks made from a seed by a family in modules/tasks. */
  kind: z.literal("generated"),
  /** Task family: a folder in modules/tasks. */
  family: Name,
  /** Seed of the task generator and of the split. */
  seed: z.number().int(),
  /** Tasks to generate, near copies included. */
  count: Positive,
  /** Which tasks train, tune and measure. Near copies stay on one side. */
  split: Split,
  /** Digest of the task set that is meant; another one is refused. Default: not compared. */
  digest: Digest.optional(),
});

const DatasetTasks = z.strictObject({
  /** Tasks that lie with their environments elsewhere, listed in an index. */
  kind: z.literal("dataset"),
  /** Task family, as the environment service knows it. */
  family: Name,
  /** The index (schemas/dataset.ts), a path from the recipe's folder. */
  index: z.string(),
  /** Digest of the index that is meant; another one is refused. */
  digest: Digest,
  /** Seed of the split. Default 0. */
  seed: z.number().int().default(0),
  /** Which tasks train, tune and measure. Near copies stay on one side. */
  split: Split,
});

const Tasks = z.discriminatedUnion("kind", [GeneratedTasks, DatasetTasks]);

const ScriptedExpert = z.strictObject({
  /** The family's scripted expert. */
  kind: z.literal("scripted"),
  /** Attempts of the expert at each training and held-out task; a probed checkpoint makes as many. Default 8. */
  attempts: Positive.default(8),
  /** Seed of its attempts. Default 0. */
  seed: z.number().int().default(0),
});

const ModelExpert = z.strictObject({
  /** A model behind an OpenAI-compatible endpoint that the target names. */
  kind: z.literal("model"),
  /** Its Hugging Face id, e.g. "moonshotai/Kimi-K3". */
  model: z.string(),
  /** Attempts of the expert at each training and held-out task; a probed checkpoint makes as many. Default 8. */
  attempts: Positive.default(8),
  /** Seed of its attempts. Default 0. */
  seed: z.number().int().default(0),
});

/** Which tasks nobody solved, which trajectories SFT sees, and which tasks RL trains on follow from the expert. */
const Expert = z.discriminatedUnion("kind", [ScriptedExpert, ModelExpert]);

/** How a stage is spread over GPUs. Left out, the plan chooses one that fits and says why. */
const Parallelism = z.strictObject({
  /** Nodes of the stage in all. */
  nodes: Positive.optional(),
  /** GPUs that share each layer; within one node. */
  tensorParallel: Positive.optional(),
  /** GPUs that share one sequence. */
  contextParallel: Positive.optional(),
  /** Groups of layers, one a GPU. */
  pipelineParallel: Positive.optional(),
});

/** Keys of the trainer's own configuration that override what is rendered, checked like the rest of it. */
const Overrides = z.record(z.string(), z.unknown());

const optimiser = {
  /** Peak learning rate of AdamW. */
  learningRate: z.number().positive().lt(1),
  /** Steps over which the learning rate rises to its peak. Default 0. */
  warmupSteps: z.number().int().nonnegative().default(0),
  /** AdamW's weight decay. Default 0. */
  weightDecay: z.number().nonnegative().max(1).default(0),
  /** Gradients are scaled down to this norm. Default 1. */
  maxGradNorm: z.number().positive().default(1),
  /** Low-rank adapters on the language model. Left out, all weights are trained. */
  lora: Lora.optional(),
  /** A checkpoint is saved after every this many steps and after the last. */
  saveEverySteps: Positive,
  /** How the stage is spread over GPUs. Default: the plan chooses a layout that fits and says why. */
  parallelism: Parallelism.optional(),
  /** Keys of the trainer's own configuration, laid over what is rendered and checked like it. Default: none. */
  overrides: Overrides.optional(),
};

const Sft = z.strictObject({
  /** Which trajectories are trained on. */
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
  /** How the learning rate goes on after the warm-up. Default "cosine", down to 0. */
  schedule: z.enum(["cosine", "constant"]).default("cosine"),
  ...optimiser,
});

const Rollouts = z.discriminatedUnion("placement", [
  z.strictObject({
    /** Rollouts share the trainer's GPUs, in turns with it. */
    placement: z.literal("colocated"),
  }),
  z.strictObject({
    /** Rollouts have whole nodes of their own. */
    placement: z.literal("dedicated"),
    /** Nodes of `parallelism.nodes` that only generate. Default 1. */
    nodes: Positive.default(1),
    /** Rollouts go on while the trainer works, with weights at most this many steps old. Default: in turns. */
    async: z
      .strictObject({
        /** Oldest weights a rollout may come from, optimiser steps. */
        maxAgeSteps: Positive.max(100),
      })
      .optional(),
  }),
]);

const Rl = z.strictObject({
  /** Which training tasks RL trains on: some attempts must succeed and some fail, or there is nothing to compare. */
  tasks: z
    .strictObject({
      /** Train on tasks whose pass rate lies in this band, both ends included. Default 0.1 to 0.9 of the expert's. */
      passRateBand: z.strictObject({
        /** Whose pass rate: "expert", "base", "sft" (the last SFT checkpoint), or a model in the dataset's index. */
        of: z.string().default("expert"),
        /** Lowest pass rate, 0…1. */
        min: z.number().min(0).max(1),
        /** Highest pass rate, 0…1. */
        max: z.number().min(0).max(1),
      }),
      /** A run's id, or a recipe's name (its newest finished run): tasks it solved at every attempt are left out. Default: none. */
      dropAlwaysSolvedBy: z.string().optional(),
    })
    .prefault({ passRateBand: { min: 0.1, max: 0.9 } }),
  /** Optimiser steps. */
  steps: Positive,
  /** Tasks a step. */
  promptsPerStep: Positive,
  /** Attempts at each of a step's tasks: the group GRPO compares. */
  rolloutsPerPrompt: Positive.min(2),
  /** How the learning rate goes on after the warm-up. Default "constant". */
  schedule: z.enum(["cosine", "constant"]).default("constant"),
  /** Weight of the KL divergence from the starting model in the loss. Default 0. */
  klPenalty: z.number().nonnegative().default(0),
  /** How far a token's probability ratio may go below and above 1 before it is clipped. Default 0.2 and 0.2. */
  clip: z
    .strictObject({
      /** Below 1; the lower bound is 1 − low. */
      low: z.number().positive().lt(1),
      /** Above 1; the upper bound is 1 + high. */
      high: z.number().positive().max(10),
    })
    .prefault({ low: 0.2, high: 0.2 }),
  /** Sampling temperature of rollouts. Default 1. */
  temperature: z.number().positive().max(2).default(1),
  /** Assistant messages an attempt may have. */
  maxTurns: Positive,
  /** Tokens of one assistant message. */
  maxTokensPerTurn: Positive,
  /** Where rollouts are generated. Default colocated. */
  rollouts: Rollouts.prefault({ placement: "colocated" }),
  ...optimiser,
});

const Report = z.strictObject({
  /** "sft" or "rl". */
  stage: Stage.exclude(["base"]),
  /** Optimiser step; one that is saved: a multiple of the stage's saveEverySteps, or its last. */
  step: Positive,
});
export type Report = z.infer<typeof Report>;

const shared = {
  /** Default: the file's name. */
  name: Name.optional(),
  /** One line for the plan's page and the leaderboard. Default: none. */
  description: z.string().default(""),
  /** Base model: a row of schemas/model.ts, a folder in tools/base-model, or a path. */
  model: z.string(),
  /** Commit of the base model's repository. Default: none, and the plan warns. */
  modelRevision: z.string().optional(),
  /** Longest prompt + answer in training, serving and evaluation: "128k", "256k", or tokens. */
  context: Context,
  /** Needed, and only allowed, where the context is longer than the model's native one. */
  rope: Rope.optional(),
  /** What is to be done, and which part of it is held out. */
  tasks: Tasks,
  /** Who writes the SFT data and decides which held-out tasks are solvable. Default: the family's scripted expert. */
  expert: Expert.prefault({ kind: "scripted" }),
  /** GRPO: reward 1 when the grader passes. */
  rl: Rl,
  /** Checkpoints whose held-out score is reported, declared before training: no best-of picking afterwards. */
  report: z.array(Report).min(1),
  /** The conditions every compared model shares; usually one object for several recipes. */
  evaluation: Preset,
  /** Seed of every trainer; 32 bits, as NumPy takes. Default 0. */
  seed: z
    .number()
    .int()
    .nonnegative()
    .max(2 ** 32 - 1)
    .default(0),
  /** Server of the evaluated endpoints; default: the target's. */
  server: z.enum(["vllm", "light"]).optional(),
};

export const SftRlRecipe = z.strictObject({
  /** "sft-rl" or "rl"; sftThenRl and rlOnly write it. */
  kind: z.literal("sft-rl"),
  ...shared,
  /** Supervised fine-tuning on the expert's successful trajectories. */
  sft: Sft,
});
export const RlRecipe = z.strictObject({
  /** "sft-rl" or "rl"; sftThenRl and rlOnly write it. */
  kind: z.literal("rl"),
  ...shared,
});

/** A recipe with all defaults filled in. */
export const Recipe = z.discriminatedUnion("kind", [SftRlRecipe, RlRecipe]);
export type Recipe = z.infer<typeof Recipe>;
export type SftRlRecipe = z.infer<typeof SftRlRecipe>;

/** What is written in a recipe file. */
export type SftRlRecipeInput = Omit<z.input<typeof SftRlRecipe>, "kind">;
export type RlRecipeInput = Omit<z.input<typeof RlRecipe>, "kind">;
export type RecipeInput = z.input<typeof Recipe>;
