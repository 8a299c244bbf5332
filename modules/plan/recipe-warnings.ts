/**
 * Recipe → what a reader should know of it before money is spent, and that does not stop the plan. Pure.
 */
import type { Warning } from "../../schemas/plan.ts";
import { contextTokensOf } from "../../schemas/recipe.ts";
import type { CheckInputs } from "./check.ts";

/** What a reader should know of a recipe before money is spent. */
export function warnOf({ recipe, model, target }: CheckInputs): Warning[] {
  const warnings: Warning[] = [];
  if (target.kind !== "local" && !recipe.modelRevision)
    warnings.push({
      ...{ code: "model-revision-not-pinned", path: "modelRevision" },
      message: `${model?.name ?? recipe.model} is fetched at whatever commit its repository has that day`,
      todo: "set modelRevision to a commit",
    });
  if (target.kind !== "local" && recipe.expert.kind === "model")
    warnings.push({
      ...{ code: "expert-model-not-run", path: "expert" },
      message: "a model as expert: plans and prices read it, a run cannot use it yet, and `train` refuses this recipe",
      todo: 'plan and review with it; to train, use generated tasks and expert: { kind: "scripted" }',
    });
  const needed = recipe.rope ? contextTokensOf(recipe.context) / recipe.rope.originalMaxTokens : 0;
  if (recipe.rope && recipe.rope.factor > needed)
    warnings.push({
      ...{ code: "rope-factor-larger", path: "rope.factor" },
      message: `factor ${recipe.rope.factor} stretches further than the ${needed} that the context needs, which costs quality on short texts`,
      todo: `use ${needed}`,
    });
  const { min, max } = recipe.rl.tasks.passRateBand;
  if (min === max && (min === 0 || min === 1))
    warnings.push({
      ...{ code: "pass-rate-band-degenerate", path: "rl.tasks.passRateBand" },
      message: `tasks that are ${min === 1 ? "always" : "never"} solved have nothing for GRPO to compare`,
      todo: "take in tasks that are solved sometimes",
    });
  const stages = recipe.kind === "sft-rl" ? { sft: recipe.sft, rl: recipe.rl } : { rl: recipe.rl };
  for (const [name, { steps, saveEverySteps }] of Object.entries(stages))
    if (saveEverySteps > steps)
      warnings.push({
        ...{ code: "saves-only-last", path: `${name}.saveEverySteps` },
        message: `only step ${steps} is saved: a crash before it loses the whole stage`,
        todo: `save more often than every ${steps} steps`,
      });
  if (recipe.rope && recipe.rope.factor > 4)
    warnings.push({
      ...{ code: "rope-factor-untried", path: "rope.factor" },
      message: `factor ${recipe.rope.factor} is beyond the 4 that Qwen documents for YaRN`,
      todo: "evaluate the base model at this length first",
    });
  return warnings;
}
