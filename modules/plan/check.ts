/**
 * Recipe + model + target → every mistake in the recipe that its schema cannot see, all at once. Pure.
 */
import type { Issue } from "../../schemas/error.ts";
import type { Model } from "../../schemas/model.ts";
import { contextTokensOf, type Recipe } from "../../schemas/recipe.ts";
import type { Target } from "../../schemas/target.ts";
import { checkContext } from "./check-context.ts";

/** What a recipe is checked against. */
export interface CheckInputs {
  readonly recipe: Recipe;
  readonly target: Target;
  /** The model's row; null for one that is only a folder. */
  readonly model: Model | null;
  /** Tokens the model was made for; null where its files do not say. */
  readonly nativeContextTokens: number | null;
}

/** A mistake without the file it is in. */
type Mistake = Issue;

/** The mistakes that a recipe shows by itself, by the field's path. */
export function checkAlone(recipe: Recipe): Mistake[] {
  return [...checkReports(recipe), ...checkTasks(recipe), ...checkAnswers(recipe), ...checkStages(recipe)];
}

/** The mistakes of a recipe on a target; empty when there is none. */
export function checkRecipe(inputs: CheckInputs): Mistake[] {
  return [...checkAlone(inputs.recipe), ...checkContext(inputs), ...checkTarget(inputs)];
}

function checkReports(recipe: Recipe): Mistake[] {
  return recipe.report.flatMap((report, index): Mistake[] => {
    const path = `report.${index}`;
    const first = recipe.report.findIndex(({ stage, step }) => stage === report.stage && step === report.step);
    if (first < index)
      return [
        {
          ...{ code: "report-twice", path },
          asked: `step ${report.step} of ${report.stage} is to be reported`,
          found: `report.${first} is the same checkpoint`,
          allowed: "each checkpoint once",
          todo: "remove one of the two",
        },
      ];
    const stage = report.stage === "sft" ? (recipe.kind === "sft-rl" ? recipe.sft : null) : recipe.rl;
    if (stage === null)
      return [
        {
          ...{ code: "report-stage-missing", path },
          asked: "a checkpoint of the SFT stage is to be reported",
          found: "this recipe trains by RL alone",
          allowed: 'stage "rl"',
          todo: "report an RL step, or use sftThenRl",
        },
      ];
    if (report.step <= stage.steps && (report.step % stage.saveEverySteps === 0 || report.step === stage.steps))
      return [];
    return [
      {
        ...{ code: "report-step-not-saved", path },
        asked: `step ${report.step} of ${report.stage} is to be reported`,
        found: `the stage has ${stage.steps} steps and saves every ${stage.saveEverySteps}`,
        allowed: `multiples of ${stage.saveEverySteps} up to ${stage.steps}, and ${stage.steps}`,
        todo: "report a step that is saved, or change saveEverySteps",
      },
    ];
  });
}

function checkTasks(recipe: Recipe): Mistake[] {
  const mistakes: Mistake[] = [];
  const { of, min, max } = recipe.rl.tasks.passRateBand;
  const band = "rl.tasks.passRateBand";
  if (min > max)
    mistakes.push({
      ...{ code: "pass-rate-band-empty", path: band },
      asked: `a pass rate from ${min} to ${max}`,
      found: "no number lies in that band",
      allowed: "min ≤ max, both in 0…1",
      todo: "swap the two",
    });
  if (of === "sft" && recipe.kind === "rl")
    mistakes.push({
      ...{ code: "pass-rate-model-unknown", path: `${band}.of` },
      asked: "RL tasks are chosen by the pass rates of this recipe's SFT checkpoint",
      found: "this recipe trains by RL alone and has none",
      allowed: '"expert", "base", or a model whose pass rates the dataset\'s index has',
      todo: "name one of these, or use sftThenRl",
    });
  const known = of === "expert" || of === "base" || of === "sft";
  const { tasks, expert } = recipe;
  if (tasks.kind === "generated") {
    const { heldOut, validation } = tasks.split;
    if (heldOut + validation >= tasks.count)
      mistakes.push({
        ...{ code: "split-impossible", path: "tasks" },
        asked: `${heldOut} held-out and ${validation} validation tasks`,
        found: `only ${tasks.count} tasks are generated, which leaves none to train on`,
        allowed: `heldOut + validation < ${tasks.count}`,
        todo: "generate more tasks or hold out fewer",
      });
    if (!known)
      mistakes.push({
        ...{ code: "pass-rate-model-unknown", path: `${band}.of` },
        asked: `RL tasks are chosen by the pass rates of "${of}"`,
        found: "generated tasks have no index that would hold them",
        allowed: '"expert", "base" or "sft"',
        todo: "name one of these",
      });
  } else if (expert.kind === "scripted")
    mistakes.push({
      ...{ code: "expert-unfit", path: "expert" },
      asked: "a scripted expert acts on the tasks of a dataset",
      found: "only generated families have a scripted expert",
      allowed: '{ kind: "model", model: "…" }',
      todo: "name the expert model",
    });
  return mistakes;
}

