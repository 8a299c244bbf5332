/**
 * NeMo-RL: a recipe's RL stage → the configuration of its GRPO run, and the check of such a configuration (or of an SFT
 * one). Takes parsed values, returns values; reads the JSON Schemas beside it, starts nothing.
 */
export { checkNemoRl } from "./check.ts";
export { renderNemoRl } from "./render.ts";
