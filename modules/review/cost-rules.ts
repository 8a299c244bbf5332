/**
 * What a change means for money and time, in all and by stage, with sign and percent: expected [low–high]. Pure.
 */
import type { Range } from "../../schemas/estimate.ts";
import type { Plan } from "../../schemas/plan.ts";
import { valueAt } from "./leaf-changes.ts";
import { field, type Rule, sentences } from "./rule.ts";
import { showDollarChange, showDollars, showPercentChange, showRounded } from "./show.ts";

const COSTS = { sft: "SFT", rl: "RL", evaluation: "evaluation" } as const;
const plain = (text: string): string => text;

const number = (value: number) => showRounded(value);

/** Dollars and hours; where only one side has a price, in one line. */
export function costRules(base: Plan, head: Plan): readonly Rule[] {
  return base.estimate.cost !== null && head.estimate.cost !== null ? bothPriced : [wholeCost];
}

const wholeCost: Rule = {
  section: "cost",
  subject: "cost of a run",
  paths: ["estimate.cost", "estimate.cost.**"],
  tell({ estimate: { cost } }) {
    if (cost === null) return null;
    const { dollars, gpuHours, price } = cost;
    const hour = `${showDollars(price.dollarsPerNodeHour)} a node-hour, ${price.pricing}`;
    return `${withRange(dollars, showDollars)}, ${withRange(gpuHours, number)} GPU-hours (${hour})`;
  },
};

const bothPriced: readonly Rule[] = [
  rangeRule("dollars of a run", "estimate.cost.dollars", showDollars),
  rangeRule("GPU-hours of a run", "estimate.cost.gpuHours", number),
  rangeRule("hours of a run", "estimate.cost.hours", number),
  ...(["sft", "rl", "evaluation"] as const).flatMap((stage) => {
    const at = `estimate.cost.stages.${stage}`;
    const step = stage === "evaluation" ? "seconds of an attempt" : `seconds of a step of ${COSTS[stage]}`;
    return [
      rangeRule(`dollars of ${COSTS[stage]}`, `${at}.dollars`, showDollars),
      rangeRule(`GPU-hours of ${COSTS[stage]}`, `${at}.gpuHours`, number),
      rangeRule(`hours of ${COSTS[stage]}`, `${at}.hours`, number),
      rangeRule(step, `${at}.stepSeconds`, number),
      field("cost", `nodes paid for ${COSTS[stage]}`, `${at}.nodes`),
      field("cost", `GPUs paid for ${COSTS[stage]}`, `${at}.gpus`),
      sentences("arithmetic", `estimate of ${COSTS[stage]} because`, `${at}.why`),
    ];
  }),
  field("cost", "price of a node-hour", "estimate.cost.price.dollarsPerNodeHour", showDollars),
  field("cost", "pricing", "estimate.cost.price.pricing", plain),
  field("cost", "price table of", "estimate.cost.price.tableDate", plain),
  field("cost", "price from", "estimate.cost.price.source", plain),
];

/** "$3,418 [$2,393–$5,127]": expected, and the range. */
function withRange({ low, expected, high }: Range, show: (value: number) => string): string {
  return `${show(expected)} [${show(low)}–${show(high)}]`;
}

function rangeAt(plan: Plan, path: string): Range | null {
  return (valueAt(plan, path) as Range | undefined) ?? null;
}

function rangeRule(subject: string, path: string, show: (value: number) => string): Rule {
  return {
    section: "cost",
    subject,
    paths: [`${path}.low`, `${path}.expected`, `${path}.high`],
    tell(plan) {
      const range = rangeAt(plan, path);
      return range === null ? null : withRange(range, show);
    },
    note(before, after) {
      const [old, now] = [rangeAt(before, path), rangeAt(after, path)];
      if (old === null || now === null || old.expected === now.expected) return "";
      const change =
        show === showDollars ? showDollarChange(old.expected, now.expected) : numberChange(now.expected - old.expected);
      return [change, showPercentChange(old.expected, now.expected)].filter(Boolean).join(", ");
    },
  };
}

/** "+52.1"; null where nothing to be seen changes. */
function numberChange(change: number): string | null {
  const size = showRounded(Math.abs(change));
  return size === "0" ? null : `${change > 0 ? "+" : "-"}${size}`;
}
