/**
 * Slurm's dialects: a job → the body that submits it, in the two ways that slurmrestd has known: v0.0.38 (Slurm 22.05, what
 * Debian 12 has) and the data parsers from v0.0.41 (24.05) on, in which the fields used here are all alike.
 * slurmrestd reads no #SBATCH line: what is not a field here is not asked for.
 */
import type { BatchJob } from "./batch-scheduler.ts";
import { jobEnvironment, limitMinutes, signalOf } from "./slurm-transport.ts";

/** One way to speak to slurmrestd. */
export interface Dialect {
  readonly version: string;
  submission(job: BatchJob): { job: object; script: string };
}

/** Newest first. A version is here when its submission was checked against its OpenAPI document (test/support/slurm-submission.json). */
export const DIALECTS: readonly Dialect[] = [
  ...["v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41"].map((version) => ({ version, submission: tagged })),
  { version: "v0.0.38", submission: plain },
];

/** The newest dialect of those whose paths an OpenAPI document has. */
export function dialectOf(paths: readonly string[]): Dialect | undefined {
  return DIALECTS.find(({ version }) => paths.includes(`/slurm/${version}/job/submit`));
}

/** Fields that have one form in all versions. */
function common(job: BatchJob) {
  return {
    name: job.name,
    comment: job.key,
    account: job.account,
    partition: job.partition,
    tasks_per_node: 1,
    requeue: true,
    // Never two jobs of this name at once: they would write one folder.
    dependency: "singleton",
    current_working_directory: job.workingDirectory,
    standard_output: job.logPath,
    standard_error: job.logPath,
  };
}

/** v0.0.41 and later: lists of flags, and numbers that say whether they are set. */
function tagged(job: BatchJob) {
  const signal = signalOf(job);
  const set = (number: number) => ({ set: true, infinite: false, number });
  const warning = signal && {
    kill_warning_signal: signal.signal,
    kill_warning_delay: set(signal.seconds),
    ...(signal.batchOnly ? { kill_warning_flags: ["BATCH_JOB"] } : {}),
  };
  return {
    job: {
      ...common(job),
      nodes: String(job.nodes),
      ...(job.gpusPerNode > 0 ? { tres_per_node: `gres/gpu:${job.gpusPerNode}` } : {}),
      // --exclusive: no other job on its nodes.
      shared: ["none"],
      // All of a node's: DefMemPerCPU would give a part.
      memory_per_node: set(0),
      time_limit: set(limitMinutes(job)),
      open_mode: ["APPEND"],
      ...warning,
      environment: Object.entries(jobEnvironment(job)).map(([name, value]) => `${name}=${value}`),
    },
    script: job.script,
  };
}

/** v0.0.38: plain values; its own document is wrong about `nodes` (a list is taken as one node) and `exclusive` ("true" is refused). */
function plain(job: BatchJob) {
  const signal = signalOf(job);
  return {
    job: {
      ...common(job),
      nodes: job.nodes,
      ...(job.gpusPerNode > 0 ? { gres: `gpu:${job.gpusPerNode}` } : {}),
      exclusive: "exclusive",
      memory_per_node: 0,
      time_limit: limitMinutes(job),
      open_mode: "append",
      ...(signal && !signal.batchOnly ? { signal: `${signal.signal}@${signal.seconds}` } : {}),
      environment: jobEnvironment(job),
    },
    script: signal?.batchOnly ? signalledByItself(job, signal) : job.script,
  };
}

/**
 * 22.05 refuses "B:" over REST, so the script (of bash) sends the signal to itself: from a grandchild, for which no `wait` of the
 * script's waits, and which looks whether the script is still there, since Slurm may not end it.
 */
function signalledByItself(job: BatchJob, { signal, seconds }: { signal: string; seconds: number }): string {
  const after = Math.max(0, limitMinutes(job) * 60 - seconds);
  const wait = `until [ $SECONDS -ge ${after} ]; do sleep 1; kill -0 $$ || exit; done`;
  const [first = "", ...rest] = job.script.split("\n");
  return [first, `( (${wait}; kill -${signal} $$) >/dev/null 2>&1 & )`, ...rest].join("\n");
}
