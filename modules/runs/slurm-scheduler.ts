/**
 * Slurm scheduler: a batch scheduler over Slurm, by REST or by commands. It keeps nothing: what has become of a job is what Slurm
 * knows of its key, which is in the job's comment, so a restart of ours or of Slurm's confuses nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../../schemas/error.ts";
import type { BatchJob, BatchScheduler, BatchState } from "./batch-scheduler.ts";
import { stateOf, wasRefused } from "./slurm-answers.ts";
import type { SlurmJob, SlurmTransport } from "./slurm-transport.ts";

/** Slurm's KillWait is 30 s by default, and an epilog may follow. */
const CANCEL_SECONDS = 120;
const LOOK_AGAIN_MILLISECONDS = 500;

/** Of jobs with one key, the one that says most of what is going on. */
const LIVELIEST = ["running", "waiting", "ended"];

/** A BatchScheduler over Slurm. */
export class SlurmScheduler implements BatchScheduler {
  readonly #slurm: SlurmTransport;
  readonly #cancelSeconds: number;

  constructor(slurm: SlurmTransport, cancelSeconds = CANCEL_SECONDS) {
    this.#slurm = slurm;
    this.#cancelSeconds = cancelSeconds;
  }

  /** A submission whose answer was lost is found by its key when it is repeated. */
  async submit(job: BatchJob): Promise<void> {
    if ((await this.#jobsOf(job.key)).length > 0) return;
    await this.#slurm.submit(job);
  }

  async state(key: string): Promise<BatchState> {
    try {
      const states = (await this.#jobsOf(key)).map(stateOf);
      for (const kind of LIVELIEST) {
        const state = states.findLast((each) => each.kind === kind);
        if (state) return state;
      }
      return { kind: "unknown" };
    } catch (error) {
      if (error instanceof UserError && error.code === "slurm-unreachable")
        return { kind: "unreachable", why: error.message };
      throw error;
    }
  }

  async cancel(key: string): Promise<void> {
    const deadline = Date.now() + this.#cancelSeconds * 1000;
    for (;;) {
      const alive = (await this.#jobsOf(key)).filter((job) => stateOf(job).kind !== "ended");
      if (alive.length === 0) return;
      if (Date.now() > deadline) throw stays(key, alive, this.#cancelSeconds);
      for (const job of alive) await this.#slurm.cancel(job);
      await sleep(LOOK_AGAIN_MILLISECONDS);
    }
  }

  async #jobsOf(key: string): Promise<SlurmJob[]> {
    const jobs = (await this.#slurm.jobs()).filter((job) => job.key === key && !wasRefused(job));
    return jobs.sort((a, b) => a.jobId - b.jobId);
  }
}

function stays(key: string, jobs: readonly SlurmJob[], seconds: number): UserError {
  const each = jobs.map(({ jobId, states, nodes }) => `${states.join("+")} as ${jobId} on ${nodes || "no node"}`);
  return new UserError({
    code: "slurm-job-stays",
    path: key,
    asked: "Slurm was asked to end this job",
    found: `after ${seconds} s it is ${each.join(", ")}`,
    allowed: "a job that ends within that time",
    todo: "look at its nodes with `scontrol show node`: a process that waits for storage cannot be ended; then cancel again",
  });
}
