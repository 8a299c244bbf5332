/**
 * Run: one submission of one plan, with the code it ran, its steps and their progress.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { Plan } from "./plan.ts";

/** The code a run was made from: a deterministic tarball, the commit, and what was not committed. */
export const Snapshot = z.object({
  /** Digest of the tarball's bytes. */
  digest: Digest,
  /** Object-store key of the tarball. */
  key: z.string(),
  commit: z.string().nullable(),
  /** Digest and key of the patch against the commit (untracked files included); null for a clean tree. */
  uncommitted: z.object({ digest: Digest, key: z.string(), files: z.array(z.string()) }).nullable(),
  files: z.number().int(),
});
export type Snapshot = z.infer<typeof Snapshot>;

export const RunState = z.enum(["running", "succeeded", "failed", "cancelling", "cancelled"]);
export type RunState = z.infer<typeof RunState>;

export const StepState = z.enum(["pending", "running", "succeeded", "failed", "cancelled"]);
export type StepState = z.infer<typeof StepState>;

/** How far a step is, in its own unit (optimiser steps, attempts, trajectories). */
export const Progress = z.object({
  done: z.number(),
  total: z.number(),
  unit: z.string(),
  /** e.g. "reward 0.42" */
  note: z.string().default(""),
  etaSeconds: z.number().nullable().default(null),
});
export type Progress = z.infer<typeof Progress>;

/** One earlier start of a step's process, and how it ended: what a restart goes on from. */
export const StepTry = z.object({
  number: z.number().int(),
  endedAt: z.iso.datetime(),
  error: z.string(),
  /** How far it had got, in the unit of the step's progress. */
  done: z.number(),
});
export type StepTry = z.infer<typeof StepTry>;

/** One job of the plan, as it goes in one run. */
export const RunStep = z.object({
  id: z.string(),
  kind: z.string(),
  state: StepState,
  /** Number of its newest try: 1 + restarts, and a try that was ended before it began counts too. */
  tries: z.number().int(),
  /** Number of the newest try that somebody was asked to start, written before that. No other life of its run asks for it again. */
  asked: z.number().int().default(0),
  /** Whether a pending step's next try is in somebody's queue (Slurm's), which starts it by itself. */
  handedOver: z.boolean().default(false),
  /** Earlier tries that ended badly, oldest first. */
  history: z.array(StepTry).default([]),
  progress: Progress.nullable(),
  /** What it made: a checkpoint's digest, an evaluation's id, counts of the selection. */
  result: z.record(z.string(), z.unknown()).nullable(),
  error: z.string().nullable(),
  startedAt: z.iso.datetime().nullable(),
  endedAt: z.iso.datetime().nullable(),
});
export type RunStep = z.infer<typeof RunStep>;

export const Run = z.object({
  /** e.g. "quickstart-rl-20261129-194501-1a2b" */
  id: z.string(),
  recipe: z.string(),
  plan: Plan,
  snapshot: Snapshot,
  state: RunState,
  steps: z.array(RunStep),
  error: z.string().nullable(),
  createdAt: z.iso.datetime(),
  endedAt: z.iso.datetime().nullable(),
});
export type Run = z.infer<typeof Run>;

/** A line of `uplift runs`. */
export const RunSummary = Run.omit({ plan: true, snapshot: true }).extend({
  planDigest: Digest,
  snapshotDigest: Digest,
});
export type RunSummary = z.infer<typeof RunSummary>;
