/**
 * A rendered configuration → every mistake in it, all at once, each with the key and who wrote it. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { valueAt } from "./config-path.ts";
import { CONSTRAINTS } from "./constraints.ts";
import { checkPitfalls } from "./pitfalls.ts";
import { checkSchema, type Finding } from "./schema-check.ts";

/** What a configuration is checked against. */
export interface AutomodelContext {
  /** The recipe's file, for messages. */
  readonly where: string;
  /** GPUs of the stage. */
  readonly world: number;
  readonly model: Model;
  /** The recipe it was rendered from: tells overrides from the rest, and which checkpoints are declared. */
  readonly recipe?: Recipe;
}

/** The mistakes of a configuration; empty when there is none. */
export function checkAutomodel(config: Record<string, unknown>, context: AutomodelContext): Issue[] {
  const { where, world, model, recipe = null } = context;
  const facts = { config, world, model };
  const ruled = CONSTRAINTS.flatMap(({ id, check }) => check(facts).map((finding) => ({ ...finding, code: id })));
  const said = new Set(ruled.map(({ key }) => key));
  // A rule that knows why says it better than a type.
  const shaped = checkSchema(config).filter(({ code, key }) => code !== "automodel-value" || !said.has(key));
  const overrides = recipe?.kind === "sft-rl" ? recipe.sft.overrides : undefined;
  const issue = ({ key, ...rest }: Finding): Issue => ({
    ...rest,
    path: `${where}: ${valueAt(overrides, key) === undefined ? `automodel: ${key}` : `sft.overrides.${key}`}`,
  });
  return [...shaped, ...ruled, ...checkPitfalls(facts, recipe)].map(issue);
}
