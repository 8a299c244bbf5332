/**
 * What both quickstart recipes are measured with and on: one object each, so that their rows can be compared.
 */
import type { Preset } from "../schemas/preset.ts";

/** Eight attempts at each held-out task, sampled as in training. */
export const quickstartPreset: Preset = {
  name: "quickstart",
  attempts: 8,
  temperature: 1,
  topP: 1,
  maxTurns: 8,
  maxTokensPerTurn: 48,
  seed: 1000,
  failureRule: { retries: 3, exhausted: "counts-as-failure" },
};

/** The tasks, and which of them are held out. */
export const quickstartTasks = {
  kind: "generated",
  family: "repo-chores",
  seed: 7,
  count: 300,
  split: { heldOut: 48, validation: 24 },
  // Other tasks than these would be another measurement: the plan refuses them.
  digest: "sha256:6777e30b939cb15ab20a2370af82f1709023d84bb55ea9ac83c489837daa2b6c",
} as const;

/** Decides which held-out tasks are solvable and which RL trains on. */
export const quickstartExpert = { kind: "scripted", attempts: 4 } as const;
