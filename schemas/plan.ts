/**
 * Plan: a recipe on a target, as one canonical JSON file with a digest. Stacks and job submission read this and
 * nothing else, so what a reviewer read, what Pulumi previews and what is run cannot differ.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { ServingSettings } from "./endpoint.ts";
import { Job } from "./job.ts";
import { Recipe } from "./recipe.ts";
import { Target } from "./target.ts";

/** What the plan says of the tasks: counts and digests, found by generating them. */
export const TaskSetSummary = z.strictObject({
  digest: Digest,
  familyDigest: Digest,
  tasks: z.number().int(),
  groups: z.number().int(),
  train: z.number().int(),
  validation: z.number().int(),
  heldOut: z.number().int(),
});
export type TaskSetSummary = z.infer<typeof TaskSetSummary>;

export const PlanBody = z.strictObject({
  schemaVersion: z.literal(1),
  recipe: Recipe,
  /** The recipe's name, always set. */
  name: z.string(),
  target: Target,
  /** Digest of the base model's files. */
  baseModel: z.strictObject({ name: z.string(), digest: Digest, bytes: z.number().int() }),
  taskSet: TaskSetSummary,
  serving: ServingSettings,
  jobs: z.array(Job).min(1),
  /**
   * Two plans with the same key measure alike, as far as a plan can tell: preset, task set and split, expert that
   * decides which held-out tasks are solvable, family, harness, serving. A row's comparability key is made by the
   * evaluation from what it really used.
   */
  measurementKey: Digest,
  estimate: z.strictObject({
    /** Training rollouts, expert attempts and evaluation attempts. */
    attempts: z.strictObject({ expert: z.number().int(), rollouts: z.number().int(), evaluation: z.number().int() }),
  }),
});
export type PlanBody = z.infer<typeof PlanBody>;

export const Plan = PlanBody.extend({
  /** Digest of the canonical JSON of everything else. */
  digest: Digest,
});
export type Plan = z.infer<typeof Plan>;
