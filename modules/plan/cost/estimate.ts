/**
 * Recipe + layouts + prices → hours and dollars of every stage, time limits of its jobs, and whether it all fits its
 * capacity block. Pure; the same input gives the same numbers, rounded: hours and GPU-hours to 0.01, dollars to cents,
 * seconds of a step to 0.1.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { StageCost } from "../../../schemas/estimate.ts";
import type { StageLayout } from "../../../schemas/layout.ts";
import type { Warning } from "../../../schemas/plan.ts";
import { blockHours, blockTooShort, type CapacityBlock, checkBlock, usableHours } from "./capacity-block.ts";
import { evaluationEstimate } from "./evaluation.ts";
import { exportEstimate } from "./export.ts";
import type { CostEstimate, CostInput, StageEstimate } from "./input.ts";
import { type Price, priceOf } from "./prices.ts";
import { mapRange, roundTo, sumRanges } from "./spread.ts";
import { dollars, duration, number } from "./text.ts";
import { rlEstimate, sftEstimate } from "./training.ts";

/** Money and time of a plan. */
export function estimateCost(input: CostInput): CostEstimate {
  const { price, issues, warnings } = priceOf(input.instance, input.pricing, input.region);
  const stages = stageEstimates(input);
  const costs = stages.map((stage) => priceStage(stage, price.dollarsPerNodeHour));
  const hours = sumRanges(
    costs.map((stage) => stage.hours),
    2,
  );
  const widest = Math.max(1, ...stages.map(({ nodes }) => nodes));
  issues.push(...walltimeIssues(input, stages));
  warnings.push(...missingStages(input, stages));
  if (input.pricing.kind === "capacity-block") issues.push(...blockIssues(input, input.pricing, hours, widest));
  return {
    cost: {
      stages: costs,
      hours,
      gpuHours: sumRanges(
        costs.map((stage) => stage.gpuHours),
        2,
      ),
      dollars: sumRanges(
        costs.map((stage) => stage.dollars),
        2,
      ),
      price: { ...price, pricing: price.pricing + blockTotal(input, price, widest) },
    },
    walltimeSeconds: walltimes(input, stages),
    issues,
    warnings,
  };
}

/** The stages that have a layout, in the order they run. */
function stageEstimates(input: CostInput): StageEstimate[] {
  const { recipe, layouts } = input;
  const stages: StageEstimate[] = [];
  for (const { layout } of layouts) {
    if (layout.kind === "sft" && recipe.kind === "sft-rl") stages.push(sftEstimate(input, recipe, layout));
    if (layout.kind === "rl") stages.push(rlEstimate(input, layout));
    if (layout.kind === "serving") stages.push(evaluationEstimate(input, layout));
  }
  const exports = exportEstimate(
    input,
    layouts.flatMap(({ layout: { kind } }) => (kind === "serving" ? [] : [kind])),
  );
  if (exports !== null) stages.push(exports);
  const order: readonly StageCost["stage"][] = ["sft", "rl", "export", "evaluation"];
  return stages.sort((a, b) => order.indexOf(a.stage) - order.indexOf(b.stage));
}

function priceStage(stage: StageEstimate, dollarsPerNodeHour: number): StageCost {
  const hours = mapRange(stage.seconds.range, (seconds) => roundTo(seconds / 3600, 2));
  const cost = mapRange(hours, (value) => roundTo(value * stage.nodes * dollarsPerNodeHour, 2));
  return {
    stage: stage.stage,
    nodes: stage.nodes,
    gpus: stage.gpus,
    stepSeconds: mapRange(stage.stepSeconds, (seconds) => roundTo(seconds, 1)),
    hours,
    gpuHours: mapRange(hours, (value) => roundTo(value * stage.gpus, 2)),
    dollars: cost,
    why: [
      ...stage.why,
      `Dollars: ${stage.nodes} ${stage.nodes === 1 ? "node" : "nodes"} × ${number(hours.expected, 2)} h × ${dollars(dollarsPerNodeHour)} = ${dollars(cost.expected)}.`,
    ],
  };
}

function walltimes(input: CostInput, stages: readonly StageEstimate[]): CostEstimate["walltimeSeconds"] {
  const of = (stage: StageCost["stage"]) => stages.find((found) => found.stage === stage)?.walltimeSeconds;
  const sft = of("sft");
  return { ...(sft ? { sft } : {}), rl: of("rl") ?? Math.floor(input.maxWalltimeSeconds) };
}

