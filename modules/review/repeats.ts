/**
 * Fields of a plan that say again what another field says: a change of both is told once. Pure.
 * Only where both changed from the same value to the same value; a repetition that went its own way is listed.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { Plan } from "../../schemas/plan.ts";
import { contextTokensOf } from "../../schemas/recipe.ts";
import { type LeafChange, matchesPath } from "./leaf-changes.ts";

/** [pattern of the repetition, the field it repeats]; a "*" stands for the same segment in both. */
const REPEATS: readonly (readonly [string, string])[] = [
  ["recipe.name", "name"],
  ["baseModel.name", "recipe.model"],
  ["jobs.base.name", "recipe.model"],
  ["baseModel.revision", "recipe.modelRevision"],
  ["serving.contextTokens", "contextTokens"],
  ["serving.rope.*", "recipe.rope.*"],
  ["serving.server", "recipe.server"],
  ["serving.server", "target.server"],
  ["jobs.*.steps", "recipe.*.steps"],
  ["jobs.*.saveEverySteps", "recipe.*.saveEverySteps"],
  ["jobs.collect.attempts", "recipe.expert.attempts"],
  ["jobs.collect.seed", "recipe.expert.seed"],
  ["jobs.select.sft.*", "recipe.sft.data.*"],
  ["jobs.select.rl.dropAlwaysSolvedBy", "recipe.rl.tasks.dropAlwaysSolvedBy"],
  ["jobs.select.rl.*", "recipe.rl.tasks.passRateBand.*"],
  ["jobs.select-rl.rl.dropAlwaysSolvedBy", "recipe.rl.tasks.dropAlwaysSolvedBy"],
  ["jobs.select-rl.rl.*", "recipe.rl.tasks.passRateBand.*"],
  ["jobs.*.launch.nodes", "layouts.*.layout.nodes"],
  ["jobs.*.launch.gpusPerNode", "layouts.*.layout.gpusPerNode"],
  ["estimate.cost.stages.*.nodes", "layouts.*.layout.nodes"],
  ["jobs.sft.launch.image", "target.images.automodel"],
  ["jobs.rl.launch.image", "target.images.nemoRl"],
  ["jobs.*.launch.partition", "target.slurm.partition"],
  ["jobs.*.launch.account", "target.slurm.account"],
];

/** The path of the change that this one repeats; null where it stands for itself. */
export function repeatedPath(
  change: LeafChange,
  changes: ReadonlyMap<string, LeafChange>,
  before: Plan,
  after: Plan,
): string | null {
  if (change.path === "recipe.context") {
    const says = (plan: Plan) => contextTokensOf(plan.recipe.context) === plan.contextTokens;
    return changes.has("contextTokens") && says(before) && says(after) ? "contextTokens" : null;
  }
  for (const [pattern, source] of REPEATS) {
    if (!matchesPath(change.segments, pattern)) continue;
    const segment = change.segments[pattern.split(".").indexOf("*")] ?? "";
    const path = source.replace("*", segment);
    const original = changes.get(path);
    if (original !== undefined && same(original.before, change.before) && same(original.after, change.after))
      return path;
  }
  // Checkpoints and runs carry the recipe's name in theirs.
  if (change.path === "name" || !changes.has("name") || before.name.length < 3) return null;
  if (typeof change.before !== "string" || !change.before.includes(before.name)) return null;
  return change.before.replaceAll(before.name, after.name) === change.after ? "name" : null;
}

function same(one: unknown, other: unknown): boolean {
  return canonicalJson(one ?? null) === canonicalJson(other ?? null);
}
