/**
 * Money and time: recipe, layouts, instance and pricing → hours, GPU-hours and dollars of every stage as ranges with
 * their arithmetic, limits for its jobs, and a refusal where a capacity block ends before the run does.
 * Pure: no disk, clock, randomness or environment.
 */
export { capacityBlockRemaining } from "./capacity-block.ts";
export { estimateCost } from "./estimate.ts";
export { priceOf } from "./prices.ts";
