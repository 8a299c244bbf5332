/**
 * Recipes of one change → their reviews, and of each what a change of another recipe does to its data: a recipe that
 * drops the tasks an earlier run always solved gets others once that run's recipe changes, though its own plan has the
 * same bytes. Pure.
 */
import type { RecipeReview, ReviewLine } from "../../schemas/review.ts";
import { inSections } from "./lines.ts";
import { type ReviewInputs, reviewPlans } from "./review-plans.ts";
import { printable } from "./show.ts";

/** What the change means for each of them, in their order. */
export function reviewRecipes(all: readonly ReviewInputs[]): RecipeReview[] {
  const reviews = all.map(reviewPlans);
  const byName = new Map(reviews.map((review) => [review.recipe, review]));
  return all.map(({ head }, index) => {
    const review = reviews[index] as RecipeReview;
    const name = head.kind === "plan" ? head.plan.recipe.rl.tasks.dropAlwaysSolvedBy : undefined;
    const upstream = name === undefined ? undefined : byName.get(printable(name));
    if (upstream === undefined || upstream === review || upstream.outcome === "unchanged") return review;
    return withUpstream(review, upstream);
  });
}

function withUpstream(review: RecipeReview, upstream: RecipeReview): RecipeReview {
  const text = `drops tasks that ${upstream.recipe} always solved, and that recipe ${CHANGES[upstream.outcome]}`;
  const line: ReviewLine = {
    ...{ section: "data", role: "consequence", subject: "tasks dropped", text, paths: [] },
    ...upstream.digests,
  };
  const joint = review.outcome === "unchanged" ? ", but it " : "; ";
  return {
    ...review,
    headline: `${review.headline}${joint}${text}`,
    remarks: [...review.remarks, text],
    lines: inSections([...review.lines, line]),
  };
}

const CHANGES: Readonly<Record<RecipeReview["outcome"], string>> = {
  unchanged: "is unchanged",
  changed: "changed",
  added: "is new",
  removed: "is gone",
  "no-longer-plans": "no longer plans",
  "plans-now": "plans now",
  "does-not-plan": "does not plan",
};
