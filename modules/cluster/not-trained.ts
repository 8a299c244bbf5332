/**
 * Not trained: a plan → why no run can be made of it, on however good a platform. Pure. `uplift train` and the controller refuse
 * what is named here; it is said before nodes are paid for.
 */
import type { Plan } from "../../schemas/plan.ts";

/** "its tasks are made up and its expert is a model: `train` refuses it"; null where a run can be made. */
export function whyNotTrained({ recipe, taskSet }: Pick<Plan, "recipe" | "taskSet">): string | null {
  const reasons = [
    ...(taskSet.standIn ? ["its tasks are made up"] : []),
    ...(recipe.tasks.kind === "dataset" && !taskSet.standIn ? ["its tasks and environments lie elsewhere"] : []),
    ...(recipe.expert.kind === "model" ? ["its expert is a model"] : []),
  ];
  return reasons.length === 0 ? null : `${reasons.join(" and ")}: \`train\` refuses it`;
}
