/**
 * Slurm's answers: the JSON of slurmrestd and of `squeue --json`, of any version → jobs, or why there is no answer. Only the
 * fields that are used are looked at. 22.05 writes one state and a wait status; 23.11 and later lists and tagged numbers.
 */
import { z } from "zod";
import type { BatchState } from "./batch-scheduler.ts";
import type { SlurmJob } from "./slurm-transport.ts";

const ErrorRow = z.object({
  error_number: z.number().optional(),
  /** The same, where 22.05 fails while it reads a request. */
  error_code: z.number().optional(),
  error: z.string().optional(),
  description: z.string().optional(),
});

/** What every answer has. A list of errors beside an empty list of jobs means that nothing is known of jobs. */
export const Answer = z.object({ errors: z.array(ErrorRow).default([]) });
type ErrorRow = z.infer<typeof ErrorRow>;

/** The answer to a submission. */
export const Submitted = Answer.extend({ job_id: z.number().int().optional() });

const TaggedNumber = z.object({ set: z.boolean(), number: z.number() });
/** What waitpid says, as one number or in words. */
const ExitCode = z.union([
  z.number().int(),
  z.object({ return_code: TaggedNumber, signal: z.object({ id: TaggedNumber }) }),
]);
const JobRow = z.object({
  job_id: z.number().int(),
  comment: z.string().nullish(),
  name: z.string().nullish(),
  job_state: z.union([z.string().transform((state) => [state]), z.array(z.string())]),
  state_reason: z.string().nullish(),
  nodes: z.string().nullish(),
  restart_cnt: z.number().int().nullish(),
  exit_code: ExitCode,
});

/** A list of jobs: those with a comment, since ours have one and other people's may be of any kind. */
export const Jobs = Answer.extend({
  jobs: z
    .array(z.looseObject({ comment: z.string().nullish() }))
    .transform((rows) => rows.filter(({ comment }) => comment))
    .pipe(z.array(JobRow.transform(jobOf)))
    // Left out beside an error. Anything else without a list, such as a proxy's JSON, must not be read as "no jobs".
    .optional(),
});

function jobOf(row: z.infer<typeof JobRow>): SlurmJob {
  return {
    jobId: row.job_id,
    key: row.comment ?? "",
    name: row.name ?? "",
    states: row.job_state,
    reason: row.state_reason ?? "",
    nodes: row.nodes ?? "",
    restarts: row.restart_cnt ?? 0,
    exitCode: exitCodeOf(row.exit_code),
  };
}

function exitCodeOf(code: z.infer<typeof ExitCode>): number | null {
  if (typeof code === "number") return (code & 0x7f) === 0 ? code >> 8 : null;
  if (code.signal.id.set && code.signal.id.number > 0) return null;
  return code.return_code.set ? code.return_code.number : null;
}

/** Slurm's words for what went wrong, the most telling first; empty for nothing. */
export function wordsOf(errors: readonly ErrorRow[]): string {
  const words = errors.flatMap(({ error, description }) => [error, description]);
  return [...new Set(words.filter((word) => word && word !== "Unspecified error"))].join("; ");
}

/** slurm_errno.h: of a request's content (jobs, plugins, REST's own), not of a connection (1000…) or a token (-1, 6000…). */
const ABOUT_THE_REQUEST = [
  [2000, 3299],
  [8000, 9299],
] as const;
/** A file is being written, slurmctld is a standby, submissions are off while the cluster is worked on. */
const PASSES = [2019, 2027, 2105];
/** No such JobId, or it has ended. */
const GONE = [2017, 2021];

const numberOf = (row: ErrorRow) => row.error_number ?? row.error_code ?? 0;

/** Whether asking again later is of no use. */
export function isRefusal(errors: readonly ErrorRow[]): boolean {
  const numbers = errors.map(numberOf);
  const about = (number: number) => ABOUT_THE_REQUEST.some(([first, last]) => first <= number && number <= last);
  return numbers.some(about) && !numbers.some((number) => PASSES.includes(number));
}

/** Whether a job that was to be ended is gone already. */
export function isGone(errors: readonly ErrorRow[]): boolean {
  return errors.some((row) => GONE.includes(numberOf(row)));
}

/** Waits, also when it was put back: after a lost node, by `scontrol requeue`, held after a failed prolog. */
const WAITING = ["PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"];
/** Has nodes. COMPLETING: its last processes are being ended. */
const RUNNING = [
  ...["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"],
  "POWER_UP_NODE",
];
/** A signal of Slurm's ended all others, whatever their script made of it. */
const ENDED_BY_ITSELF = ["COMPLETED", "FAILED"];

/** Slurm keeps a record of what it refused ("BadConstraints"): a job that has ended without a node ever. */
export function wasRefused(job: SlurmJob): boolean {
  return job.states[0] === "FAILED" && job.nodes === "" && job.restarts === 0;
}

/** What has become of a job. */
export function stateOf(job: SlurmJob): BatchState {
  const { states, reason, nodes, restarts } = job;
  if (states.some((state) => WAITING.includes(state))) return { kind: "waiting", reason };
  if (states.some((state) => RUNNING.includes(state))) return { kind: "running", nodes, restarts };
  const state = states[0] ?? "UNKNOWN";
  return { kind: "ended", state, exitCode: ENDED_BY_ITSELF.includes(state) ? job.exitCode : null };
}
