/**
 * A capacity block's window → mistakes in it, and the hours a run can use. Pure: the moment is handed in.
 *
 * AWS's rules (infrastructure.md C4): lengths of 1 to 14 days by the day, then by 7 days to 182; at most 64 instances
 * a block. EKS scales the node group to zero 40 minutes before the block's end.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Instance } from "../../../schemas/instance.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import { number } from "./text.ts";

/** A pricing that is a capacity block. */
export type CapacityBlock = Extract<Pricing, { kind: "capacity-block" }>;

const MINUTES_LOST_AT_END = 40;
const MOST_DAYS = 182;
const MOST_INSTANCES = 64;
const HOUR = 3_600_000;

/** Lengths one can buy, days. */
export const BLOCK_DAYS: readonly number[] = [
  ...Array.from({ length: 14 }, (_, day) => day + 1),
  ...Array.from({ length: (MOST_DAYS - 14) / 7 }, (_, week) => 14 + 7 * (week + 1)),
];

/** Hours from start to end. */
export function blockHours(block: CapacityBlock): number {
  return (Date.parse(block.endsAt) - Date.parse(block.startsAt)) / HOUR;
}

/** Hours of a block of that length in which jobs can run. */
export function usableHours(hours: number): number {
  return Math.max(0, hours - MINUTES_LOST_AT_END / 60);
}

/** The shortest block that has so many usable hours, days; null where even the longest is too short. */
export function daysNeeded(hours: number): number | null {
  return BLOCK_DAYS.find((days) => usableHours(days * 24) >= hours) ?? null;
}

/** Hours of a capacity block that jobs can use from a moment on, 0 when it is over; null for other kinds of pricing. */
export function capacityBlockRemaining(pricing: Pricing, nowIso: string): number | null {
  if (pricing.kind !== "capacity-block") return null;
  const from = Math.max(Date.parse(nowIso), Date.parse(pricing.startsAt));
  return usableHours((Date.parse(pricing.endsAt) - from) / HOUR);
}

/** Mistakes of a block by itself: its instance, its window, its size. */
export function checkBlock(block: CapacityBlock, instance: Instance, nodes: number): Issue[] {
  const issues: Issue[] = [];
  const hours = blockHours(block);
  if (!instance.capacityBlocks)
    issues.push({
      code: "capacity-block-unsupported",
      path: "target.pricing.kind",
      asked: `${instance.name} in a capacity block`,
      found: "AWS sells no capacity blocks of that type",
      allowed: "p4d, p4de, p5, p5e, p5en, p6-b200 and p6-b300",
      todo: "use pricing of kind on-demand or reservation, or another instance",
    });
  if (hours <= 0)
    issues.push({
      code: "capacity-block-window",
      path: "target.pricing.endsAt",
      asked: `a capacity block from ${block.startsAt} to ${block.endsAt}`,
      found: `it ends ${number(-hours, 1)} hours before it starts`,
      allowed: "an end after the start",
      todo: "copy start and end from the reservation",
    });
  else if (hours > MOST_DAYS * 24)
    issues.push({
      code: "capacity-block-window",
      path: "target.pricing.endsAt",
      asked: `a capacity block from ${block.startsAt} to ${block.endsAt}`,
      found: `that is ${number(hours / 24, 1)} days`,
      allowed: `1 to 14 days by the day, then by 7 days to ${MOST_DAYS}`,
      todo: "copy start and end from the reservation; follow one block by another",
    });
  if (nodes > MOST_INSTANCES)
    issues.push({
      code: "capacity-block-instances",
      path: "target.pricing",
      asked: `${nodes} nodes out of one capacity block`,
      found: `a block has at most ${MOST_INSTANCES} instances`,
      allowed: `at most ${MOST_INSTANCES} nodes`,
      todo: "use fewer nodes, or a reservation",
    });
  return issues;
}

/** A run that is too long for its block. */
export interface TooShort {
  /** Hours of the high estimate. */
  readonly neededHours: number;
  readonly expectedHours: number;
  /** RL steps that would fit, a multiple of the save period; null where none do. */
  readonly steps: { readonly asked: number; readonly fit: number | null };
  /** More nodes with which it would fit, and the hours it would take; null where none do. */
  readonly nodes: { readonly factor: number; readonly most: number; readonly hours: number } | null;
}

/** The refusal of a run that would outlive its block, with the nearest changes that would not. */
export function blockTooShort(block: CapacityBlock, run: TooShort): Issue {
  const hours = blockHours(block);
  const days = daysNeeded(run.neededHours);
  const changes = [
    run.steps.fit === null
      ? null
      : `train ${run.steps.fit} RL steps instead of ${run.steps.asked} (rl.steps, and what is reported of them)`,
    run.nodes === null
      ? null
      : `use ${run.nodes.factor} times the nodes (at most ${run.nodes.most} a stage: about ${number(run.nodes.hours, 1)} h)`,
    days === null ? null : `take a block of ${days} ${days === 1 ? "day" : "days"}`,
  ].filter((change) => change !== null);
  return {
    code: "capacity-block-too-short",
    path: "target.pricing.endsAt",
    asked: `all stages one after another in capacity block ${block.id}, ${number(run.neededHours, 1)} h by the high estimate (${number(run.expectedHours, 1)} h expected; the high one counts because nothing outlives a block)`,
    found: `the block has ${number(usableHours(hours), 1)} h: ${number(hours, 1)} h less the ${MINUTES_LOST_AT_END} min before its end, when EKS scales the nodes to zero`,
    allowed: `at most ${number(usableHours(hours), 1)} h`,
    todo:
      changes.length > 0
        ? `nearest changes: ${changes.join("; or ")}`
        : "split the run: no block is long enough (182 days)",
  };
}
