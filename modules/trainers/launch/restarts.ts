/**
 * Restarts: plan + train job → the most times its job may start itself again before its last step. Pure. A bound on
 * money: the script's own rule, that each start must save a new step, would let a stage that crawls go on for weeks.
 */
import type { TrainJob } from "../../../schemas/job.ts";
import type { Launch } from "../../../schemas/launch.ts";
import type { Plan } from "../../../schemas/plan.ts";

/** Slurm counts restarts after lost nodes and preemptions as well: as many of those as there are planned jobs. */
const STARTS_A_JOB = 2;

/** Twice the jobs of the high estimate; one a step where nothing was estimated. */
export function mostRestarts(plan: Plan, job: TrainJob, launch: Launch): number {
  const cost = plan.estimate.cost?.stages.find(({ stage }) => stage === job.stage);
  if (!cost) return job.steps;
  const useful = Math.max(1, launch.walltimeSeconds - launch.saveBeforeEndSeconds);
  return STARTS_A_JOB * Math.max(1, Math.ceil((cost.hours.high * 3600) / useful));
}
