/**
 * Cluster train: one stage as a Slurm job, from its data to its last checkpoint. The job starts itself again until its last step
 * is saved; a try that ended otherwise is followed by another, which goes on from the newest whole checkpoint.
 */
import type { Progress, Run } from "../../../schemas/run.ts";
import type { StepContext, StepExecutor } from "../../runs/index.ts";
import { connectHttpEnvironment, InfrastructureError } from "../../tasks/index.ts";
import { type ProgressReader, trainers } from "../../trainers/index.ts";
import { rlRows, sftRows, writeRunFiles } from "./cluster-files.ts";
import { type ClusterStepTools, followBatch } from "./cluster-tools.ts";
import { isOutage } from "./outages.ts";
import { processKey, taskSetOf } from "./step-tools.ts";
import { storeOutcomes } from "./train.ts";
import { progressOf, summaryOf } from "./training-progress.ts";

/** What is kept between two looks at a step; a new controller makes it anew from the run's files. */
interface Watch {
  readonly reader: ProgressReader;
  /** Set while RL's rollouts are counted, and when they have been. */
  count: Count | null;
}

/** The counting of what rollouts solved: `end` is null until it is over, `key` null where there is nothing to count. */
interface Count {
  end: { readonly key: string | null } | { readonly error: unknown } | null;
}

/** The executor. */
export function clusterTrain(tools: ClusterStepTools): StepExecutor<"train"> {
  const watches = new Map<string, Watch>();
  return {
    slots: 0,
    sharedKey: () => null,
    async advance(context) {
      const { run, job } = context;
      if (job.launch === null) throw new Error(`${job.id} of ${run.id} was planned for one machine`);
      const trainer = trainers[job.stage];
      const runDir = tools.layout.run(run.id);
      const files = { runDir, logPath: tools.layout.log(run.id, job.id), steps: job.steps };
      const watch = watches.get(files.logPath) ?? { reader: trainer.progress(files), count: null };
      watches.set(files.logPath, watch);
      const isComplete = async () => (await trainer.savedSteps(runDir)).includes(job.steps);
      const progress = async (): Promise<Progress> => {
        const logged = progressOf(job, await watch.reader.read());
        const saved = (await trainer.savedSteps(runDir)).at(-1) ?? 0;
        return { ...logged, done: Math.max(logged.done, saved) };
      };
      return followBatch(tools, context, {
        size: job.launch,
        waitFor: async () => (job.stage === "rl" ? whyNoRollouts(tools, run) : null),
        prepare: async () => writeRunFiles(tools, run, job.id, await dataOf(tools, context)),
        isComplete,
        progress,
        done: async () => {
          if (!(await isComplete()))
            return { kind: "failed", error: `it ended without its last checkpoint, step ${job.steps}`, restart: true };
          if (job.stage === "rl") watch.count ??= countRollouts(tools, context);
          const end = watch.count === null ? { key: null } : watch.count.end;
          const outage = end !== null && "error" in end && isOutage(end.error) ? end.error : null;
          // The next look counts again.
          if (outage !== null) watch.count = null;
          if (end === null || outage !== null) {
            const note = `counting what its rollouts solved${outage === null ? "" : `: ${outage.message}`}`;
            return { kind: "running", progress: { ...(await progress()), note } };
          }
          const { metrics } = await watch.reader.read();
          watches.delete(files.logPath);
          return { kind: "succeeded", result: { ...summaryOf(metrics), ...ratesIn(end) } };
        },
      });
    },
    cancel: (context) => tools.batch.cancel(processKey(context)),
  };
}

/** The stage's data, made of what the run has selected. */
async function dataOf(tools: ClusterStepTools, { run, job }: StepContext<"train">): Promise<Record<string, string>> {
  return job.stage === "sft"
    ? { "data/sft.jsonl": await sftRows(tools, run) }
    : { "data/rl-train.jsonl": await rlRows(tools, run) };
}

/** Why rollouts cannot be played now. Null also means that the service has the run's tasks: Gym's agent only names them. */
async function whyNoRollouts(tools: ClusterStepTools, run: Run): Promise<string | null> {
  const outage = await tools.environmentOutage();
  if (outage !== null) return outage;
  try {
    const taskSet = await taskSetOf(tools, run);
    const service = await connectHttpEnvironment({ url: tools.environmentsUrl, taskSet, tries: 1 });
    await service.close();
    return null;
  } catch (error) {
    if (!(error instanceof InfrastructureError)) throw error;
    return `the environment service does not take the run's tasks: ${error.message}`;
  }
}

/** Counts what the stage's rollouts solved, beside the looks at all runs: long contexts make GBs of samples. */
function countRollouts(tools: ClusterStepTools, { run, job }: StepContext<"train">): Count {
  const count: Count = { end: null };
  const work = async () => {
    const outcomes = await trainers.rl.readOutcomes(tools.layout.run(run.id));
    return outcomes.length === 0 ? null : storeOutcomes(tools, run, job, outcomes);
  };
  work().then(
    (key) => {
      count.end = { key };
    },
    (error: unknown) => {
      count.end = { error };
    },
  );
  return count;
}

/** What the step's result says of them. A stage whose rollouts cannot be counted is no worse for it, but says why. */
function ratesIn(end: NonNullable<Count["end"]>): Record<string, string> {
  if ("error" in end) return { passRatesMissing: end.error instanceof Error ? end.error.message : String(end.error) };
  return end.key === null ? {} : { passRates: end.key };
}
