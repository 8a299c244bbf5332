/**
 * Recipe file + target → plan, with the task set the plan names. Gathers the facts that planning itself must not
 * look up: generates the task set or reads its index, hashes the base model, brings the trainers' adapters.
 */
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { DatasetIndex } from "../../schemas/dataset.ts";
import { digestJson } from "../../schemas/digest.ts";
import type { ServerKind } from "../../schemas/endpoint.ts";
import { type Issue, located, UserError } from "../../schemas/error.ts";
import { MODELS, type Model, modelFacts } from "../../schemas/model.ts";
import type { Plan, PlanBody, TaskSetSummary } from "../../schemas/plan.ts";
import { contextTokensOf, type Recipe } from "../../schemas/recipe.ts";
import type { Target } from "../../schemas/target.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { digestFiles, hashFiles } from "../checkpoints/index.ts";
import { HARNESS_VERSION } from "../evaluation/index.ts";
import { checkAlone, compilePlan, type EvaluatedSplit, type PlanInputs, parseRecipe } from "../plan/index.ts";
import {
  buildTaskSet,
  checkDataset,
  type DatasetUse,
  EXPERT_VERSION,
  parseDatasetIndex,
  passRateKey,
  summariseDataset,
  taskSetDigest,
} from "../tasks/index.ts";
import { trainers } from "../trainers/index.ts";
import { nearest } from "./did-you-mean.ts";
import { baseModelFolder, isModelFolder, PROJECT_DIR } from "./project.ts";
import { loadRecipe } from "./recipe-file.ts";

/** A plan and the tasks it is about; null where the tasks lie elsewhere. */
export interface PlannedRecipe {
  readonly plan: Plan;
  readonly taskSet: TaskSet | null;
}

/** What may be said beside a recipe: the tasks that are evaluated, and another server than the recipe's or target's. */
export interface PlanOptions {
  readonly split?: EvaluatedSplit;
  readonly server?: ServerKind;
}

/** Plans one recipe file on a target. */
export async function makePlan(file: string, target: Target, options: PlanOptions = {}): Promise<PlannedRecipe> {
  const { inputs, taskSet } = await gatherFacts(file, target, options);
  return { plan: compilePlan(inputs), taskSet };
}

/** Throws what is wrong with a recipe file by itself, whatever the target. */
export async function checkRecipeFile(file: string): Promise<void> {
  const loaded = await loadRecipe(file);
  const locate = (path: string) => loaded.locate(path) ?? `${file}: ${path}`;
  const mistakes = checkAlone(parseRecipe(loaded.recipe, locate));
  if (mistakes.length > 0) throw new UserError(located(mistakes, locate));
}

/** Everything a plan is made from, so that planning itself looks nothing up. */
export async function gatherFacts(
  file: string,
  target: Target,
  options: PlanOptions = {},
): Promise<{ inputs: PlanInputs; taskSet: TaskSet | null }> {
  const loaded = await loadRecipe(file);
  const locate = (path: string) =>
    path.startsWith("target.")
      ? `target ${target.name}: ${path.slice("target.".length)}`
      : (loaded.locate(path) ?? `${file}: ${path}`);
  const written = parseRecipe(loaded.recipe, locate);
  const recipe = { ...written, server: options.server ?? written.server };
  const [tasks, base] = await both(describeTasks(recipe, file, locate), describeModel(recipe, target, locate), () =>
    located(checkAlone(recipe), locate),
  );
  const inputs: PlanInputs = {
    ...{ recipe, locate, target, trainers, ...base },
    defaultName: loaded.name,
    taskSet: tasks.summary,
    harness: HARNESS_VERSION,
    expert: recipe.expert.kind === "scripted" ? EXPERT_VERSION : recipe.expert.model,
    split: options.split ?? "held-out",
  };
  return { inputs, taskSet: tasks.taskSet };
}

/** Both facts, or one error with everything that is wrong with either and with the recipe by itself. */
async function both<A, B>(first: Promise<A>, second: Promise<B>, alone: () => readonly Issue[]): Promise<[A, B]> {
  const [a, b] = await Promise.allSettled([first, second]);
  if (a.status === "fulfilled" && b.status === "fulfilled") return [a.value, b.value];
  const reasons: unknown[] = [a, b].flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  const defect = reasons.find((reason) => !(reason instanceof UserError));
  if (defect !== undefined) throw defect;
  const found = reasons.flatMap((reason) => (reason instanceof UserError ? reason.issues : []));
  const mistakes = alone();
  // Tasks that cannot be split or chosen follow from mistakes that are already named.
  const own = new Set(mistakes.map(({ path }) => path));
  throw new UserError([...mistakes, ...found.filter(({ path }) => !own.has(path))]);
}

