/**
 * Leaderboard: evaluations with one comparability key → ranked rows; rows of different keys are different boards.
 */
import { z } from "zod";
import { Stage } from "./checkpoint.ts";
import { Digest } from "./digest.ts";
import { ServingSettings } from "./endpoint.ts";
import { ComparabilityParts, Lineage } from "./evaluation.ts";
import { Preset } from "./preset.ts";

/** An estimate in 0…1 (or a difference of two) with its 95 % interval, clustered by task. */
export const Estimate = z.object({ mean: z.number(), low: z.number(), high: z.number() });
export type Estimate = z.infer<typeof Estimate>;

/** The same tasks, this model minus base. */
export const PairedGain = z.object({
  gain: Estimate,
  tasksBetter: z.number().int(),
  tasksSame: z.number().int(),
  tasksWorse: z.number().int(),
  /** Gain as a share of what base failed; null where base failed nothing. */
  failuresFixed: z.number().nullable(),
  /** The gain when attempts the infrastructure broke are left out / when every attempt that hit the turn limit fails. */
  gainWithoutInfrastructure: Estimate,
  gainTurnLimitAsFailure: Estimate,
});
export type PairedGain = z.infer<typeof PairedGain>;

export const LeaderboardRow = z.object({
  /** 1-based within its board. */
  rank: z.number().int().positive(),
  evaluationId: z.string(),
  model: z.object({ name: z.string(), checkpoint: Digest, stage: Stage, step: z.number().int(), base: Digest }),
  lineage: Lineage,
  /** Mean per task, then over tasks; broken attempts count as failures. */
  score: Estimate,
  scoreWithoutInfrastructure: Estimate,
  /** Tasks whose every attempt the infrastructure broke: they are not in `scoreWithoutInfrastructure`. */
  tasksLeftOut: z.array(z.string()),
  scoreTurnLimitAsFailure: Estimate,
  tasks: z.number().int(),
  attempts: z.number().int(),
  infrastructureFailures: z.number().int(),
  infrastructureRetries: z.number().int(),
  turnLimitHits: z.number().int(),
  violations: z.number().int(),
  /** Null for the base model itself and where the board has no evaluation of the base. */
  overBase: PairedGain.nullable(),
  finishedAt: z.iso.datetime(),
});
export type LeaderboardRow = z.infer<typeof LeaderboardRow>;

export const Board = z.object({
  comparabilityKey: Digest,
  parts: ComparabilityParts,
  family: z.string(),
  preset: Preset,
  /** What every row was served by; `parts.serving` is its digest. */
  serving: ServingSettings,
  taskSetDigest: Digest,
  rows: z.array(LeaderboardRow),
});
export type Board = z.infer<typeof Board>;

export const Leaderboard = z.object({ schemaVersion: z.literal(1), boards: z.array(Board) });
export type Leaderboard = z.infer<typeof Leaderboard>;
