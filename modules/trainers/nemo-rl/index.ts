/**
 * NeMo-RL: a recipe's RL stage → the configuration of its GRPO run, and the check of such a configuration (or of an SFT
 * one); a run's folder → how far it is, what its rollouts solved. Reads that folder and the JSON Schemas beside it.
 */
export { checkNemoRl } from "./check.ts";
export { nemoRlOutcomes, nemoRlProgress, nemoRlSavedSteps } from "./progress.ts";
export { renderNemoRl } from "./render.ts";
