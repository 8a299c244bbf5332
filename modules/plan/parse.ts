/**
 * What a recipe file exports → a recipe with all defaults, or one error that names every mistake of its form. Pure.
 */
import type { z } from "zod";
import { type Issue, located, UserError } from "../../schemas/error.ts";
import { Recipe } from "../../schemas/recipe.ts";
import { checkAlone } from "./check.ts";

/**
 * Throws one UserError with all that is wrong with a recipe by itself: its form, and, where the wrong fields are left
 * aside, what the rest says. `locate` says where a field is written, for messages.
 */
export function parseRecipe(written: unknown, locate: (path: string) => string): Recipe {
  const parsed = Recipe.safeParse(written);
  if (parsed.success) return parsed.data;
  throw new UserError([
    ...parsed.error.issues.map((issue) => schemaIssue(issue, locate)),
    ...located(mistakesBeside(written), locate),
  ]);
}

/** What is wrong with the meaning of a recipe whose form is wrong elsewhere; by the field's path. */
export function mistakesBeside(written: unknown): Issue[] {
  const parsed = Recipe.safeParse(written);
  if (parsed.success) return checkAlone(parsed.data);
  const wrong = parsed.error.issues
    .filter(({ code }) => code !== "unrecognized_keys")
    .map(({ path }) => path.map(String).join("."));
  const rest = Recipe.safeParse(repaired(written, parsed.error.issues));
  return (rest.success ? checkAlone(rest.data) : []).filter(
    ({ path }) => !wrong.some((field) => path.startsWith(field) || field.startsWith(path)),
  );
}

/** Stand for fields that are wrong, so that the others can be looked at. */
const STAND_IN = {
  kind: "rl",
  model: "model",
  context: 2 ** 30,
  tasks: { kind: "generated", family: "family", seed: 0, count: 1_000_000, split: { heldOut: 1, validation: 1 } },
  expert: { kind: "scripted", attempts: 1, seed: 0 },
  sft: { steps: 1000, batchSize: 1, learningRate: 0.1, saveEverySteps: 1, data: { maxPerTask: 1, maxLengthRatio: 1 } },
  rl: {
    ...{ steps: 1000, promptsPerStep: 1, rolloutsPerPrompt: 2, learningRate: 0.1, maxTurns: 1, maxTokensPerTurn: 1 },
    saveEverySteps: 1,
    tasks: { passRateBand: { of: "expert", min: 0, max: 1 } },
  },
  report: [{ stage: "rl", step: 1000 }],
  evaluation: {
    ...{ name: "preset", attempts: 1, temperature: 1, topP: 1, maxTurns: 1, maxTokensPerTurn: 1, seed: 0 },
    failureRule: { retries: 0, exhausted: "counts-as-failure" },
  },
};

/** A copy in which unknown fields are gone and wrong ones have a value that fits. */
function repaired(written: unknown, issues: readonly z.core.$ZodIssue[]): unknown {
  const copy: unknown = JSON.parse(JSON.stringify(written ?? null));
  for (const issue of issues) {
    const within = issue.path.slice(0, -1).reduce<unknown>((value, key) => memberOf(value, key), copy);
    const holder = issue.code === "unrecognized_keys" ? memberOf(within, issue.path.at(-1)) : within;
    if (typeof holder !== "object" || holder === null) continue;
    const last = issue.path.at(-1);
    if (issue.code === "unrecognized_keys") for (const key of issue.keys) Reflect.deleteProperty(holder, key);
    else if (last !== undefined) {
      // Of a list the stand-in has one member.
      const path = issue.path.map((key) => (typeof key === "number" ? 0 : key));
      const fitting = path.reduce<unknown>((value, key) => memberOf(value, key), STAND_IN);
      if (fitting === undefined) Reflect.deleteProperty(holder, last);
      else Reflect.set(holder, last, fitting);
    }
  }
  return copy;
}

function memberOf(value: unknown, key: PropertyKey | undefined): unknown {
  if (key === undefined) return value;
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
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
      return issue.expected === "int" ? "a whole number" : `a value of type ${issue.expected}`;
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
  if (issue.code === "invalid_type" && issue.expected === "int") return "it is no whole number";
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}
