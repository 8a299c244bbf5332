/**
 * Recipe + target + facts → plan. Pure: no disk, clock, randomness or environment; whoever calls it has read the
 * recipe file, generated the task set and hashed the base model.
 */
import type { z } from "zod";
import { digestJson } from "../../schemas/digest.ts";
import { type Issue, UserError } from "../../schemas/error.ts";
import { type Plan, PlanBody, type TaskSetSummary } from "../../schemas/plan.ts";
import { Recipe } from "../../schemas/recipe.ts";
import type { Target } from "../../schemas/target.ts";
import { checkRecipe } from "./check.ts";
import { type EvaluatedSplit, jobGraph, type RenderConfig } from "./job-graph.ts";

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
  /** Version of the scripted expert: it decides which held-out tasks count as solvable. */
  readonly expert: string;
  /** Tasks that are evaluated: the held-out ones, or the validation ones while settings are tuned. */
  readonly split: EvaluatedSplit;
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
  const jobs = jobGraph({ recipe, name, render: inputs.render, expert: inputs.expert, split: inputs.split });
  const evaluatedTasks = inputs.split === "held-out" ? inputs.taskSet.heldOut : inputs.taskSet.validation;
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
    measurementKey: digestJson({
      preset: recipe.evaluation,
      taskSet: inputs.taskSet.digest,
      split: inputs.split,
      expert: { ...recipe.expert, version: inputs.expert },
      environments: inputs.taskSet.familyDigest,
      harness: inputs.harness,
      serving,
    }),
    estimate: {
      attempts: {
        expert: (inputs.taskSet.train + evaluatedTasks) * recipe.expert.attempts,
        rollouts: recipe.rl.steps * recipe.rl.promptsPerStep * recipe.rl.rolloutsPerPrompt,
        evaluation: evaluations * evaluatedTasks * recipe.evaluation.attempts,
      },
    },
  });
  return { ...body, digest: digestJson(body) };
}

function schemaIssue(issue: z.core.$ZodIssue, file: string): Issue {
  const path = `${file}: ${issue.path.map(String).join(".") || "(the recipe)"}`;
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
    found: issue.message.charAt(0).toLowerCase() + issue.message.slice(1),
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
      return 'kind "sft-rl" (sftThenRl) or "rl" (rlOnly)';
    default:
      return "see the field's line in schemas/recipe.ts";
  }
}
