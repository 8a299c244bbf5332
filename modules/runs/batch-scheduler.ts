/**
 * Batch scheduler: what steps ask of a cluster's queue: a script and a key → a job, its state, its end. Implemented over Slurm
 * (slurm-scheduler.ts). A job's identity is our key, never Slurm's JobId: a killed controller of Slurm gives those out again.
 */

/** One job as it is handed over; nothing of it is a secret. */
export interface BatchJob {
  /** One try of a step, `RUN.STEP.TRY`, kept in the job's comment. A key is started at most once. */
  readonly key: string;
  /** `RUN.STEP`: of one name Slurm runs one job at a time, so that two tries never write one folder. */
  readonly name: string;
  /** The batch script. Its #SBATCH lines are for people who submit by hand: every option of theirs is a field here. */
  readonly script: string;
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  /** Standard output and error are appended here. */
  readonly logPath: string;
  readonly nodes: number;
  readonly gpusPerNode: number;
  readonly partition: string;
  readonly account: string;
  readonly walltimeSeconds: number;
  /** "B:USR1@300": sent to the script so many seconds before the limit; null for none. */
  readonly signal: string | null;
}

/** What has become of a key. */
export type BatchState =
  /** Slurm knows no job of this key: it was never handed over, was lost with a killed slurmctld, or ended over a day ago. */
  | { readonly kind: "unknown" }
  /** In the queue, also again after a lost node: `reason` is Slurm's ("Resources", "Priority", "BeginTime"). */
  | { readonly kind: "waiting"; readonly reason: string }
  | { readonly kind: "running"; readonly nodes: string; readonly restarts: number }
  /** `state` is Slurm's ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"); the exit code is null where a signal ended it. */
  | { readonly kind: "ended"; readonly state: string; readonly exitCode: number | null }
  /** Slurm does not answer: nothing is known, and jobs go on. */
  | { readonly kind: "unreachable"; readonly why: string };

/** A queue of batch jobs. Every method may be repeated. */
export interface BatchScheduler {
  /**
   * Hands a job over unless its key is known. UserError `slurm-refused` where Slurm does not take it. Those that pass:
   * `slurm-nodes-missing` where it has no such nodes now, `slurm-partition-closed` while it takes no jobs at all,
   * `slurm-unreachable` where nobody answers; asked again later, the job is there once.
   */
  submit(job: BatchJob): Promise<void>;
  state(key: string): Promise<BatchState>;
  /** Asks for the end of a key's job, without waiting for it: "ending" while it is still there, so ask again; none is "gone". */
  cancel(key: string): Promise<"gone" | "ending">;
}
