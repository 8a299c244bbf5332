/**
 * Review. Takes: two sides' plans of recipes. Returns: what changed, in meaning, as data, text and Markdown, and
 * whether a policy lets it pass. Pure: reads and writes nothing.
 */
export { type FailCondition, failures, parseFailOn } from "./fail-policy.ts";
export { COMMENT_CHARACTERS, LEAST_CHARACTERS, REVIEW_MARKER, renderReviewMarkdown } from "./markdown.ts";
export { type ReviewInputs, reviewPlans, type Side, sideOf } from "./review-plans.ts";
export { renderReviewText } from "./text.ts";
export { reviewRecipes } from "./upstream.ts";
