/**
 * Plan: a recipe on a target, as one canonical JSON file with a digest. Stacks and job submission read this and
 * nothing else, so what a reviewer read, what Pulumi previews and what is run cannot differ.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { ServingSettings } from "./endpoint.ts";
import { Cost } from "./estimate.ts";
import { Job } from "./job.ts";
import { StageLayout } from "./layout.ts";
import { Recipe } from "./recipe.ts";
import { PlannedTarget } from "./target.ts";
import { SplitName } from "./task.ts";

/** A task whose shortest known solution is longer than the context: named, never silently dropped. */
export const TooLongTask = z.strictObject({
  id: z.string(),
  split: SplitName,
  shortestSolutionTokens: z.number().int(),
});
export type TooLongTask = z.infer<typeof TooLongTask>;

/** What the plan says of the tasks: counts and digests, found by generating them or from their index. */
export const TaskSetSummary = z.strictObject({
  digest: Digest,
  familyDigest: Digest,
  /** True where the tasks are made up to show how a plan reads: such a plan is not run. */
  standIn: z.boolean(),
  tasks: z.number().int(),
  groups: z.number().int(),
  /** Tasks of each split that fit the context. */
  train: z.number().int(),
  validation: z.number().int(),
  heldOut: z.number().int(),
  /** Held-out tasks that fit and that the expert never solved, left out of heldOut; null where the run finds out. */
  heldOutUnsolved: z.number().int().nullable(),
  /** Training tasks in the recipe's pass-rate band; null where pass rates are measured by the run. */
  rlTasks: z.number().int().nullable(),
  /** Left out because they don't fit the context, the shortest first. */
  tooLong: z.array(TooLongTask),
  /** Shortest known solutions of the tasks that fit, tokens; null where none is known. */
  solutionTokens: z
    .strictObject({ known: z.number().int(), median: z.number().int(), p90: z.number().int(), max: z.number().int() })
    .nullable(),
});
export type TaskSetSummary = z.infer<typeof TaskSetSummary>;

/** What a reader should know before money is spent; nothing that stops the plan. */
export const Warning = z.strictObject({ code: z.string(), path: z.string(), message: z.string(), todo: z.string() });
export type Warning = z.infer<typeof Warning>;

export const PlanBody = z.strictObject({
  schemaVersion: z.literal(1),
  recipe: Recipe,
  /** The recipe's name, always set. */
  name: z.string(),
  target: PlannedTarget,
  contextTokens: z.number().int().positive(),
  /** `digest` is of the model's files; of its name, revision and facts where the files are not here. */
  baseModel: z.strictObject({
    name: z.string(),
    revision: z.string().nullable(),
    digest: Digest,
    bytes: z.number().int(),
  }),
  taskSet: TaskSetSummary,
  serving: ServingSettings,
  /** How each stage lies on GPUs and why it fits; empty on one machine without. */
  layouts: z.array(StageLayout),
  jobs: z.array(Job).min(1),
  /**
   * Two plans with the same key measure alike, as far as a plan can tell: preset, task set and split, expert that
   * decides which held-out tasks are solvable, family, harness, serving. A row's comparability key is made by the
   * evaluation from what it really used.
   */
  measurementKey: Digest,
  estimate: z.strictObject({
    /** Of the expert, of checkpoints that are probed to choose RL tasks, of RL's rollouts, of evaluations. */
    attempts: z.strictObject({
      expert: z.number().int(),
      probe: z.number().int(),
      rollouts: z.number().int(),
      evaluation: z.number().int(),
    }),
    /** Hours and dollars; null on one's own machine. */
    cost: Cost.nullable(),
  }),
  warnings: z.array(Warning),
});
export type PlanBody = z.infer<typeof PlanBody>;

export const Plan = PlanBody.extend({
  /** Digest of the canonical JSON of everything else. */
  digest: Digest,
});
export type Plan = z.infer<typeof Plan>;
