/**
 * Policy: "cost>20%,incomparable,unfit" and a review → which conditions are met by which recipes. Pure.
 */
import { UserError } from "../../schemas/error.ts";
import type { RecipeReview, Review, ReviewVerdict } from "../../schemas/review.ts";
import { countOf, showDollarChange, showDollars, showNumber, showPercentChange } from "./show.ts";

/** One condition under which a change must not pass. */
export type FailCondition =
  /** Dollars of a run rise by more than so many percent. */
  | { readonly kind: "cost-percent"; readonly above: number }
  /** Dollars of a run rise by more than so many; a new recipe's cost counts whole. */
  | { readonly kind: "cost-dollars"; readonly above: number }
  /** Rows can no longer be ranked with earlier ones. */
  | { readonly kind: "incomparable" }
  /** The new side does not plan, or does not fit. */
  | { readonly kind: "unfit" }
  /** A warning is new. */
  | { readonly kind: "warnings" }
  /** Tasks, splits or data rules change. */
  | { readonly kind: "data" };

const NAMES = ["incomparable", "unfit", "warnings", "data"] as const;

/** "cost>20%,incomparable" → conditions; a UserError for anything else. */
export function parseFailOn(text: string): FailCondition[] {
  return text.split(",").map((part) => parseCondition(part.trim()));
}

function parseCondition(text: string): FailCondition {
  const name = NAMES.find((one) => one === text);
  if (name !== undefined) return { kind: name };
  const percent = /^cost\s*>\s*(\d+(?:\.\d+)?)\s*%$/.exec(text)?.[1];
  if (percent !== undefined) return { kind: "cost-percent", above: Number(percent) };
  const dollars = /^cost\s*>\s*\$\s*(\d+(?:\.\d+)?)$/.exec(text)?.[1];
  if (dollars !== undefined) return { kind: "cost-dollars", above: Number(dollars) };
  throw new UserError({
    code: "option-invalid",
    path: "--fail-on",
    asked: `the condition "${text}"`,
    found: "there is no such condition",
    allowed: `cost>20%, cost>$500, ${NAMES.join(", ")}, joined by commas`,
    todo: "correct it, in quotes: a shell reads > and $ itself",
  });
}

/** Which recipes meet which conditions; where none at all could be planned, that fails by itself. */
export function failures({ recipes }: Pick<Review, "recipes">, conditions: readonly FailCondition[]): ReviewVerdict {
  const failed: ReviewVerdict["failed"] = [];
  const unchecked: ReviewVerdict["unchecked"] = [];
  for (const condition of conditions) {
    const name = conditionName(condition);
    for (const review of recipes) {
      const answer = check(condition, review);
      if (answer === null) continue;
      const entry = { recipe: review.recipe, condition: name, text: answer.text };
      (answer.met ? failed : unchecked).push(entry);
    }
  }
  // A target or planner that takes nothing would let everything pass.
  if (!recipes.some(isPlanned))
    failed.unshift({ recipe: null, condition: "unfit", text: "no recipe could be planned" });
  return { conditions: conditions.map(conditionName), failed, unchecked };
}

/** Whether the new side has a plan. */
function isPlanned({ outcome, digests }: RecipeReview): boolean {
  return outcome === "unchanged" ? digests.after !== null : ["changed", "added", "plans-now"].includes(outcome);
}

function conditionName(condition: FailCondition): string {
  if (condition.kind === "cost-percent") return `cost>${condition.above}%`;
  return condition.kind === "cost-dollars" ? `cost>$${condition.above}` : condition.kind;
}

/** Met, or not to be looked at; null where it is simply not met. */
function check(condition: FailCondition, review: RecipeReview): { met: boolean; text: string } | null {
  const met = (is: boolean, text: string) => (is ? { met: true, text } : null);
  switch (condition.kind) {
    case "incomparable":
      if (review.comparability === null) return null;
      return met(!review.comparability.same, review.comparability.text);
    case "unfit":
      return met(review.unfit.length > 0, review.unfit.join(", "));
    case "warnings":
      return met(
        review.warnings.gained.length > 0,
        `${countOf(review.warnings.gained.length, "new warning")}: ${review.warnings.gained.map(({ code }) => code).join(", ")}`,
      );
    case "data": {
      const lines = review.lines.filter(({ section }) => section === "data").map(({ text }) => text);
      return met(lines.length > 0, lines.join("; "));
    }
    case "cost-percent":
    case "cost-dollars":
      return checkCost(condition, review);
  }
}

function checkCost(
  { kind, above }: Extract<FailCondition, { above: number }>,
  { outcome, cost }: RecipeReview,
): { met: boolean; text: string } | null {
  const { before, after } = cost.dollars;
  // What is gone, does not plan (unfit says so) or has no price on either side costs nothing more.
  if (outcome === "unchanged" || after === null) return null;
  if (before === null) {
    if (outcome !== "added") return { met: false, text: "there is no cost before to compare with" };
    if (kind === "cost-percent")
      return { met: false, text: `a new recipe, ${showDollars(after)} a run: there is no former price` };
    return after > above ? { met: true, text: `a new recipe, ${showDollars(after)} a run` } : null;
  }
  const rise = after - before;
  const limit = kind === "cost-dollars" ? above : (before * above) / 100;
  if (rise <= limit) return null;
  const percent = showPercentChange(before, after);
  const change = `${showDollarChange(before, after) ?? `+$${showNumber(rise)}`} a run${percent === "" ? "" : ` (${percent})`}`;
  return { met: true, text: change };
}
