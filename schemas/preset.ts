/**
 * Preset: the one set of conditions under which models are compared. Its digest is part of every comparability key.
 */
import { z } from "zod";

export const Preset = z.strictObject({
  /** What the leaderboard calls it. */
  name: z.string(),
  /** Attempts a held-out task. */
  attempts: z.number().int().positive(),
  /** Sampling temperature. */
  temperature: z.number().min(0).max(2),
  /** Nucleus sampling: the share of probability that is sampled from. */
  topP: z.number().gt(0).max(1),
  /** Assistant messages an attempt may have; one that reaches it is stopped, graded, and marked. */
  maxTurns: z.number().int().positive(),
  /** Tokens of one assistant message. */
  maxTokensPerTurn: z.number().int().positive(),
  /**
   * Attempt k of a task has seed `seed + k`; each of its turns is sampled with a seed made of that, the task and the
   * turn. One noise for all tasks would make intervals clustered by task too narrow.
   */
  seed: z.number().int(),
  /** What happens to an attempt that the infrastructure broke. */
  failureRule: z.strictObject({
    /** It is started again this many times … */
    retries: z.number().int().nonnegative(),
    /** … then it counts as a failure in the score; the board shows the score without such attempts beside it. */
    exhausted: z.literal("counts-as-failure"),
  }),
});
export type Preset = z.infer<typeof Preset>;
