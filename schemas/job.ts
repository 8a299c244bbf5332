/**
 * Job: one node of a plan's graph. `collect`, `train` and the merge inside `checkpoint` are processes the scheduler
 * runs; the rest are idempotent steps of the controller, keyed by (run, job).
 */
import { z } from "zod";
import { Stage } from "./checkpoint.ts";
import { Launch } from "./launch.ts";
import { text } from "./text.ts";

const common = { id: text(/^[a-z0-9-]+$/, "lower-case letters, digits and dashes"), needs: z.array(z.string()) };

/** Attempts at once; left out for as many as one machine's environment service takes, 16. */
const concurrency = z.number().int().positive().optional();

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

/**
 * Trajectories and pass rates → SFT data, RL tasks, and the tasks to evaluate on. One job does all of it where the
 * expert's pass rates choose the RL tasks; where a probe's do, a second one, `select-rl`, has only `rl`, because SFT
 * may have to end before its checkpoint can be probed.
 */
const SelectJob = z.strictObject({
  ...common,
  kind: z.literal("select"),
  /** The tasks that are evaluated, of which those nobody solved are left out; null where another job chose them. */
  evaluated: z.enum(["held-out", "validation"]).nullable(),
  sft: z
    .strictObject({ maxPerTask: z.number(), maxLengthRatio: z.number(), maxTrajectories: z.number().nullable() })
    .nullable(),
  /** Null where a later job chooses the RL tasks. */
  rl: z
    .strictObject({
      /** Whose pass rates: "expert", a model of the dataset's index, or the id of a probe job. */
      of: z.string(),
      min: z.number(),
      max: z.number(),
      /** A run, or a recipe's newest finished run, whose always-solved tasks are left out. */
      dropAlwaysSolvedBy: z.string().nullable(),
    })
    .nullable(),
});

/** A checkpoint on training tasks, for its pass rates only: an RL-task choice by what the model itself can do. */
const ProbeJob = z.strictObject({
  ...common,
  kind: z.literal("probe"),
  /** Id of the checkpoint job whose model acts. */
  checkpoint: z.string(),
  /** Attempts a training task: as many as the expert's, whose place it takes. Sampled as the recipe's rollouts are. */
  attempts: z.number().int(),
  concurrency,
});

/** One training stage, from the base model or from another job's checkpoint. */
const TrainJob = z.strictObject({
  ...common,
  kind: z.literal("train"),
  stage: Stage.exclude(["base"]),
  trainer: z.enum(["trl", "automodel", "nemo-rl"]),
  /** Id of the checkpoint job the stage starts from. */
  startFrom: z.string(),
  steps: z.number().int(),
  saveEverySteps: z.number().int(),
  /** The trainer's configuration as rendered by its adapter; the controller adds only paths and addresses. */
  config: z.record(z.string(), z.unknown()),
  /** How the cluster starts it; null where the process scheduler does. */
  launch: Launch.nullable(),
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
const EvaluateJob = z.strictObject({ ...common, kind: z.literal("evaluate"), checkpoint: z.string(), concurrency });

/** An evaluation → a leaderboard row. */
const PublishJob = z.strictObject({ ...common, kind: z.literal("publish"), evaluate: z.string() });

export const Job = z.discriminatedUnion("kind", [
  CollectJob,
  SelectJob,
  ProbeJob,
  TrainJob,
  CheckpointJob,
  EvaluateJob,
  PublishJob,
]);
export type Job = z.infer<typeof Job>;
export type JobKind = Job["kind"];
export type TrainJob = Extract<Job, { kind: "train" }>;
