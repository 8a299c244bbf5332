/**
 * Outages: an error → whether what a step needs is only away for a while (Slurm, S3, Kubernetes, shared storage), and how a step
 * stands meanwhile. Pure.
 */
import { UserError } from "../../../schemas/error.ts";
import type { Progress, RunStep } from "../../../schemas/run.ts";
import type { StepContext, StepStatus } from "../../runs/index.ts";

/** Codes of UserErrors that say a service does not answer, or takes nothing yet: nobody's mistake, and over by itself. */
const CODES = new Set([
  ...["slurm-unreachable", "slurm-nodes-missing", "slurm-partition-closed"],
  ...["object-store-unreachable", "kubernetes-unreachable"],
]);
/** What a file system over a network says when its servers fail over. That a file is not there is never one of these. */
const STORAGE = new Set(["EIO", "ESTALE", "ESHUTDOWN", "ENOTCONN", "ETIMEDOUT"]);

/** Whether the same may well work in a while, with nothing changed. */
export function isOutage(error: unknown): error is Error {
  if (error instanceof UserError) return CODES.has(error.code);
  return error instanceof Error && "code" in error && STORAGE.has(String(error.code));
}

/** The record of the step that is asked; a defect where the run has none. */
export function stepIn({ run, job }: Pick<StepContext, "run" | "job">): RunStep {
  const step = run.steps.find(({ id }) => id === job.id);
  if (!step) throw new Error(`run ${run.id} has no step ${job.id}`);
  return step;
}

/**
 * The step stays as it is, for this reason. What runs is never said to wait, and what is in a queue never to be out of it: its next
 * look would be at another try, which would be a second one. `known`: how far it is, where that is known better than it is recorded.
 */
export function asItStands(
  context: Pick<StepContext, "run" | "job">,
  why: string,
  known: Progress | null = null,
): StepStatus {
  const step = stepIn(context);
  if (step.state !== "running") return { kind: "waiting", why, ...(step.handedOver && { handedOver: true }) };
  const progress = known ?? step.progress;
  return { kind: "running", progress: progress && { ...progress, note: why, etaSeconds: null } };
}
