/**
 * Plan: recipe + target + facts → one canonical plan and its page.
 * Takes parsed values, returns values. Pure: reads and writes nothing.
 */
export { compilePlan, type PlanInputs, parseRecipe } from "./compile.ts";
export type { EvaluatedSplit } from "./job-graph.ts";
export { renderPlan } from "./text.ts";
