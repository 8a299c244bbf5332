/**
 * Pools as text: what a platform has, who needs it, what it costs an hour, and what changes against what is up. Pure.
 */
import type { Plan } from "../../schemas/plan.ts";
import type { CpuPool, GpuPool, Pools, PoolUse } from "../../schemas/pool.ts";
import { whyNotTrained } from "./not-trained.ts";

/** A pool's price of one node for one hour and where it is from; null where no table has it. */
export type PoolPrice = (pool: GpuPool) => { readonly dollarsPerNodeHour: number; readonly pricing: string } | null;

/** What of a platform is paid whether or not anything runs. */
export interface FixedCost {
  readonly what: string;
  /** Null where no table has its price. */
  readonly dollarsPerMonth: number | null;
  /** No public source has its price: it is a guess from the neighbours'. Default false. */
  readonly estimated?: boolean;
  /** Where and when prices were read, e.g. "us-east-1's list prices of 2026-01-19". */
  readonly basis?: string;
}

export interface PlatformReview {
  readonly pools: Pools;
  /** What is up now; null where nothing is. */
  readonly before: Pools | null;
  readonly price: PoolPrice;
  readonly fixed: readonly FixedCost[];
  /** The plans that the pools are for: which of them cannot be trained is said. Default none. */
  readonly plans?: readonly Plan[];
}

/** The review that `uplift up` shows before it asks. */
export function renderPlatform({ pools, before, price, fixed, plans = [] }: PlatformReview): string {
  const gpu = [pools.training, ...(pools.serving ? [pools.serving] : [])];
  const lines = [
    ...gpu.flatMap((pool) => gpuLines(pool, price(pool))),
    ...(pools.serving ? [] : sharedServingLines(pools.training)),
    ...[pools.sandboxes, pools.platform].flatMap(cpuLines),
    "",
    ...moneyLines(gpu, price, fixed),
    ...notTrainedLines(plans),
  ];
  const changes = before === null ? [] : changeLines(before, pools, price);
  return [...lines, ...(changes.length > 0 ? ["", "Against what is up:", ...changes] : [])].join("\n");
}

/** Plans whose nodes would be paid for and that no run can be made of. */
function notTrainedLines(plans: readonly Plan[]): string[] {
  const lines = plans.flatMap((plan) => {
    const why = whyNotTrained(plan);
    return why === null ? [] : [`  ${plan.name}: ${why}`];
  });
  return lines.length === 0 ? [] : ["", "Warning: of these plans no run can be made:", ...lines];
}

function gpuLines(pool: GpuPool, price: ReturnType<PoolPrice>): string[] {
  const cost = price === null ? "price unknown" : `${dollars(price.dollarsPerNodeHour)} an hour each, ${price.pricing}`;
  const wanted = pool.neededBy.reduce((sum, { nodes }) => sum + nodes, 0);
  const waits = wanted > pool.nodes ? [`${indent}${wanted} wanted together: plans wait for each other`] : [];
  return [
    `${pool.kind.padEnd(12)}${count(pool.nodes, "node")} of at most ${pool.maxNodes}: ${pool.instance.name}, ${cost}`,
    ...pool.neededBy.map(useLine),
    ...waits,
  ];
}

/** Model servers that share the training nodes: a Slurm worker holds its node's GPUs also while no job runs. */
function sharedServingLines({ nodes, maxNodes }: GpuPool): string[] {
  const shared = "serving     on training nodes that no Slurm worker holds: platform.nodes.serving is not set";
  if (nodes < maxNodes) return [shared];
  return [
    shared,
    `${indent}warning: workers take all ${maxNodes} nodes of the target, so model servers wait without end. Have more nodes`,
    `${indent}than maxNodes with these labels, or give some nodes labels of their own (platform.nodes.serving)`,
  ];
}

function cpuLines(pool: CpuPool): string[] {
  return [
    `${pool.kind.padEnd(12)}${pool.minNodes} to ${pool.maxNodes} nodes without GPUs`,
    ...pool.neededBy.map(useLine),
    ...sandboxLines(pool),
  ];
}

