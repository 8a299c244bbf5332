/**
 * Job: one node of a plan's graph. `collect`, `train` and the merge inside `checkpoint` are processes the scheduler
 * runs; the rest are idempotent steps of the controller, keyed by (run, job).
 */
import { z } from "zod";
import { Stage } from "./checkpoint.ts";

const common = { id: z.string().regex(/^[a-z0-9-]+$/), needs: z.array(z.string()) };

/** The expert acts on training and held-out tasks: trajectories for SFT, pass rates for the task choice. */
const CollectJob = z.strictObject({
  ...common,
  kind: z.literal("collect"),
  /** Version of the expert that acts. */
  expert: z.string(),
  splits: z.array(z.enum(["train", "validation", "held-out"])),
  attempts: z.number().int(),
  seed: z.number().int(),
  concurrency: z.number().int(),
});

/** Trajectories → SFT data, RL tasks, and the tasks to evaluate on that the expert solved at least once. */
const SelectJob = z.strictObject({
  ...common,
  kind: z.literal("select"),
  /** The tasks that are evaluated, of which those nobody solved are left out. */
  evaluated: z.enum(["held-out", "validation"]),
  sft: z
    .strictObject({ maxPerTask: z.number(), maxLengthRatio: z.number(), maxTrajectories: z.number().nullable() })
    .nullable(),
  rl: z.strictObject({ min: z.number(), max: z.number() }),
});

/** One training stage, from the base model or from another job's checkpoint. */
const TrainJob = z.strictObject({
  ...common,
  kind: z.literal("train"),
  stage: Stage.exclude(["base"]),
  trainer: z.literal("trl"),
  /** Id of the checkpoint job the stage starts from. */
  startFrom: z.string(),
  steps: z.number().int(),
  saveEverySteps: z.number().int(),
  /** The trainer's configuration as rendered by its adapter; the controller adds only paths and addresses. */
  config: z.record(z.string(), z.unknown()),
});

/** A trainer's checkpoint (or the base model) → merged, verified, stored. */
const CheckpointJob = z.strictObject({
  ...common,
  kind: z.literal("checkpoint"),
  name: z.string(),
  stage: Stage,
  step: z.number().int(),
  /** Id of the train job, null for the base model. */
  train: z.string().nullable(),
});

/** A checkpoint on every task to evaluate on, under the preset; serves it first and ends the endpoint after. */
const EvaluateJob = z.strictObject({ ...common, kind: z.literal("evaluate"), checkpoint: z.string() });

/** An evaluation → a leaderboard row. */
const PublishJob = z.strictObject({ ...common, kind: z.literal("publish"), evaluate: z.string() });

export const Job = z.discriminatedUnion("kind", [
  CollectJob,
  SelectJob,
  TrainJob,
  CheckpointJob,
  EvaluateJob,
  PublishJob,
]);
export type Job = z.infer<typeof Job>;
export type JobKind = Job["kind"];
