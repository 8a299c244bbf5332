/**
 * Reconciler: runs in the store → started, watched, restarted and ended steps. It keeps nothing in memory that the
 * store does not have: `tick` may be called by a new process at any time and goes on from there.
 */
import type { Job } from "../../schemas/job.ts";
import type { Run, RunStep, StepTry } from "../../schemas/run.ts";
import type { StepContext, StepExecutor, StepExecutors, StepStatus } from "./steps.ts";
import type { RunStore } from "./store.ts";

/** What the reconciler is built from. */
export interface ReconcilerOptions {
  readonly store: RunStore;
  readonly executors: StepExecutors;
  /** Slots of the machine. */
  readonly slots: number;
  /** Starts of one step without progress in between before its run fails. */
  readonly maxTries?: number;
  readonly now?: () => Date;
}

/** A try that got further than all before it starts the count again. */
const MAX_TRIES = 4;
/** Restarts wait 2, 4, 8 … seconds, a minute at most: an outage is not hammered. */
const BACKOFF_SECONDS = 2;

/** Drives every active run one look further each `tick`. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #now: () => Date;
  #retryAt = new Map<string, number>();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => new Date());
  }

  /** Looks at every active run once. A run that cannot be looked at is reported at the end and holds up no other. */
  async tick(): Promise<void> {
    const { runs: active, unreadable } = await this.#options.store.active();
    const errors: unknown[] = [...unreadable];
    const each = async (work: (run: Run) => Promise<void>) => {
      for (const run of active) await work(run).catch((error: unknown) => errors.push(error));
    };
    await each((run) => (run.state === "cancelling" ? this.#cancel(run) : this.#watch(run)));
    // Evaluations last: training is the longer way to the end, and evaluations fit beside it.
    for (const isLate of [false, true])
      await each((run) => this.#start(run, active, (job) => (job.kind === "evaluate") === isLate));
    await each((run) => this.#endIfDone(run));
    if (errors.length > 0)
      throw new AggregateError(
        errors,
        `${errors.length} of ${active.length + unreadable.length} runs could not be looked at`,
      );
  }

  /** Asks every running step how it stands. */
  async #watch(run: Run): Promise<void> {
    for (const job of running(run)) {
      const step = stepOf(run, job.id);
      await this.#record(run, job, step, await this.#ask(run, job, step));
    }
  }

  /** Starts what is ready, as far as there are slots. */
  async #start(run: Run, active: readonly Run[], wanted: (job: Job) => boolean): Promise<void> {
    if (run.state !== "running" || run.steps.some((step) => step.state === "failed")) return;
    for (const job of run.plan.jobs.filter(wanted)) {
      const step = stepOf(run, job.id);
      if (step.state !== "pending" || !ready(run, job) || !this.#due(run, job)) continue;
      const starting = { ...step, tries: step.tries + 1 };
      const made = (await this.#executor(job).made?.(context(run, job, starting.tries))) ?? null;
      if (made) {
        await this.#record(run, job, step, { kind: "succeeded", result: made });
        continue;
      }
      if (this.#slots(job) > this.#free(active) || this.#madeElsewhere(run, job, active)) continue;
      const status = await this.#ask(run, job, starting);
      if (status.kind !== "waiting")
        Object.assign(step, starting, { startedAt: step.startedAt ?? this.#now().toISOString() });
      await this.#record(run, job, step, status);
      if (status.kind === "failed" && !status.restart) return;
    }
  }

  #free(active: readonly Run[]): number {
    return active.flatMap(running).reduce((free, job) => free - this.#slots(job), this.#options.slots);
  }

  /** A step whose executor throws has failed with that error; the loop goes on for all others. */
  async #ask(run: Run, job: Job, step: RunStep): Promise<StepStatus> {
    try {
      return await this.#executor(job).advance(context(run, job, step.tries));
    } catch (error) {
      return { kind: "failed", error: error instanceof Error ? error.message : String(error), restart: false };
    }
  }

  async #record(run: Run, job: Job, step: RunStep, status: StepStatus): Promise<void> {
    const now = this.#now().toISOString();
    const before = JSON.stringify(step);
    switch (status.kind) {
      case "waiting":
        Object.assign(step, { state: "pending", error: status.why });
        break;
      case "running":
        Object.assign(step, { state: "running", error: null });
        step.progress = status.progress ?? step.progress;
        break;
      case "succeeded":
        Object.assign(step, { state: "succeeded", result: status.result, error: null, endedAt: now });
        break;
      case "failed": {
        const thisTry = { number: step.tries, endedAt: now, error: status.error, done: step.progress?.done ?? 0 };
        const fruitless = fruitlessTries([...step.history, thisTry]);
        if (status.restart && fruitless < (this.#options.maxTries ?? MAX_TRIES)) {
          step.history.push(thisTry);
          Object.assign(step, { state: "pending", error: status.error });
          const seconds = Math.min(60, BACKOFF_SECONDS ** fruitless);
          this.#retryAt.set(`${run.id}/${job.id}`, this.#now().getTime() + seconds * 1000);
        } else {
          Object.assign(step, { state: "failed", error: status.error, endedAt: now });
        }
        break;
      }
    }
    if (JSON.stringify(step) !== before) await this.#options.store.saveStep(run.id, step);
  }

  async #endIfDone(run: Run): Promise<void> {
    if (run.state !== "running" || run.steps.some((step) => step.state === "running")) return;
    const broken = run.steps.filter((step) => step.state === "failed");
    const now = this.#now().toISOString();
    if (broken.length > 0) {
      await this.#endLeftovers(run);
      const error = broken.map((step) => `${step.id}: ${step.error}`).join("\n");
      await this.#options.store.setState(run.id, "failed", error, now);
    } else if (run.steps.every((step) => step.state === "succeeded")) {
      await this.#options.store.setState(run.id, "succeeded", null, now);
    }
  }

  async #cancel(run: Run): Promise<void> {
    await this.#endLeftovers(run);
    const now = this.#now().toISOString();
    for (const step of run.steps)
      if (step.state === "running" || step.state === "pending")
        await this.#options.store.saveStep(run.id, { ...step, state: "cancelled", endedAt: now });
    await this.#options.store.setState(run.id, "cancelled", null, now);
  }

  /** Ends what steps without a result may have started, also a start that a killed controller did not write down. */
  async #endLeftovers(run: Run): Promise<void> {
    for (const job of run.plan.jobs) {
      const step = stepOf(run, job.id);
      if (step.state === "succeeded") continue;
      for (const tryNumber of [step.tries, step.tries + 1])
        if (tryNumber > 0) await this.#executor(job).cancel(context(run, job, tryNumber));
    }
  }

  /** Whether another run is making what this job would make. */
  #madeElsewhere(run: Run, job: Job, active: readonly Run[]): boolean {
    const key = this.#executor(job).sharedKey(context(run, job, 0));
    if (key === null) return false;
    return active
      .filter((other) => other.id !== run.id)
      .some((other) => running(other).some((made) => key === this.#executor(made).sharedKey(context(other, made, 0))));
  }

  #due(run: Run, job: Job): boolean {
    return (this.#retryAt.get(`${run.id}/${job.id}`) ?? 0) <= this.#now().getTime();
  }

  #slots(job: Job): number {
    return this.#executor(job).slots;
  }

  /** The executor of a job's kind; the table's type guarantees that the two belong together. */
  #executor(job: Job): StepExecutor {
    return this.#options.executors[job.kind] as StepExecutor;
  }
}

function context(run: Run, job: Job, tryNumber: number): StepContext {
  return {
    run,
    job,
    tryNumber,
    resultOf: (id) => {
      const result = stepOf(run, id).result;
      if (!result) throw new Error(`${job.id} needs the result of ${id}, which has none`);
      return result;
    },
  };
}

function stepOf(run: Run, id: string): RunStep {
  const step = run.steps.find((candidate) => candidate.id === id);
  if (!step) throw new Error(`run ${run.id} has no step ${id}`);
  return step;
}

/** A checkpoint job whose trainer still runs may start as soon as its step is complete: its executor knows. */
function ready(run: Run, job: Job): boolean {
  const started =
    job.kind !== "checkpoint" || job.train === null || ["running", "succeeded"].includes(stepOf(run, job.train).state);
  return started && job.needs.every((id) => stepOf(run, id).state === "succeeded");
}

/** How many of the newest tries got no further than an earlier one; the first to reach a new mark counts as one. */
function fruitlessTries(tries: readonly StepTry[]): number {
  let best = 0;
  let fruitless = 0;
  for (const { done } of tries) {
    fruitless = done > best ? 1 : fruitless + 1;
    best = Math.max(best, done);
  }
  return fruitless;
}

function running(run: Run): Job[] {
  return run.plan.jobs.filter((job) => stepOf(run, job.id).state === "running");
}
