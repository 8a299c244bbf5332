/**
 * Probe: a checkpoint on the run's training tasks, sampled as its rollouts will be → how often it solves each, for the
 * choice of RL tasks. Publishes nothing. The endpoint, the attempts and going on after a kill are measure.ts's.
 */
import { digestJson } from "../../../schemas/digest.ts";
import type { Evaluation } from "../../../schemas/evaluation.ts";
import type { Preset } from "../../../schemas/preset.ts";
import type { StepContext, StepExecutor } from "../../runs/index.ts";
import { type PassRate, ratesOf } from "../../tasks/index.ts";
import { type Endpoints, measure } from "./measure.ts";
import { getPassRates, probeRatesKey, putPassRates } from "./pass-rates.ts";
import { type StepTools, taskSetOf } from "./step-tools.ts";

/** The executor. */
export function probe(tools: StepTools, endpoints: Endpoints): StepExecutor<"probe"> {
  return measure(tools, endpoints, {
    sharedKey(context) {
      const { serving, taskSet } = context.run.plan;
      const conditions = digestJson({ preset: samplingOf(context), serving, taskSet: taskSet.digest });
      return `probe ${context.resultOf(context.job.checkpoint).checkpoint} ${conditions}`;
    },
    preset: samplingOf,
    tasks: async ({ run }) => (await taskSetOf(tools, run)).splits.train,
    async made(id, { digest }) {
      const key = probeRatesKey(id);
      const stored = await getPassRates(tools.store, key);
      return stored && { ...resultOf(key, digest, stored.rates), reused: true };
    },
    async keep(evaluation, { run, job }) {
      const key = probeRatesKey(evaluation.id);
      const { checkpoint } = evaluation.model;
      const rates = ratesOfResults(evaluation);
      const made = { runId: run.id, step: job.id, checkpoint, taskSet: run.plan.taskSet.digest };
      await putPassRates(tools.store, key, { ...made, rates });
      return resultOf(key, checkpoint, rates);
    },
  });
}

/** A rollout's sampling, not the preset's: what the model solves while it learns is what makes a task worth training on. */
function samplingOf({ run, job }: StepContext<"probe">): Preset {
  const { rl, evaluation, seed } = run.plan.recipe;
  return {
    name: "probe",
    attempts: job.attempts,
    temperature: rl.temperature,
    // The trainer samples from the whole distribution.
    topP: 1,
    maxTurns: rl.maxTurns,
    maxTokensPerTurn: rl.maxTokensPerTurn,
    seed,
    // Retried as in evaluation; a rate then leaves out what stays broken.
    failureRule: evaluation.failureRule,
  };
}

function ratesOfResults({ results }: Evaluation): PassRate[] {
  return ratesOf(results.map(({ taskId, outcome }) => ({ taskId, outcome: outcome.kind })));
}

function resultOf(passRates: string, checkpoint: string, rates: readonly PassRate[]): Record<string, unknown> {
  const sum = (of: (rate: PassRate) => number) => rates.reduce((total, rate) => total + of(rate), 0);
  return {
    ...{ passRates, checkpoint, tasks: rates.length },
    attempts: sum(({ attempts }) => attempts),
    passed: sum(({ passed }) => passed),
    infrastructure: sum(({ infrastructure }) => infrastructure),
  };
}
