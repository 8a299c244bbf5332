/**
 * Exports: checkpoints that become full models → node-hours. Pure.
 *
 * Each is a Slurm job of its own that merges and verifies one checkpoint. It asks for one GPU and the node alone, so the
 * whole node is paid for. Which checkpoints: those that are reported, and SFT's last, where RL begins (job-graph.ts).
 */
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { EXPECTED, type Values } from "./assumptions.ts";
import type { CostInput, StageEstimate } from "./input.ts";
import { spread } from "./spread.ts";
import { duration, number } from "./text.ts";
import { rangeWhy } from "./training.ts";

/** Checkpoints of a stage that are exported, each once. */
function exported(recipe: Recipe, stage: "sft" | "rl"): number {
  const reported = recipe.report.filter((one) => one.stage === stage).map(({ step }) => step);
  const last = stage === "sft" && recipe.kind === "sft-rl" ? [recipe.sft.steps] : [];
  return new Set([...reported, ...last]).size;
}

/** Seconds of one export: start, the converter's libraries, what it reads, the model it writes. */
export function exportSeconds(model: Model, readGbPerSecond: number, values: Values): number {
  const gigabytes = (2 * model.parameters) / 1e9;
  return (
    values.containerSeconds +
    values.exportStartSeconds +
    (values.exportReads * gigabytes) / readGbPerSecond +
    gigabytes / values.writeGbPerSecond
  );
}

/** All exports of the stages that train, one after another; null where nothing is exported. */
export function exportEstimate(input: CostInput, stages: readonly ("sft" | "rl")[]): StageEstimate | null {
  const { model, instance, recipe, readGbPerSecond = 1 } = input;
  const count = stages.reduce((sum, stage) => sum + exported(recipe, stage), 0);
  if (count === 0) return null;
  const one = (values: Values) => exportSeconds(model, readGbPerSecond, values);
  const seconds = spread((values) => count * one(values));
  const gigabytes = number((2 * model.parameters) / 1e9, 1);
  return {
    stage: "export",
    nodes: 1,
    gpus: instance.gpus,
    stepSeconds: spread(one).range,
    seconds,
    walltimeSeconds: null,
    leastWalltimeSeconds: null,
    why: [
      `${count} ${count === 1 ? "checkpoint becomes a full model, in a job that has" : "checkpoints become full models, each in a job that has"} a whole node to itself: ${duration(EXPECTED.containerSeconds)} for its container, ${duration(EXPECTED.exportStartSeconds)} for the converter, ${EXPECTED.exportReads} readings of ${gigabytes} GB at ${number(readGbPerSecond, 1)} GB/s, written at ${number(EXPECTED.writeGbPerSecond, 1)} GB/s = ${duration(one(EXPECTED))} each.`,
      ...rangeWhy(seconds),
    ],
  };
}
