/**
 * Trajectory: everything one attempt at one task said and did, with how it ended.
 * One trajectory is one line of JSON in a trajectories file and one object in the store.
 */
import { z } from "zod";
import { Message, Tool } from "./message.ts";

/**
 * How an attempt ended. Only `passed` scores 1. `infrastructure` is nobody's answer: it is retried, counted, and
 * reported with and without.
 */
export const Outcome = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("passed") }),
  z.object({ kind: z.literal("failed"), reason: z.string() }),
  z.object({ kind: z.literal("infrastructure"), code: z.string(), message: z.string() }),
]);
export type Outcome = z.infer<typeof Outcome>;

export const Trajectory = z.object({
  schemaVersion: z.literal(1),
  taskId: z.string(),
  /** 0-based number of the attempt at this task. */
  attempt: z.number().int().nonnegative(),
  /** Who acted: "expert", or a model's name. */
  policy: z.string(),
  seed: z.number().int(),
  tools: z.array(Tool),
  messages: z.array(Message),
  outcome: Outcome,
  /** Assistant messages so far. */
  turns: z.number().int().nonnegative(),
  /** The policy was stopped by the turn limit, whatever the grader then said. */
  hitTurnLimit: z.boolean(),
  /** Tool calls whose name or arguments the environment refused, and those the server could not parse as calls. */
  malformedToolCalls: z.number().int().nonnegative(),
  /** Tries to reach the grader, the network or files outside that the sandbox stopped. */
  violations: z.array(z.string()),
  promptTokens: z.number().int().nonnegative(),
  completionTokens: z.number().int().nonnegative(),
  /** Wall time of the attempt, seconds. */
  seconds: z.number().nonnegative(),
  /** Infrastructure failures of this attempt that were retried before this outcome. */
  infrastructureRetries: z.number().int().nonnegative(),
  startedAt: z.iso.datetime(),
});
export type Trajectory = z.infer<typeof Trajectory>;
