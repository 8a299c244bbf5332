/**
 * A rendered configuration → every mistake in it, all at once, each with the field or the override that it comes from,
 * and the overrides that contradict the plan. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { joined, type Origin, ownedOverrides, pathOf } from "../owners.ts";
import { CONSTRAINTS } from "./constraints.ts";
import { AUTOMODEL_OWNERS } from "./owners.ts";
import { checkPitfalls } from "./pitfalls.ts";
import { checkSchema, type Finding } from "./schema-check.ts";
import { checkTargets } from "./targets.ts";

/** What a configuration is checked against. */
export interface AutomodelContext {
  /** GPUs of the stage. */
  readonly world: number;
  readonly model: Model;
  /** The recipe it was rendered from: tells which field or override a mistake comes from. */
  readonly recipe: Recipe;
}

/** What a configuration itself does wrong, by its own keys. */
export function automodelFindings(
  config: Record<string, unknown>,
  { world, model }: Pick<AutomodelContext, "world" | "model">,
): Finding[] {
  const facts = { config, world, model };
  const ruled = CONSTRAINTS.flatMap(({ id, check }) => check(facts).map((finding) => ({ ...finding, code: id })));
  const targets = checkTargets(config);
  const said = new Set([...ruled, ...targets].map(({ key }) => key));
  // A rule that knows why says it better than a type.
  const shaped = checkSchema(config).filter(({ code, key }) => code !== "automodel-value" || !said.has(key));
  return [...shaped, ...targets, ...ruled, ...checkPitfalls(facts)];
}

/** The mistakes of a rendered configuration, by the recipe's fields; empty when there is none. */
export function checkAutomodel(config: Record<string, unknown>, context: AutomodelContext): Issue[] {
  const { recipe } = context;
  const overrides = recipe.kind === "sft-rl" ? recipe.sft.overrides : undefined;
  const origin: Origin = { stage: "sft", recipe, overrides };
  const findings = automodelFindings(config, context).map(({ key, asked, ...rest }): Issue => {
    const path = pathOf(AUTOMODEL_OWNERS, key, origin);
    // Where the path is a field of the recipe, the message still says which key of the trainer's it became.
    return { ...rest, path, asked: path.endsWith(key) || asked.includes(key) ? asked : `${asked} (${key})` };
  });
  const owned = ownedOverrides(AUTOMODEL_OWNERS, origin, "automodel-override-owned");
  const unknown = ["am-unknown-keys", "automodel-misspelt-key", "automodel-target-not-allowed"];
  return joined(findings, owned, { unknown, value: "automodel-value" });
}
