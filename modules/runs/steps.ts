/**
 * Steps: what the reconciler asks of whoever carries out a job of a plan. Implemented where the modules meet
 * (modules/cli/steps); here is only the contract.
 */
import type { Job, JobKind } from "../../schemas/job.ts";
import type { Progress, Run } from "../../schemas/run.ts";

/** What a step is told each time it is asked to go on. */
export interface StepContext<K extends JobKind = JobKind> {
  readonly run: Run;
  readonly job: Extract<Job, { kind: K }>;
  /** 1 for the first start of the step, 2 after its first restart … */
  readonly tryNumber: number;
  /** The result of a step this one needs. */
  readonly resultOf: (stepId: string) => Record<string, unknown>;
}

/** How a step stands. */
export type StepStatus =
  /**
   * It cannot start yet and holds no slot; `why` where somebody should know (an outage), null where it is as planned.
   * `handedOver`: its job is in somebody's queue, which starts it by itself.
   */
  | { readonly kind: "waiting"; readonly why: string | null; readonly handedOver?: true }
  | { readonly kind: "running"; readonly progress: Progress | null }
  | { readonly kind: "succeeded"; readonly result: Record<string, unknown> }
  /** `restart`: starting it again may help (a killed process, an outage); it then goes on from what it saved. */
  | { readonly kind: "failed"; readonly error: string; readonly restart: boolean };

/** How far an asked-for end is. */
export type Ended = "gone" | "ending";

/** Carries out one kind of job. Every method is idempotent: after a kill it is simply asked again. */
export interface StepExecutor<K extends JobKind = JobKind> {
  /** Slots of the machine it holds while it runs. */
  readonly slots: number;
  /** Starts the step if it is not started, looks how it stands, returns at once. */
  advance(context: StepContext<K>): Promise<StepStatus>;
  /** The result where it is there already, made by another run or a killed controller; it then needs no slot. */
  made?(context: StepContext<K>): Promise<Record<string, unknown> | null>;
  /**
   * Steps of several runs that make the same thing have the same key: one makes it, the others wait and find it made.
   * Null for what belongs to one run alone.
   */
  sharedKey(context: StepContext<K>): string | null;
  /** Ends whatever the step started. "ending": asked for, but something of it is still there; it is asked again. */
  cancel(context: StepContext<K>): Promise<Ended>;
}

/** One executor a kind. */
export type StepExecutors = { readonly [K in JobKind]: StepExecutor<K> };
