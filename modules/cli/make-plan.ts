/**
 * Recipe file + target → plan, with the task set the plan names. Gathers the facts that planning itself must not
 * look up: generates the task set, hashes the base model.
 */
import type { ServerKind } from "../../schemas/endpoint.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { Target } from "../../schemas/target.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { digestFiles, hashFiles } from "../checkpoints/index.ts";
import { HARNESS_VERSION } from "../evaluation/index.ts";
import { compilePlan, type EvaluatedSplit, parseRecipe } from "../plan/index.ts";
import { buildTaskSet, EXPERT_VERSION, taskSetDigest } from "../tasks/index.ts";
import { trl } from "../trainers/index.ts";
import { baseModelFolder, loadRecipe } from "./project.ts";

/** A plan and the tasks it is about. */
export interface PlannedRecipe {
  readonly plan: Plan;
  readonly taskSet: TaskSet;
}

/** What may be said beside a recipe: the tasks that are evaluated, and another server than the recipe's or target's. */
export interface PlanOptions {
  readonly split?: EvaluatedSplit;
  readonly server?: ServerKind;
}

/** Plans one recipe file on a target. */
export async function makePlan(file: string, target: Target, options: PlanOptions = {}): Promise<PlannedRecipe> {
  const loaded = await loadRecipe(file);
  const written = parseRecipe(loaded.recipe, file);
  const recipe = { ...written, server: options.server ?? written.server };
  const { family, seed, tasks, heldOut, validation } = recipe.tasks;
  const [taskSet, baseModel] = await Promise.all([
    buildTaskSet({ family, seed, tasks, heldOut, validation }),
    describeBaseModel(recipe.model),
  ]);
  const plan = compilePlan({
    recipe,
    file,
    defaultName: loaded.name,
    target,
    taskSet: {
      digest: taskSetDigest(taskSet),
      familyDigest: taskSet.family.digest,
      tasks: taskSet.tasks.length,
      groups: Object.keys(taskSet.groups).length,
      train: taskSet.splits.train.length,
      validation: taskSet.splits.validation.length,
      heldOut: taskSet.splits["held-out"].length,
    },
    baseModel,
    harness: HARNESS_VERSION,
    expert: EXPERT_VERSION,
    split: options.split ?? "held-out",
    render: trl.renderConfig,
  });
  return { plan, taskSet };
}

/** Name, digest and size of a base model's files. */
async function describeBaseModel(model: string) {
  const files = await hashFiles(await baseModelFolder(model));
  return { name: model, digest: digestFiles(files), bytes: files.reduce((sum, file) => sum + file.bytes, 0) };
}
