/**
 * Recipe file + target → plan, with the task set the plan names. Gathers the facts that planning itself must not
 * look up: generates the task set, hashes the base model.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Plan } from "../../schemas/plan.ts";
import type { Target } from "../../schemas/target.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { trainersToolchain } from "../../stacks/toolchain.ts";
import { digestFiles, hashFiles } from "../checkpoints/index.ts";
import { HARNESS_VERSION } from "../evaluation/index.ts";
import { compilePlan, parseRecipe } from "../plan/index.ts";
import { buildTaskSet, taskSetDigest } from "../tasks/index.ts";
import { trl } from "../trainers/index.ts";
import { baseModelFolder, loadRecipe, PROJECT_DIR } from "./project.ts";
import { CACHE_DIR } from "./session.ts";

/** A plan and the tasks it is about. */
export interface PlannedRecipe {
  readonly plan: Plan;
  readonly taskSet: TaskSet;
}

/** Plans one recipe file on a target. */
export async function makePlan(file: string, target: Target): Promise<PlannedRecipe> {
  const loaded = await loadRecipe(file);
  const recipe = parseRecipe(loaded.recipe, file);
  const { family, seed, tasks, heldOut, validation } = recipe.tasks;
  const [taskSet, baseModel] = await Promise.all([
    buildTaskSet({ family, seed, tasks, heldOut, validation }),
    describeBaseModel(recipe.model),
  ]);
  const plan = compilePlan({
    recipe: loaded.recipe,
    file,
    defaultName: loaded.name,
    target: { ...target, server: await serverOf(target) },
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
    render: trl.renderConfig,
  });
  return { plan, taskSet };
}

/** vLLM can't be installed on every machine: where set-up left it out, the plan says that the light server measures. */
async function serverOf(target: Target): Promise<Target["server"]> {
  const { python } = await trainersToolchain(PROJECT_DIR, CACHE_DIR);
  const installed = await readFile(join(dirname(dirname(python)), ".complete"), "utf8").catch(() => "full");
  return installed.trim() === "light" ? "light" : target.server;
}

/** Name, digest and size of a base model's files. */
async function describeBaseModel(model: string) {
  const files = await hashFiles(await baseModelFolder(model));
  return { name: model, digest: digestFiles(files), bytes: files.reduce((sum, file) => sum + file.bytes, 0) };
}
