/**
 * Evaluation: endpoint + environments → attempts, scores, traces.
 * Takes a checkpoint, an endpoint's address, the environment service's and held-out tasks; returns an Evaluation.
 * Writes traces to the object store it is given and the progress file; reaches those two services only.
 */
export type { EvaluationProgress } from "./attempt-record.ts";
export { comparabilityOf, evaluationId } from "./comparability.ts";
export { type Evaluate, evaluate, planEvaluation } from "./evaluate.ts";
export { HARNESS_VERSION } from "./harness.ts";
