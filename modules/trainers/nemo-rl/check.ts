/**
 * NeMo-RL configuration → every mistake in it: unknown keys, missing keys, bad values, combinations that the trainer
 * refuses, overrides of what the plan decides. Reads nothing but the schemas beside it.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { joined, type Origin, ownedOverrides, pathOf } from "../owners.ts";
import { COMMITS, type Dialect } from "./dialect.ts";
import { NEMO_RL_OWNERS } from "./owners.ts";
import { brokenRules, NEMO_RULES } from "./rules/index.ts";
import { schemaFindings } from "./schema.ts";

/** What a configuration is checked against. */
export interface CheckContext {
  readonly dialect: Dialect;
  /** What Slurm gives the job. */
  readonly world: { readonly nodes: number; readonly gpusPerNode: number };
  readonly model: Model;
  /** The recipe it was rendered from: tells which field or override a mistake comes from. */
  readonly recipe: Recipe;
  /** The job's environment. */
  readonly env: Record<string, string>;
}

/** What a configuration itself does wrong, by its own keys; one with an `sft` section is SFT's, every other one GRPO's. */
export function nemoRlFindings(config: Record<string, unknown>, context: CheckContext): Issue[] {
  const { dialect } = context;
  const broken = brokenRules(config, context).map(({ rule, violation }): Issue => {
    const { path, asked, found, allowed, todo } = violation;
    const isNemo = NEMO_RULES.includes(rule);
    return {
      code: isNemo ? "nemo-rl-constraint" : "nemo-rl-inconsistent",
      path,
      asked,
      found,
      allowed: `${allowed} (${rule.id}: ${rule.source}${isNemo ? ` at ${COMMITS.main.slice(0, 8)}` : ""})`,
      todo,
    };
  });
  // Where a rule speaks of a key it says more than the schema does.
  const spoken = new Set(broken.map(({ path }) => path));
  const findings = schemaFindings(dialect, "sft" in config ? "sft" : "grpo", config);
  return [...findings.filter(({ path }) => !spoken.has(path)), ...broken];
}

/** The mistakes of a rendered configuration, by the recipe's fields, and the overrides that contradict the plan. */
export function checkNemoRl(config: Record<string, unknown>, context: CheckContext): Issue[] {
  const { recipe } = context;
  const origin: Origin = { stage: "rl", recipe, overrides: recipe.rl.overrides };
  const findings = nemoRlFindings(config, context).map((issue): Issue => {
    const path = pathOf(NEMO_RL_OWNERS, issue.path, origin);
    // Where the path is a field of the recipe, the message still says which key of the trainer's it became.
    return {
      ...issue,
      path,
      asked:
        path.endsWith(issue.path) || issue.asked.includes(issue.path) ? issue.asked : `${issue.asked} (${issue.path})`,
    };
  });
  const owned = ownedOverrides(NEMO_RL_OWNERS, origin, "nemo-rl-override-owned");
  return joined(findings, owned, { unknown: ["nemo-rl-unknown-key"], value: "nemo-rl-bad-value" });
}
