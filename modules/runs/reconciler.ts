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

  /** Asks every step that runs, or whose job somebody else will start, how it stands. */
  async #watch(run: Run): Promise<void> {
    for (const job of underWay(run)) {
      const step = stepOf(run, job.id);
      if (step.state === "running") await this.#record(run, job, step, await this.#ask(run, job, step.tries));
      else if (!isBroken(run)) await this.#askNext(run, job, step);
    }
  }

  /** Starts what is ready, as far as there are slots. */
  async #start(run: Run, active: readonly Run[], wanted: (job: Job) => boolean): Promise<void> {
    if (run.state !== "running") return;
    for (const job of run.plan.jobs.filter(wanted)) {
      if (isBroken(run)) return;
      const step = stepOf(run, job.id);
      if (step.state !== "pending" || step.handedOver || !ready(run, job) || !this.#due(run, job)) continue;
      const made = await this.#made(run, job, step);
      if (made) await this.#record(run, job, step, made);
      else if (this.#slots(job) <= this.#free(active) && !this.#madeElsewhere(run, job, active))
        await this.#askNext(run, job, step);
    }
  }

  /** The result where it is there already. Where that cannot be told, the step waits and says why. */
  async #made(run: Run, job: Job, step: RunStep): Promise<StepStatus | null> {
    try {
      const result = await this.#executor(job).made?.(context(run, job, step.tries + 1));
      return result ? { kind: "succeeded", result } : null;
    } catch (error) {
      return { kind: "waiting", why: messageOf(error) };
    }
  }

  /** Asks for a pending step's next try, which is written down first: after a kill its number is not given out again. */
  async #askNext(run: Run, job: Job, step: RunStep): Promise<void> {
    const next = step.tries + 1;
    if (step.asked < next) {
      step.asked = next;
      await this.#options.store.saveStep(run.id, step);
    }
    const status = await this.#ask(run, job, next);
    if (status.kind !== "waiting")
      Object.assign(step, { tries: next, startedAt: step.startedAt ?? this.#now().toISOString() });
    await this.#record(run, job, step, status);
  }

  #free(active: readonly Run[]): number {
    return active.flatMap(running).reduce((free, job) => free - this.#slots(job), this.#options.slots);
  }

  /** A step whose executor throws has failed with that error; the loop goes on for all others. */
  async #ask(run: Run, job: Job, tryNumber: number): Promise<StepStatus> {
    try {
      return await this.#executor(job).advance(context(run, job, tryNumber));
    } catch (error) {
      return { kind: "failed", error: messageOf(error), restart: false };
    }
  }

  async #record(run: Run, job: Job, step: RunStep, status: StepStatus): Promise<void> {
    const now = this.#now().toISOString();
    const before = JSON.stringify(step);
    step.handedOver = status.kind === "waiting" && status.handedOver === true;
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
    if (run.state !== "running") return;
    const now = this.#now().toISOString();
    if (run.steps.every((step) => step.state === "succeeded"))
      await this.#options.store.setState(run.id, "succeeded", null, now);
    if (!isBroken(run)) return;
    // What runs may end well and is kept; what was only asked for would start for nothing, hours later.
    const isRunning = running(run).length > 0;
    if (!(await this.#end(run, isRunning ? isAskedFor : withoutResult))) return;
    for (const step of run.steps.filter(isAskedFor)) {
      // Its number is used up.
      Object.assign(step, { tries: step.asked, handedOver: false, error: null });
      await this.#options.store.saveStep(run.id, step);
    }
    if (isRunning) return;
    const broken = run.steps.filter((step) => step.state === "failed");
    const error = broken.map((step) => `${step.id}: ${step.error}`).join("\n");
    await this.#options.store.setState(run.id, "failed", error, now);
  }

  /** While something of it is still there the run stays as it is, and is looked at again. */
  async #cancel(run: Run): Promise<void> {
    if (!(await this.#end(run, withoutResult))) return;
    const now = this.#now().toISOString();
    for (const step of run.steps.filter(({ state }) => state === "running" || state === "pending")) {
      // What it waited for is of no interest any more; what broke it is.
      const error = isAskedFor(step) ? null : step.error;
      await this.#options.store.saveStep(run.id, {
        ...step,
        state: "cancelled",
        handedOver: false,
        error,
        endedAt: now,
      });
    }
    await this.#options.store.setState(run.id, "cancelled", null, now);
  }

  /**
   * Asks for the end of what these steps may have started, also of a start that a killed controller did not write down; whether
   * all of it is gone. All are asked, though one of them cannot be ended now.
   */
  async #end(run: Run, wanted: (step: RunStep) => boolean): Promise<boolean> {
    let isGone = true;
    const errors: unknown[] = [];
    for (const job of run.plan.jobs) {
      const step = stepOf(run, job.id);
      if (!wanted(step)) continue;
      try {
        for (const tryNumber of [step.tries, step.tries + 1])
          if (tryNumber > 0 && (await this.#executor(job).cancel(context(run, job, tryNumber))) === "ending")
            isGone = false;
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `${run.id}: ${errors.map(messageOf).join("\n")}`);
    return isGone;
  }

  /** Whether another run is making what this job would make, or has asked for it. */
  #madeElsewhere(run: Run, job: Job, active: readonly Run[]): boolean {
    const key = this.#executor(job).sharedKey(context(run, job, 0));
    if (key === null) return false;
    return active
      .filter((other) => other.id !== run.id)
      .some((other) => underWay(other).some((made) => key === this.#executor(made).sharedKey(context(other, made, 0))));
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

/** The jobs that run or wait in a queue of somebody who starts them. */
function underWay(run: Run): Job[] {
  return run.plan.jobs.filter(({ id }) => {
    const { state, handedOver } = stepOf(run, id);
    return state === "running" || (state === "pending" && handedOver);
  });
}

function isBroken(run: Run): boolean {
  return run.steps.some((step) => step.state === "failed");
}

function withoutResult(step: RunStep): boolean {
  return step.state !== "succeeded";
}

/** Whether a pending step's next try may have been started or handed over. */
function isAskedFor(step: RunStep): boolean {
  return step.state === "pending" && step.asked > step.tries;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