/** One mistake for all stages whose jobs would never save a step: the limit is one field. */
function walltimeIssues({ maxWalltimeSeconds }: CostInput, stages: readonly StageEstimate[]): Issue[] {
  const short = stages.flatMap(({ stage, leastWalltimeSeconds: least }) =>
    least !== null && least > maxWalltimeSeconds ? [{ stage, least }] : [],
  );
  if (short.length === 0) return [];
  const most = Math.max(...short.map(({ least }) => least));
  return [
    {
      code: "walltime-too-short",
      path: "target.slurm.maxWalltimeHours",
      asked: `jobs of at most ${duration(maxWalltimeSeconds)}`,
      found: `start, one step, its save and the time kept to end take about ${short.map(({ stage, least }) => `${duration(least)} in ${stage}`).join(", ")}: no job would get anywhere`,
      allowed: `at least ${Math.ceil(most / 3600)} hours`,
      todo: "raise the partition's limit, or make a step shorter: fewer trajectories or prompts a step, more nodes",
    },
  ];
}

/** A stage without a layout was refused elsewhere; its time and money are missing here, which is said. */
function missingStages(input: CostInput, stages: readonly StageEstimate[]): Warning[] {
  const wanted: StageCost["stage"][] =
    input.recipe.kind === "sft-rl" ? ["sft", "rl", "evaluation"] : ["rl", "evaluation"];
  return wanted
    .filter((stage) => !stages.some((found) => found.stage === stage))
    .map((stage) => ({
      code: "stage-not-estimated",
      path: stage,
      message: `${stage} has no layout, so the estimate leaves it out`,
      todo: "settle the layout first",
    }));
}

/** What the whole block costs, used or not. */
function blockTotal(input: CostInput, price: Price, widest: number): string {
  if (input.pricing.kind !== "capacity-block") return "";
  const hours = blockHours(input.pricing);
  const nodes = Math.max(widest, input.maxNodes ?? 0);
  if (!(hours > 0) || price.dollarsPerNodeHour === 0) return "";
  return `: ${nodes} ${nodes === 1 ? "node" : "nodes"} × ${number(hours, 1)} h × ${dollars(price.dollarsPerNodeHour)} = ${dollars(nodes * hours * price.dollarsPerNodeHour)} for the whole block, used or not`;
}

function blockIssues(
  input: CostInput,
  block: CapacityBlock,
  hours: { expected: number; high: number },
  widest: number,
): Issue[] {
  const issues = checkBlock(block, input.instance, widest);
  const usable = usableHours(blockHours(block));
  if (blockHours(block) <= 0 || hours.high <= usable) return issues;
  const steps = { asked: input.recipe.rl.steps, fit: stepsThatFit(input, usable) };
  const nodes = nodesThatFit(input, usable, widest);
  return [...issues, blockTooShort(block, { neededHours: hours.high, expectedHours: hours.expected, steps, nodes })];
}

/** Hours of all stages by the high estimate. */
function highHours(input: CostInput): number {
  return stageEstimates(input).reduce((sum, { seconds }) => sum + seconds.range.high / 3600, 0);
}

/** Most RL steps, a multiple of the save period, with which the run fits; time grows with steps, so halving finds it. */
function stepsThatFit(input: CostInput, hours: number): number | null {
  const { rl } = input.recipe;
  const fits = (steps: number) => highHours({ ...input, recipe: { ...input.recipe, rl: { ...rl, steps } } }) <= hours;
  let low = 0;
  let high = Math.ceil(rl.steps / rl.saveEverySteps);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle * rl.saveEverySteps)) low = middle;
    else high = middle;
  }
  return low === 0 ? null : low * rl.saveEverySteps;
}

/** Least doubling of all training nodes with which the run fits; the added nodes are data parallel. */
function nodesThatFit(
  input: CostInput,
  hours: number,
  widest: number,
): { factor: number; most: number; hours: number } | null {
  for (const factor of [2, 4, 8]) {
    const most = widest * factor;
    if (most > Math.min(64, input.maxNodes ?? 64)) return null;
    const needed = highHours({ ...input, layouts: input.layouts.map((layout) => widen(layout, factor)) });
    if (needed <= hours) return { factor, most, hours: needed };
  }
  return null;
}

function widen(stage: StageLayout, factor: number): StageLayout {
  const { layout } = stage;
  if (layout.kind === "serving") return stage;
  const train = { ...layout.train, dataParallel: layout.train.dataParallel * factor };
  if (layout.kind === "sft") return { ...stage, layout: { ...layout, nodes: layout.nodes * factor, train } };
  const { generation } = layout;
  return {
    ...stage,
    layout: {
      ...layout,
      nodes: layout.nodes * factor,
      generationNodes: layout.generationNodes * factor,
      train,
      generation: {
        ...generation,
        dataParallel: generation.dataParallel * factor,
        concurrentSequences: generation.concurrentSequences * factor,
      },
    },
  };
}