function checkAnswers(recipe: Recipe): Mistake[] {
  const tokens = contextTokensOf(recipe.context);
  const answers = {
    "rl.maxTokensPerTurn": recipe.rl.maxTokensPerTurn,
    "evaluation.maxTokensPerTurn": recipe.evaluation.maxTokensPerTurn,
  };
  return Object.entries(answers)
    .filter(([, answer]) => answer >= tokens)
    .map(([path, answer]) => ({
      ...{ code: "context-too-short", path },
      asked: `${answer} tokens in one answer`,
      found: `the context is ${tokens} tokens, prompt included`,
      allowed: `less than ${tokens}`,
      todo: "lower it or raise context",
    }));
}

function checkStages(recipe: Recipe): Mistake[] {
  const mistakes: Mistake[] = [];
  const { rl } = recipe;
  const { rollouts, parallelism } = rl;
  if (rollouts.placement === "dedicated" && parallelism?.nodes !== undefined && rollouts.nodes >= parallelism.nodes)
    mistakes.push({
      ...{ code: "rollouts-leave-no-trainer", path: "rl.rollouts.nodes" },
      asked: `${rollouts.nodes} of ${parallelism.nodes} nodes only generate`,
      found: "no node is left to train",
      allowed: `at most ${parallelism.nodes - 1}`,
      todo: "lower it or raise rl.parallelism.nodes",
    });
  if (rollouts.placement === "dedicated" && rollouts.async && rollouts.async.maxAgeSteps >= rl.steps)
    mistakes.push({
      ...{ code: "rollouts-too-old", path: "rl.rollouts.async.maxAgeSteps" },
      asked: `rollouts may be ${rollouts.async.maxAgeSteps} steps old`,
      found: `the stage has ${rl.steps} steps`,
      allowed: `less than ${rl.steps}; 1 is usual`,
      todo: "lower it",
    });
  const stages = recipe.kind === "sft-rl" ? { sft: recipe.sft, rl } : { rl };
  for (const [name, { steps, warmupSteps }] of Object.entries(stages))
    if (warmupSteps >= steps)
      mistakes.push({
        ...{ code: "warmup-too-long", path: `${name}.warmupSteps` },
        asked: `the learning rate rises over ${warmupSteps} steps`,
        found: `the stage has ${steps}`,
        allowed: `less than ${steps}`,
        todo: "lower warmupSteps or raise steps",
      });
  if (recipe.kind !== "sft-rl") return mistakes;
  const { batchSize, data } = recipe.sft;
  if (data.maxTrajectories !== undefined && data.maxTrajectories < batchSize)
    mistakes.push({
      ...{ code: "sft-batch-too-large", path: "sft.batchSize" },
      asked: `${batchSize} trajectories a step`,
      found: `at most ${data.maxTrajectories} are kept in all`,
      allowed: `at most ${data.maxTrajectories}`,
      todo: "lower batchSize or raise data.maxTrajectories",
    });
  return mistakes;
}

function checkTarget({ recipe, target, model }: CheckInputs): Mistake[] {
  const mistakes: Mistake[] = [];
  const not = (path: string, issue: Omit<Issue, "code" | "path">) =>
    mistakes.push({ ...{ code: "not-on-this-target", path }, ...issue });
  if (target.kind === "local") {
    if (recipe.expert.kind === "model")
      not("expert", {
        asked: `${recipe.expert.model} as expert`,
        found: "the local target serves no expert model",
        allowed: '{ kind: "scripted" }',
        todo: "use the scripted expert, or plan for a cluster target",
      });
    return mistakes;
  }
  if (model === null)
    mistakes.push({
      ...{ code: "model-unsized", path: "model" },
      asked: `${recipe.model} is trained on ${target.name}`,
      found: "schemas/model.ts has no row for it, so its memory cannot be computed",
      allowed: "a model with a row there",
      todo: "add its row, from its config.json",
    });
  if (recipe.server === "light")
    not("server", {
      asked: "the light server",
      found: `${target.name} serves with vLLM`,
      allowed: '"vllm"',
      todo: "leave server out",
    });
  if (recipe.expert.kind === "model" && !target.expertUrl)
    mistakes.push({
      ...{ code: "expert-unreachable", path: "expert" },
      asked: `${recipe.expert.model} acts on the tasks`,
      found: `the target ${target.name} names no endpoint of an expert`,
      allowed: "a target with expertUrl",
      todo: `set expertUrl in stacks/targets/${target.name}.ts`,
    });
  return mistakes;
}
