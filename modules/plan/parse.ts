/**
 * What a recipe file exports → a recipe with all defaults, or one error that names every mistake of its form. Pure.
 */
import type { z } from "zod";
import { type Issue, UserError } from "../../schemas/error.ts";
import { Recipe } from "../../schemas/recipe.ts";

/** Throws one UserError with all that the schema sees; `locate` says where a field is written, for messages. */
export function parseRecipe(recipe: unknown, locate: (path: string) => string): Recipe {
  const parsed = Recipe.safeParse(recipe);
  if (!parsed.success) throw new UserError(parsed.error.issues.map((issue) => schemaIssue(issue, locate)));
  return parsed.data;
}

function schemaIssue(issue: z.core.$ZodIssue, locate: (path: string) => string): Issue {
  const path = locate(issue.path.map(String).join(".") || "(the recipe)");
  if (issue.code === "unrecognized_keys")
    return {
      code: "recipe-unknown-field",
      path,
      asked: `the field ${issue.keys.map((key) => `"${key}"`).join(", ")} is set`,
      found: "a recipe of this kind has no such field",
      allowed: "the fields of schemas/recipe.ts",
      todo: "remove it or correct its spelling",
    };
  return {
    code: "recipe-invalid",
    path,
    asked: "a value that the schema accepts is needed",
    found: foundBy(issue),
    allowed: allowedBy(issue),
    todo: "correct this field; schemas/recipe.ts documents it",
  };
}

/** What a field may be, from the rule it broke. */
function allowedBy(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return `a value of type ${issue.expected}`;
    case "too_small":
      return `${issue.inclusive ? "at least" : "more than"} ${issue.minimum}`;
    case "too_big":
      return `${issue.inclusive ? "at most" : "less than"} ${issue.maximum}`;
    case "invalid_value":
      return issue.values.map((value) => JSON.stringify(value)).join(" or ");
    case "invalid_union":
      if (issue.path.length === 1 && issue.path[0] === "kind") return 'kind "sft-rl" (sftThenRl) or "rl" (rlOnly)';
      return "options" in issue && Array.isArray(issue.options)
        ? issue.options.map((option) => JSON.stringify(option)).join(" or ")
        : issue.errors.map(([first]) => (first ? allowedBy(first) : "")).join(", or ");
    default:
      return "see the field's line in schemas/recipe.ts";
  }
}

/** What was found, in Zod's words; of a union the branches are in `allowed`. */
function foundBy(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_union" && issue.errors.length > 0) return "it is neither";
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}
