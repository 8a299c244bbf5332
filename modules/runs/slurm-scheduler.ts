/**
 * Slurm scheduler: a batch scheduler over Slurm, by REST or by commands. It keeps nothing: what has become of a job is what Slurm
 * knows of its key, which is in the job's comment, so a restart of ours or of Slurm's confuses nothing.
 */
import { UserError } from "../../schemas/error.ts";
import type { BatchJob, BatchScheduler, BatchState } from "./batch-scheduler.ts";
import { stateOf, wasRefused } from "./slurm-answers.ts";
import type { SlurmJob, SlurmTransport } from "./slurm-transport.ts";

/** Of jobs with one key, the one that says most of what is going on. */
const LIVELIEST = ["running", "waiting", "ended"];

/** A BatchScheduler over Slurm. */
export class SlurmScheduler implements BatchScheduler {
  readonly #slurm: SlurmTransport;

  constructor(slurm: SlurmTransport) {
    this.#slurm = slurm;
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

  /** Waits for nothing: a job may take Slurm's KillWait (30 s by default) and its epilog, or hang on storage for hours. */
  async cancel(key: string): Promise<"gone" | "ending"> {
    const alive = (await this.#jobsOf(key)).filter((job) => stateOf(job).kind !== "ended");
    for (const job of alive) await this.#slurm.cancel(job);
    return alive.length === 0 ? "gone" : "ending";
  }

  async #jobsOf(key: string): Promise<SlurmJob[]> {
    const jobs = (await this.#slurm.jobs()).filter((job) => job.key === key && !wasRefused(job));
    return jobs.sort((a, b) => a.jobId - b.jobId);
  }
}
