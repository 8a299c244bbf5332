/**
 * Recipe + target + facts → plan. Pure: no disk, clock, randomness or environment; whoever calls it has read the
 * recipe file, generated the task set and hashed the base model.
 */
import { digestJson } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import { type Plan, PlanBody, type TaskSetSummary } from "../../schemas/plan.ts";
import { Recipe } from "../../schemas/recipe.ts";
import type { Target } from "../../schemas/target.ts";
import { checkRecipe } from "./check.ts";
import { jobGraph, type RenderConfig } from "./job-graph.ts";

/** What a plan is made from. */
export interface PlanInputs {
  /** The recipe as its file exports it. */
  readonly recipe: unknown;
  /** The recipe's file, for messages. */
  readonly file: string;
  /** The recipe's name when it gives none itself: its file's name. */
  readonly defaultName: string;
  readonly target: Target;
  readonly taskSet: TaskSetSummary;
  readonly baseModel: { readonly name: string; readonly digest: string; readonly bytes: number };
  readonly harness: string;
  readonly render: RenderConfig;
}

/** Parses a recipe and checks it; throws one UserError with all of its mistakes. */
export function parseRecipe(recipe: unknown, file: string): Recipe {
  const parsed = Recipe.safeParse(recipe);
  if (!parsed.success) throw new UserError(parsed.error.issues.map((issue) => schemaIssue(issue, file)));
  const issues = checkRecipe(parsed.data, file);
  if (issues.length > 0) throw new UserError(issues);
  return parsed.data;
}

/** The same inputs give the same plan, byte for byte, on any machine. */
export function compilePlan(inputs: PlanInputs): Plan {
  const recipe = parseRecipe(inputs.recipe, inputs.file);
  const name = recipe.name ?? inputs.defaultName;
  const { target } = inputs;
  const serving = {
    server: recipe.server ?? target.server,
    contextTokens: recipe.contextTokens,
    dtype: "float32" as const,
    toolCallParser: "hermes" as const,
  };
  const jobs = jobGraph(recipe, name, inputs.render);
  const evaluations = jobs.filter((job) => job.kind === "evaluate").length;
  const body = PlanBody.parse({
    schemaVersion: 1,
    recipe,
    name,
    target,
    baseModel: inputs.baseModel,
    taskSet: inputs.taskSet,
    serving,
    jobs,
    comparabilityKey: digestJson({
      preset: recipe.evaluation,
      taskSet: inputs.taskSet.digest,
      expert: recipe.expert,
      environments: inputs.taskSet.familyDigest,
      harness: inputs.harness,
      serving,
    }),
    estimate: {
      attempts: {
        expert: (inputs.taskSet.train + inputs.taskSet.heldOut) * recipe.expert.attempts,
        rollouts: recipe.rl.steps * recipe.rl.promptsPerStep * recipe.rl.rolloutsPerPrompt,
        evaluation: evaluations * inputs.taskSet.heldOut * recipe.evaluation.attempts,
      },
      minutes: null,
    },
  });
  return { ...body, digest: digestJson(body) };
}

function schemaIssue(
  issue: { code?: string; path: PropertyKey[]; message: string; keys?: string[] },
  file: string,
): Issue {
  const path = `${file}: ${issue.path.map(String).join(".") || "(the recipe)"}`;
  if (issue.code === "unrecognized_keys")
    return {
      code: "recipe-unknown-field",
      path,
      asked: `the field ${(issue.keys ?? []).map((key) => `"${key}"`).join(", ")} is set`,
      found: "a recipe of this kind has no such field",
      allowed: "the fields of schemas/recipe.ts",
      todo: "remove it or correct its spelling",
    };
  return {
    code: "recipe-invalid",
    path,
    asked: "a value of the documented type is needed",
    found: issue.message.charAt(0).toLowerCase() + issue.message.slice(1),
    allowed: "see the field's line in schemas/recipe.ts",
    todo: "correct this field",
  };
}
