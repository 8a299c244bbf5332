/**
 * Training progress: what a trainer has logged → a step's progress and the summary that stays as its result. What a
 * trainer does not say is null, or left out. Pure.
 */
import type { TrainJob } from "../../../schemas/job.ts";
import type { Progress } from "../../../schemas/run.ts";
import type { StepMetrics, TrainingProgress } from "../../trainers/index.ts";

/** Steps that the time left is reckoned from. */
const RECENT = 5;
/** Steps whose mean stays as the result: one step's reward says little. */
const LAST = 3;

/** How far a training step is. */
export function progressOf(job: TrainJob, { phase, metrics }: TrainingProgress): Progress {
  const last = metrics.at(-1);
  const seconds = mean(metrics.slice(-RECENT).map((step) => step.seconds));
  return {
    done: last?.step ?? 0,
    total: job.steps,
    unit: "steps",
    note: [phase ?? "starting", last && noteOf(last)].filter(Boolean).join(", "),
    etaSeconds: last && seconds !== null ? Math.round(seconds * (job.steps - last.step)) : null,
  };
}

function noteOf({ reward, loss, attemptsLost }: StepMetrics): string {
  const value = reward !== null ? `reward ${reward.toFixed(2)}` : loss !== null ? `loss ${loss.toFixed(3)}` : "";
  return attemptsLost ? `${value}, ${attemptsLost} attempts lost to infrastructure` : value;
}

/** What stays of a training step when it has ended. */
export function summaryOf(metrics: readonly StepMetrics[]): Record<string, unknown> {
  const last = metrics.slice(-LAST);
  const seconds = sum(metrics.map((step) => step.seconds));
  const attemptsLost = sum(metrics.map((step) => step.attemptsLost));
  return {
    steps: metrics.at(-1)?.step ?? 0,
    reward: mean(last.map(({ reward }) => reward)),
    loss: mean(last.map(({ loss }) => loss)),
    seconds: seconds === null ? null : Math.round(seconds),
    ...(attemptsLost === null ? {} : { attemptsLost }),
  };
}

function sum(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
}

function mean(values: readonly (number | null)[]): number | null {
  const total = sum(values);
  return total === null ? null : total / values.filter((value) => value !== null).length;
}
