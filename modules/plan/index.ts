/**
 * Plan: recipe + target + facts → one canonical plan and its page.
 * Takes parsed values, returns values. Pure: reads and writes nothing.
 */

export { checkAlone } from "./check.ts";
export { type ClusterTrainer, compilePlan, type LocalTrainer, type PlanInputs, type Trainers } from "./compile.ts";
export { capacityBlockRemaining, priceOf } from "./cost/index.ts";
export type { EvaluatedSplit } from "./job-graph.ts";
export { mistakesBeside, parseRecipe } from "./parse.ts";
export { renderPlan } from "./text.ts";
