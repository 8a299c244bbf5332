/**
 * Task set + recipe → how long attempts and trajectories are. Pure.
 *
 * What is known is at best the length of each task's shortest solution, as three quantiles (schemas/plan.ts).
 */
import type { TaskSetSummary } from "../../../schemas/plan.ts";
import type { Values } from "./assumptions.ts";

/** What a model and its environment exchange in one attempt. */
export interface Attempt {
  /** Prompt, answers and tool results together. */
  readonly tokens: number;
  /** Of them written by the model. */
  readonly generated: number;
  readonly turns: number;
}

/** What an attempt cannot exceed. */
export interface Limits {
  readonly contextTokens: number;
  readonly maxTurns: number;
  readonly maxTokensPerTurn: number;
}

/**
 * Mean of the shortest known solutions: Swanson's rule (30 % of the 10th, 40 % of the 50th, 30 % of the 90th
 * percentile), the 10th as far below the median, in ratio, as the 90th is above. Null where no solution is known.
 */
export function meanSolutionTokens(solutions: TaskSetSummary["solutionTokens"]): number | null {
  if (solutions === null || solutions.known === 0) return null;
  const { median, p90 } = solutions;
  return 0.3 * ((median * median) / p90) + 0.4 * median + 0.3 * p90;
}

/** The mean attempt of a model in training. */
export function meanAttempt(limits: Limits, solutionTokens: number | null, values: Values): Attempt {
  const asked = solutionTokens === null ? values.contextShare * limits.contextTokens : values.stretch * solutionTokens;
  const tokens = Math.min(asked, limits.contextTokens);
  const generated = Math.min(values.generatedShare * tokens, limits.maxTurns * limits.maxTokensPerTurn);
  const turns = Math.min(Math.max(1, generated / values.tokensPerTurn), limits.maxTurns);
  return { tokens, generated, turns };
}

/** The slowest attempt of a batch: longer than the mean one in all three, within the limits. */
export function slowestAttempt(limits: Limits, mean: Attempt, values: Values): Attempt {
  return {
    tokens: Math.min(values.tail * mean.tokens, limits.contextTokens),
    generated: Math.min(values.tail * mean.generated, limits.maxTurns * limits.maxTokensPerTurn),
    turns: Math.min(values.tail * mean.turns, limits.maxTurns),
  };
}

/** Mean tokens of a trajectory that SFT keeps: between the task's shortest success and `maxLengthRatio` times that. */
export function trajectoryTokens(
  contextTokens: number,
  maxLengthRatio: number,
  solutionTokens: number | null,
  values: Values,
): number {
  const asked =
    solutionTokens === null
      ? values.contextShare * contextTokens
      : solutionTokens * (1 + values.keptStretch * (maxLengthRatio - 1));
  return Math.min(asked, contextTokens);
}
