/**
 * Slurm transport: what a scheduler needs of Slurm, over REST (slurm-rest.ts) or its commands (slurm-commands.ts): hand a job
 * over, list jobs, end one. Errors are two: Slurm refuses, or nobody who knows answers.
 */
import { UserError } from "../../schemas/error.ts";
import type { BatchJob } from "./batch-scheduler.ts";

/** One job that Slurm knows. Its JobId names it only at this moment: after a killed slurmctld it may be another's. */
export interface SlurmJob {
  readonly jobId: number;
  /** Our key, from the job's comment. */
  readonly key: string;
  readonly name: string;
  /** Slurm's base state and what is going on beside it: ["PENDING"], ["RUNNING", "COMPLETING"]. */
  readonly states: readonly string[];
  readonly reason: string;
  readonly nodes: string;
  readonly restarts: number;
  /** Null where a signal ended it. */
  readonly exitCode: number | null;
}

/** Every method throws `slurm-unreachable` where nobody answers, which says nothing of what was done. */
export interface SlurmTransport {
  /** Hands a job over, whatever jobs there are. `refused` where Slurm does not take it. */
  submit(job: BatchJob): Promise<void>;
  /** All jobs that have a comment: waiting, running, and those that ended within Slurm's MinJobAge: a day on our clusters. */
  jobs(): Promise<SlurmJob[]>;
  /** Asks Slurm to end a job; one that has ended is fine. Returns before it has. */
  cancel(job: SlurmJob): Promise<void>;
}

/** The variable that says in a job which one it is, as the process scheduler has it. */
const KEY_VARIABLE = "UPLIFT_JOB_KEY";
/** A job over REST has no PATH of its own. */
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** A job's whole environment, beside what Slurm adds. */
export function jobEnvironment(job: BatchJob): Record<string, string> {
  return { PATH, ...job.env, [KEY_VARIABLE]: job.key };
}

/** Slurm counts a time limit in minutes. */
export function limitMinutes(job: BatchJob): number {
  return Math.ceil(job.walltimeSeconds / 60);
}

/** "B:USR1@300" → whom, what, how many seconds before the limit. */
export function signalOf(job: BatchJob): { batchOnly: boolean; signal: string; seconds: number } | null {
  if (job.signal === null) return null;
  const [, batch, signal, seconds] = /^(B:)?([A-Z0-9]+)@(\d+)$/.exec(job.signal) ?? [];
  if (signal === undefined) throw new Error(`${job.key}: "${job.signal}" is no signal like B:USR1@300`);
  return { batchOnly: batch !== undefined, signal, seconds: Number(seconds) };
}

/** Somebody set the partition to DRAIN or INACTIVE. DOWN takes jobs and lets them wait. */
const PARTITION_CLOSED = /Required partition not available/;
/** Of the nodes that are registered now, none fit, or too few are there (slurm_errno.h's texts). */
const NODES_MISSING = /Requested node configuration is not available|Node count specification invalid/;

/**
 * Slurm does not take a job, in its own words: `slurm-refused`, or one that passes: `slurm-partition-closed` while somebody works
 * on the cluster, or `slurm-nodes-missing` until nodes come: a capacity block begins, a pool grows, a node registers after its start.
 */
export function refused(job: BatchJob, words: string): UserError {
  const { key, nodes, gpusPerNode, partition, account } = job;
  const asked = `${nodes} nodes of ${gpusPerNode} GPUs in partition "${partition}" were asked for as account "${account}"`;
  if (PARTITION_CLOSED.test(words))
    return new UserError({
      ...{ code: "slurm-partition-closed", path: key, asked },
      found: `Slurm says: ${words}`,
      allowed: "a partition that is up, or down, where jobs wait",
      todo: `nothing while somebody works on the cluster; then \`scontrol update partitionname=${partition} state=up\``,
    });
  if (NODES_MISSING.test(words))
    return new UserError({
      ...{ code: "slurm-nodes-missing", path: key, asked },
      found: `Slurm says: ${words}`,
      allowed: "a partition whose nodes, as `sinfo` shows them, are as many and have as many GPUs",
      todo: "nothing where nodes are still to come (a capacity block that begins later); else uplift up with this plan",
    });
  return new UserError({
    ...{ code: "slurm-refused", path: key, asked },
    found: `Slurm says: ${words}`,
    allowed:
      "what `sinfo` shows of partitions and nodes, and accounts and limits that `sacctmgr show associations` lists",
    todo: "correct the target's `slurm` or the recipe's nodes, or ask who runs the cluster",
  });
}

/** Nobody answers, or nobody who knows. */
export function unreachable(path: string, words: string): UserError {
  return new UserError({
    code: "slurm-unreachable",
    path,
    asked: "Slurm was asked about a job",
    found: words,
    allowed: "slurmctld up, slurmrestd before it, and a token that it takes",
    todo: "nothing where Slurm restarts: jobs go on, and it is asked again; else look at slurmctld and slurmrestd",
  });
}
