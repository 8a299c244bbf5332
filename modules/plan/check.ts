/**
 * Recipe → every mistake in it that the schema cannot see, all at once. Pure.
 */
import type { Issue } from "../../schemas/error.ts";
import type { Recipe } from "../../schemas/recipe.ts";

/** The mistakes of a recipe; empty when there is none. `where` is the recipe's file. */
export function checkRecipe(recipe: Recipe, where: string): Issue[] {
  const issues: Issue[] = [];
  const add = (path: string, issue: Omit<Issue, "path">) => issues.push({ ...issue, path: `${where}: ${path}` });

  recipe.report.forEach((report, index) => {
    const path = `report.${index}`;
    const stage = report.stage === "sft" ? (recipe.kind === "sft-rl" ? recipe.sft : null) : recipe.rl;
    if (stage === null) {
      add(path, {
        code: "report-stage-missing",
        asked: "a checkpoint of the SFT stage is to be reported",
        found: "this recipe trains by RL alone",
        allowed: 'stage "rl"',
        todo: "report an RL step, or use sftThenRl",
      });
      return;
    }
    if (report.step > stage.steps || (report.step % stage.saveEverySteps !== 0 && report.step !== stage.steps)) {
      add(path, {
        code: "report-step-not-saved",
        asked: `step ${report.step} of ${report.stage} is to be reported`,
        found: `the stage has ${stage.steps} steps and saves every ${stage.saveEverySteps}`,
        allowed: `multiples of ${stage.saveEverySteps} up to ${stage.steps}, and ${stage.steps}`,
        todo: "report a step that is saved, or change saveEverySteps",
      });
    }
  });

  const { min, max } = recipe.rl.tasks.passRateBand;
  if (min > max)
    add("rl.tasks.passRateBand", {
      code: "pass-rate-band-empty",
      asked: `a pass rate from ${min} to ${max}`,
      found: "no number lies in that band",
      allowed: "min ≤ max, both in 0…1",
      todo: "swap the two",
    });

  const { tasks } = recipe;
  if (tasks.heldOut + tasks.validation >= tasks.tasks)
    add("tasks", {
      code: "split-impossible",
      asked: `${tasks.heldOut} held-out and ${tasks.validation} validation tasks`,
      found: `only ${tasks.tasks} tasks are generated, which leaves none to train on`,
      allowed: `heldOut + validation < ${tasks.tasks}`,
      todo: "generate more tasks or hold out fewer",
    });

  const answers = {
    "rl.maxTokensPerTurn": recipe.rl.maxTokensPerTurn,
    "evaluation.maxTokensPerTurn": recipe.evaluation.maxTokensPerTurn,
  };
  for (const [path, tokens] of Object.entries(answers))
    if (tokens >= recipe.contextTokens)
      add(path, {
        code: "context-too-short",
        asked: `${tokens} tokens in one answer`,
        found: `the context is ${recipe.contextTokens} tokens, prompt included`,
        allowed: `less than ${recipe.contextTokens}`,
        todo: "lower it or raise contextTokens",
      });
  return issues;
}