/** What a recipe wants of its dataset's index. */
export function datasetUse(recipe: Recipe, index: DatasetIndex): DatasetUse {
  if (recipe.tasks.kind !== "dataset") throw new TypeError("generated tasks have no index");
  const { passRateBand, dropAlwaysSolvedBy } = recipe.rl.tasks;
  const { of, min, max } = passRateBand;
  const expertModel = recipe.expert.kind === "model" ? recipe.expert.model : null;
  return {
    ...{ split: recipe.tasks.split, seed: recipe.tasks.seed, contextTokens: contextTokensOf(recipe.context) },
    band: { of: passRateKey(index, of, { expertModel, baseModel: recipe.model }), min, max },
    ...{ expertModel, dropAlwaysSolvedBy: dropAlwaysSolvedBy ?? null },
  };
}

/** The recipe's tasks: generated here, or counted from the index of those that lie elsewhere. */
async function describeTasks(
  recipe: Recipe,
  file: string,
  locate: (path: string) => string,
): Promise<{ summary: TaskSetSummary; taskSet: TaskSet | null }> {
  const { tasks } = recipe;
  if (tasks.kind === "dataset") {
    const path = resolve(dirname(resolve(file)), tasks.index);
    const text = await readFile(path, "utf8").catch(() => null);
    if (text === null)
      throw new UserError({
        ...{ code: "dataset-missing", path: locate("tasks.index") },
        asked: `the tasks listed in ${tasks.index}`,
        found: "there is no such file beside the recipe",
        allowed: "a path from the recipe's folder to an index (schemas/dataset.ts)",
        todo: "correct the path",
      });
    const index = parseDatasetIndex(text, tasks.index);
    try {
      const wrong = checkDataset(index, tasks);
      if (wrong.length > 0) throw new UserError(wrong);
      return { summary: summariseDataset(index, datasetUse(recipe, index)), taskSet: null };
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(located(error.issues, locate));
    }
  }
  const { family, seed, count, split } = tasks;
  const taskSet = await buildTaskSet({ ...{ family, seed, tasks: count }, ...split });
  const digest = taskSetDigest(taskSet);
  if (tasks.digest && tasks.digest !== digest)
    throw new UserError({
      ...{ code: "dataset-digest-mismatch", path: locate("tasks.digest") },
      asked: `the task set with digest ${tasks.digest} is meant`,
      found: `${family} with seed ${seed} gives ${digest}`,
      allowed: "the digest of the tasks that are there",
      todo: `get the family as it was, or, if the change is meant, write digest: "${digest}"; older results are then not comparable`,
    });
  const summary: TaskSetSummary = {
    digest,
    familyDigest: taskSet.family.digest,
    standIn: false,
    tasks: taskSet.tasks.length,
    groups: Object.keys(taskSet.groups).length,
    train: taskSet.splits.train.length,
    validation: taskSet.splits.validation.length,
    heldOut: taskSet.splits["held-out"].length,
    ...{ heldOutUnsolved: null, rlTasks: null, tooLong: [], solutionTokens: null },
  };
  return { summary, taskSet };
}

interface DescribedModel {
  readonly baseModel: PlanBody["baseModel"];
  readonly model: Model | null;
  readonly nativeContextTokens: number | null;
}

/** A row of schemas/model.ts where a cluster fetches the model; else a folder here, hashed. */
async function describeModel(
  recipe: Recipe,
  target: Target,
  locate: (path: string) => string,
): Promise<DescribedModel> {
  const { model: name, modelRevision } = recipe;
  const model = modelFacts(name);
  const revision = modelRevision ?? null;
  if (model && target.kind !== "local") {
    // Its files are not here; the facts of its row are only what we know of it.
    const digest = digestJson({ model: name, revision });
    return {
      // Two bytes a parameter: bfloat16.
      baseModel: { name, revision, digest, bytes: 2 * model.parameters },
      model,
      nativeContextTokens: model.nativeContextTokens,
    };
  }
  const rows = Object.keys(MODELS);
  if (target.kind !== "local" && !(await isModelFolder(name))) {
    const guess = nearest(name, rows);
    throw new UserError({
      ...{ code: "model-missing", path: locate("model") },
      asked: `the base model "${name}"`,
      found: "it has no row in schemas/model.ts, and there is no such folder",
      allowed: rows.join(", "),
      todo: guess ? `did you mean "${guess}"?` : "use one of those, or add its row, from its config.json",
    });
  }
  const folder = await baseModelFolder(name, PROJECT_DIR, locate("model"));
  const files = await hashFiles(folder);
  const config: { max_position_embeddings?: number } = JSON.parse(await readFile(join(folder, "config.json"), "utf8"));
  return {
    baseModel: { name, revision, digest: digestFiles(files), bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) },
    model,
    nativeContextTokens: config.max_position_embeddings ?? null,
  };
}