/** Whether there is room for all sandboxes at once, or what waits. */
function sandboxLines({ pods, maxNodes }: CpuPool): string[] {
  if (!pods || pods.atOnce === 0) return [];
  const { atOnce, perNode, most, milliCpus, memoryMib } = pods;
  const quota = atOnce > most ? [`${indent}${atOnce} sandboxes at once, ${most} at most: the others wait`] : [];
  if (perNode === null)
    return [
      ...quota,
      `${indent}${atOnce} at once ask for ${(atOnce * milliCpus) / 1000} CPUs and ${Math.ceil((atOnce * memoryMib) / 1024)} GiB: how many nodes that is, is not known here`,
    ];
  if (perNode === 0) return [`${indent}no node holds one sandbox of ${milliCpus} milliCPUs and ${memoryMib} MiB`];
  const nodes = Math.ceil(Math.min(atOnce, most) / perNode);
  if (nodes <= maxNodes) return quota;
  return [
    `${indent}${atOnce} sandboxes at once need ${count(nodes, "node")}, ${maxNodes} at most: beyond ${maxNodes * perNode} attempts wait`,
  ];
}

const indent = " ".repeat(12);
const useLine = ({ plan, what, nodes }: PoolUse) =>
  `${indent}${plan}: ${what}${nodes > 0 ? `, ${count(nodes, "node")}` : ""}`;

function moneyLines(gpu: readonly GpuPool[], price: PoolPrice, fixed: readonly FixedCost[]): string[] {
  const hourly = gpu.reduce((sum, pool) => sum + pool.nodes * (price(pool)?.dollarsPerNodeHour ?? 0), 0);
  const monthly = fixed.reduce((sum, { dollarsPerMonth }) => sum + (dollarsPerMonth ?? 0), 0);
  const known = fixed.flatMap(({ what, dollarsPerMonth, estimated }) =>
    dollarsPerMonth === null ? [] : [`${what} ${dollars(dollarsPerMonth)}${estimated ? " estimated" : ""}`],
  );
  const unknown = fixed.flatMap(({ what, dollarsPerMonth }) => (dollarsPerMonth === null ? [what] : []));
  const bases = [...new Set(fixed.flatMap(({ basis }) => basis ?? []))];
  const at = bases.length > 0 ? ` at ${bases.join(" and ")}` : "";
  return [
    `GPU nodes together: ${dollars(hourly)} an hour, ${dollars(hourly * 24)} a day, as long as they are there`,
    ...(monthly > 0 ? [`The rest: about ${dollars(monthly)} a month${at} (${known.join(", ")})`] : []),
    ...(unknown.length > 0 ? [`Not in that: price unknown for ${unknown.join(", ")}`] : []),
  ];
}

function changeLines(before: Pools, now: Pools, price: PoolPrice): string[] {
  return (["training", "serving"] as const).flatMap((kind) => {
    const [old, next] = [before[kind], now[kind]];
    if (old === null && next === null) return [];
    if (old === null || next === null)
      return [`  ${kind} nodes of their own: ${old === null ? "none before" : "none any more"}`];
    const moved =
      old.instance.name === next.instance.name
        ? []
        : [`  ${kind}: ${old.instance.name} → ${next.instance.name}: every node is replaced`];
    if (old.nodes === next.nodes) return moved;
    const more = (next.nodes - old.nodes) * (price(next)?.dollarsPerNodeHour ?? 0);
    const sign = more < 0 ? "−" : "+";
    return [
      ...moved,
      `  ${kind}: ${old.nodes} → ${count(next.nodes, "node")}: ${sign}${dollars(Math.abs(more))} an hour`,
    ];
  });
}

/** Whether a change takes away nodes that something may run on. */
export function shrinks(before: Pools, now: Pools): boolean {
  return (["training", "serving"] as const).some((kind) => {
    const [old, next] = [before[kind], now[kind]];
    return old !== null && (next === null || next.nodes < old.nodes || next.instance.name !== old.instance.name);
  });
}

const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? "" : "s"}`;

function dollars(value: number): string {
  const digits = value < 100 && value % 1 !== 0 ? 2 : 0;
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}
