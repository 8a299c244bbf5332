/**
 * Cluster tools: what the executors of a cluster's Slurm jobs are built from, and how a step that is a batch job is followed.
 * A job's key is the try of its step, so that a killed controller finds it again and never starts it twice.
 */
import { join } from "node:path";
import type { Progress } from "../../../schemas/run.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import type { BatchScheduler } from "../../runs/batch-scheduler.ts";
import type { StepContext, StepStatus } from "../../runs/index.ts";
import { type BatchSize, START_CHECK_FAILED } from "../../trainers/index.ts";
import { asItStands, stepIn } from "./outages.ts";
import { failure, processKey, type StepTools } from "./step-tools.ts";

/** What an executor of a cluster may use besides; the layout's home is where the shared storage is mounted. */
export interface ClusterStepTools extends StepTools {
  readonly batch: BatchScheduler;
  /** Where the shared storage is mounted, here and on every node. */
  readonly mountPath: string;
}

/** One step's batch job. */
export interface BatchStep {
  readonly size: BatchSize;
  /** Why the job is not to be handed over yet. */
  readonly waitFor?: () => Promise<string | null>;
  /** Makes the files it needs; its script. */
  readonly prepare: () => Promise<string>;
  /** Whether what it is to make is there already, of a job that Slurm no longer knows. */
  readonly isComplete: () => Promise<boolean>;
  readonly progress: () => Promise<Progress | null>;
  /** Asked when it has ended well. */
  readonly done: () => Promise<StepStatus>;
}

/** Hands a step's job over if Slurm does not know it, and says how it stands. */
export async function followBatch(
  tools: ClusterStepTools,
  context: StepContext<"train"> | StepContext<"checkpoint">,
  step: BatchStep,
): Promise<StepStatus> {
  const { run, job } = context;
  const isRunning = stepIn(context).state === "running";
  // What cannot be read of a job's files is not known; it says nothing of the job.
  const progress = () => step.progress().catch(() => null);
  const held = async (why: string) => asItStands(context, why, isRunning ? await progress() : null);
  const queued = async (why: string): Promise<StepStatus> =>
    isRunning ? held(why) : { kind: "waiting", why, handedOver: true };
  const logPath = tools.layout.log(run.id, job.id);
  const key = processKey(context);
  const state = await tools.batch.state(key);
  switch (state.kind) {
    case "unknown": {
      if (await step.isComplete()) return step.done();
      // It was seen to run: another try counts it, so that a job that is lost again and again ends its run.
      if (isRunning)
        return {
          kind: "failed",
          error: await failure("Slurm no longer knows its job, which has not made what it was to make", logPath),
          restart: true,
        };
      const why = (await step.waitFor?.()) ?? null;
      if (why !== null) return { kind: "waiting", why };
      await submit(tools, context, key, step);
      return queued("in Slurm's queue");
    }
    case "waiting":
      return queued(`in Slurm's queue${isRunning ? " again" : ""}: ${state.reason}`);
    case "running":
      return { kind: "running", progress: await progress() };
    case "unreachable":
      return held(`Slurm does not answer: ${state.why}`);
    case "ended": {
      if (state.exitCode === 0) return step.done();
      const how = state.exitCode === null ? "without an exit code" : `with exit code ${state.exitCode}`;
      const isCancelled = state.state.startsWith("CANCELLED");
      const error = isCancelled ? "somebody cancelled its Slurm job" : `its Slurm job ended as ${state.state}, ${how}`;
      return {
        kind: "failed",
        error: await failure(error, logPath),
        // A start check that failed fails again; what somebody ended is not theirs to see come back.
        restart: !isCancelled && state.exitCode !== START_CHECK_FAILED,
      };
    }
  }
}

async function submit(
  tools: ClusterStepTools,
  { run, job }: StepContext<"train"> | StepContext<"checkpoint">,
  key: string,
  step: BatchStep,
): Promise<void> {
  const runDir = tools.layout.run(run.id);
  const logPath = tools.layout.log(run.id, job.id);
  const script = await step.prepare();
  const { nodes, gpusPerNode, partition, account, walltimeSeconds, signal } = step.size;
  await tools.batch.submit({
    ...{ key, name: `${run.id}.${job.id}`, script, workingDirectory: runDir, logPath },
    env: {
      ...{ RUN_DIR: runDir, RUN_ID: run.id, UPLIFT_JOB_KEY: key, UPLIFT_LOG: logPath },
      // Over REST a job has nothing of a login: without a home, trainers and pyxis write their caches to / or fail.
      ...{ HOME: join(tools.mountPath, "home/uplift"), USER: "uplift", LANG: "C.UTF-8" },
    },
    ...{ nodes, gpusPerNode, partition, account, walltimeSeconds, signal },
  });
}

/** The target of a run on a cluster; a defect where it is one machine's. */
export function clusterTarget({ run }: Pick<StepContext, "run">): ClusterTarget {
  const { target } = run.plan;
  if (target.kind === "local") throw new Error(`${run.id} was planned for the local target ${target.name}`);
  return target;
}
