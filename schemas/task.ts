/**
 * Task: one thing to do in one environment, with the files it starts from and how it is graded.
 * A task family is a folder: family.json (this file's `TaskFamily`), tools.py (runs inside the sandbox),
 * grader.py (runs in a second sandbox, after the attempt).
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { Tool } from "./message.ts";
import { text } from "./text.ts";

/** What a sandbox of the family may use. */
export const SandboxLimits = z.object({
  /** One tool call, seconds. */
  toolSeconds: z.number().positive(),
  /** One attempt from creation to grade, seconds; then it is ended and reaped. */
  attemptSeconds: z.number().positive(),
  /** The grader, seconds. */
  graderSeconds: z.number().positive(),
  memoryMib: z.number().int().positive(),
  processes: z.number().int().positive(),
  /** Writable disk of the sandbox (a tmpfs), MiB. */
  diskMib: z.number().int().positive(),
  /** A tool's answer is cut at this many characters. */
  outputCharacters: z.number().int().positive(),
});
export type SandboxLimits = z.infer<typeof SandboxLimits>;

export const TaskFamily = z.object({
  name: text(/^[a-z][a-z0-9-]*$/, "lower-case letters, digits and dashes, a letter first"),
  /** Raised whenever tools, grader or generator change meaning; part of every comparability key. */
  version: z.number().int().positive(),
  description: z.string(),
  /** In alphabetical order of name: TRL renders environment tools in that order. */
  tools: z.array(Tool).min(1),
  limits: SandboxLimits,
});
export type TaskFamily = z.infer<typeof TaskFamily>;

/** The repository a task starts from: commits in order, each the full content of the files it adds or changes. */
export const RepositorySpec = z.object({
  commits: z.array(z.object({ message: z.string(), files: z.record(z.string(), z.string()) })).min(1),
});
export type RepositorySpec = z.infer<typeof RepositorySpec>;

export const Task = z.object({
  /** Unique in its task set, e.g. "atlas-set-value-0007". */
  id: text(/^[a-z0-9][a-z0-9-]*$/, "lower-case letters, digits and dashes"),
  family: z.string(),
  /** The project the repository imitates; held-out tasks are spread over projects. */
  project: z.string(),
  /** 1 easy … 3 hard; held-out tasks are spread over difficulties. */
  difficulty: z.number().int().min(1).max(3),
  /** The family's own word for what is to be done, e.g. "set-value". */
  kind: z.string(),
  /** What the model is asked, its first user message. */
  prompt: z.string(),
  repository: RepositorySpec,
  /** What the scripted expert may know and the model may not: family-specific, never sent to a sandbox. */
  goal: z.record(z.string(), z.unknown()),
  /** What the grader compares with: family-specific, only ever inside the grader's sandbox. */
  grading: z.record(z.string(), z.unknown()),
});
export type Task = z.infer<typeof Task>;

export const SplitName = z.enum(["train", "validation", "held-out"]);
export type SplitName = z.infer<typeof SplitName>;

/** Tasks with their near-copy groups and split; a group lies wholly in one split. */
export const TaskSet = z.object({
  schemaVersion: z.literal(1),
  family: z.object({ name: z.string(), version: z.number().int(), digest: Digest }),
  /** How it was made, so that it can be made again. */
  source: z.object({ generator: z.string(), seed: z.number().int(), tasks: z.number().int() }),
  tasks: z.array(Task),
  /** Near-copy groups: group id → task ids. Every task is in exactly one. */
  groups: z.record(z.string(), z.array(z.string()).min(1)),
  splits: z.object({
    train: z.array(z.string()),
    validation: z.array(z.string()),
    "held-out": z.array(z.string()),
  }),
});
export type TaskSet = z.infer<typeof TaskSet>;
