/**
 * Evaluation: one model on every held-out task, several attempts each, under one preset, with everything needed to
 * trust the number and to say what it may be compared with.
 */
import { z } from "zod";
import { Stage } from "./checkpoint.ts";
import { Digest } from "./digest.ts";
import { ServingSettings } from "./endpoint.ts";
import { Preset } from "./preset.ts";
import { text } from "./text.ts";
import { Outcome } from "./trajectory.ts";

/** What must be equal for two scores to be compared. */
export const ComparabilityParts = z.strictObject({
  preset: Digest,
  /** The tasks evaluated: ids, prompts, repositories, grading. */
  heldOutTasks: Digest,
  /** Tools, graders, sandbox profile. */
  environments: Digest,
  /** Version of the loop that turns answers into tool calls. */
  harness: z.string(),
  serving: Digest,
});
export type ComparabilityParts = z.infer<typeof ComparabilityParts>;

/** Where a model came from: enough to make it again. */
export const Lineage = z.object({
  /** Null for a base model evaluated on its own account; then the run that asked for it is in `requestedBy`. */
  runId: z.string().nullable(),
  requestedBy: z.string(),
  recipe: z.string(),
  planDigest: Digest,
  /** Digest of the source tarball the run was made from. */
  snapshotDigest: Digest,
  /** Git commit, or null outside a git checkout. */
  commit: z.string().nullable(),
  /** Digest of the uncommitted patch, or null for a clean tree. */
  uncommittedDigest: Digest.nullable(),
});
export type Lineage = z.infer<typeof Lineage>;

export const AttemptResult = z.object({
  taskId: z.string(),
  attempt: z.number().int().nonnegative(),
  outcome: Outcome,
  turns: z.number().int().nonnegative(),
  hitTurnLimit: z.boolean(),
  malformedToolCalls: z.number().int().nonnegative(),
  violations: z.array(z.string()),
  infrastructureRetries: z.number().int().nonnegative(),
  promptTokens: z.number().int().nonnegative(),
  completionTokens: z.number().int().nonnegative(),
  seconds: z.number().nonnegative(),
  /** Object-store key of the full trajectory. */
  traceKey: z.string(),
});
export type AttemptResult = z.infer<typeof AttemptResult>;

export const EvaluatedTask = z.object({
  id: z.string(),
  project: z.string(),
  difficulty: z.number().int(),
  kind: z.string(),
});
export type EvaluatedTask = z.infer<typeof EvaluatedTask>;

export const Evaluation = z.object({
  schemaVersion: z.literal(1),
  /** "eval-<12 hex>": digest of checkpoint and comparability key, so the same evaluation is never made twice. */
  id: text(/^eval-[0-9a-f]{12}$/, "eval- and 12 hex digits"),
  model: z.object({
    name: z.string(),
    checkpoint: Digest,
    stage: Stage,
    step: z.number().int(),
    /** The base model it is to be compared with (its own digest for a base model). */
    base: Digest,
  }),
  lineage: Lineage,
  family: z.string(),
  preset: Preset,
  serving: ServingSettings,
  /** Digest of the whole task set the held-out tasks come from. */
  taskSetDigest: Digest,
  comparability: z.object({ key: Digest, parts: ComparabilityParts }),
  tasks: z.array(EvaluatedTask).min(1),
  results: z.array(AttemptResult).min(1),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime(),
});
export type Evaluation = z.infer<typeof Evaluation>;
