/**
 * Cluster tools: what the executors of a cluster's Slurm jobs are built from, and how a step that is a batch job is followed.
 * A job's key is the try of its step, so that a killed controller finds it again and never starts it twice.
 */
import type { Progress } from "../../../schemas/run.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import type { BatchScheduler } from "../../runs/batch-scheduler.ts";
import type { StepContext, StepStatus } from "../../runs/index.ts";
import { type BatchSize, START_CHECK_FAILED } from "../../trainers/index.ts";
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
  const isRunning = run.steps.some(({ id, state }) => id === job.id && state === "running");
  // What cannot be read of a job's files is not known; it says nothing of the job.
  const progress = () => step.progress().catch(() => null);
  // A step that runs is never said to wait: its next look would be at another try, whose job would be a second one.
  const held = async (why: string): Promise<StepStatus> => {
    if (!isRunning) return { kind: "waiting", why };
    const known = await progress();
    return { kind: "running", progress: known && { ...known, note: why, etaSeconds: null } };
  };
  const key = processKey(context);
  const state = await tools.batch.state(key);
  switch (state.kind) {
    case "unknown": {
      if (await step.isComplete()) return step.done();
      const why = (await step.waitFor?.()) ?? null;
      if (why !== null) return held(why);
      await submit(tools, context, key, step);
      return held("in Slurm's queue");
    }
    case "waiting":
      return held(`in Slurm's queue${isRunning ? " again" : ""}: ${state.reason}`);
    case "running":
      return { kind: "running", progress: await progress() };
    case "unreachable":
      return isRunning
        ? { kind: "running", progress: null }
        : { kind: "waiting", why: `Slurm does not answer: ${state.why}` };
    case "ended": {
      if (state.exitCode === 0) return step.done();
      const how = state.exitCode === null ? "without an exit code" : `with exit code ${state.exitCode}`;
      const isCancelled = state.state.startsWith("CANCELLED");
      const error = isCancelled ? "somebody cancelled its Slurm job" : `its Slurm job ended as ${state.state}, ${how}`;
      return {
        kind: "failed",
        error: await failure(error, tools.layout.log(run.id, job.id)),
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
    env: { RUN_DIR: runDir, RUN_ID: run.id, UPLIFT_JOB_KEY: key, UPLIFT_LOG: logPath },
    ...{ nodes, gpusPerNode, partition, account, walltimeSeconds, signal },
  });
}

/** The target of a run on a cluster; a defect where it is one machine's. */
export function clusterTarget({ run }: Pick<StepContext, "run">): ClusterTarget {
  const { target } = run.plan;
  if (target.kind === "local") throw new Error(`${run.id} was planned for the local target ${target.name}`);
  return target;
}
