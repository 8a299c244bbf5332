/**
 * Plan → a page a person can read in a minute. Pure.
 */
import { shortDigest } from "../../schemas/digest.ts";
import type { Job } from "../../schemas/job.ts";
import type { Plan } from "../../schemas/plan.ts";

/** The page `uplift plan` prints. */
export function renderPlan(plan: Plan): string {
  const { recipe, taskSet, estimate } = plan;
  const lines = [
    `Plan ${shortDigest(plan.digest)}  ${plan.name}  on ${plan.target.name}`,
    "",
    ...(recipe.description ? [recipe.description, ""] : []),
    `Model       ${plan.baseModel.name} (${(plan.baseModel.bytes / 2 ** 20).toFixed(1)} MiB), context ${recipe.contextTokens} tokens`,
    `Tasks       ${recipe.tasks.family}: ${taskSet.tasks} tasks in ${taskSet.groups} near-copy groups → ${taskSet.train} train, ${taskSet.validation} validation, ${taskSet.heldOut} held out`,
    `Evaluation  preset "${recipe.evaluation.name}": ${recipe.evaluation.attempts} attempts a task, temperature ${recipe.evaluation.temperature}, at most ${recipe.evaluation.maxTurns} turns, on ${plan.serving.server}`,
    `Reported    ${recipe.report.map((r) => `${r.stage} step ${r.step}`).join(", ")} (and the base model)`,
    `Attempts    ${estimate.attempts.expert} by the expert, ${estimate.attempts.rollouts} rollouts, ${estimate.attempts.evaluation} in evaluation`,
    `Measured    like every plan of key ${shortDigest(plan.measurementKey)}`,
    "",
    "Jobs",
    ...plan.jobs.map((job) => `  ${job.id.padEnd(18)} ${describe(job).padEnd(58)} ${after(job)}`.trimEnd()),
  ];
  return `${lines.join("\n")}\n`;
}

function describe(job: Job): string {
  switch (job.kind) {
    case "collect":
      return `expert acts on ${job.splits.join(" and ")} tasks, ${job.attempts} times each`;
    case "select":
      return `tasks with expert pass rate ${job.rl.min}–${job.rl.max} for RL${job.sft ? ", trajectories for SFT" : ""}`;
    case "train":
      return `${job.stage === "sft" ? "SFT" : "GRPO"} with ${job.trainer.toUpperCase()}, ${job.steps} steps, saved every ${job.saveEverySteps}`;
    case "checkpoint":
      return job.train === null ? `register ${job.name}` : `merge, verify and store step ${job.step} of ${job.train}`;
    case "evaluate":
      return `serve ${job.checkpoint} and run every task to evaluate on`;
    case "publish":
      return "leaderboard row";
  }
}

function after(job: Job): string {
  const needs = job.kind === "checkpoint" && job.train !== null ? [job.train] : job.needs;
  return needs.length === 0 ? "" : `after ${needs.join(", ")}`;
}
