/**
 * Wanted nodes: pools → the instances AWS has to give, and which of them run already. Pure.
 */
import type { Instance } from "@aws-sdk/client-ec2";
import type { GpuPool, Pools } from "../../../../schemas/pool.ts";
import type { Pricing } from "../../../../schemas/pricing.ts";
import { type AwsTarget, TARGET_TAG } from "../../aws/target.ts";

export interface WantedNodes {
  readonly pool: string;
  readonly type: string;
  /** Nodes without which the plans cannot run, and the most the pool grows to. */
  readonly least: number;
  readonly most: number;
  readonly pricing: Pricing;
}

/** One row a pool. */
export function wantedNodes(pools: Pools, { platform }: AwsTarget): WantedNodes[] {
  // Serving grows by itself to its most, but not inside a reservation or block.
  const most = ({ kind, pricing, nodes, maxNodes }: GpuPool) =>
    kind === "serving" && pricing.kind === "on-demand" ? maxNodes : nodes;
  const gpu = (pool: GpuPool): WantedNodes => ({
    ...{ pool: pool.name, type: pool.instance.name, least: pool.nodes, most: most(pool), pricing: pool.pricing },
  });
  const cpu = (pool: Pools["platform"], type: string): WantedNodes => ({
    ...{ pool: pool.name, type, least: pool.minNodes, most: pool.maxNodes, pricing: { kind: "on-demand" } },
  });
  return [
    gpu(pools.training),
    ...(pools.serving ? [gpu(pools.serving)] : []),
    cpu(pools.sandboxes, platform.sandboxInstance),
    cpu(pools.platform, platform.platformInstance),
  ];
}

/** GPU pools of a target. */
export function gpuPools(pools: Pools): GpuPool[] {
  return pools.serving ? [pools.training, pools.serving] : [pools.training];
}

/** Whether something carries the target's tag. */
export function isOurs(tags: Instance["Tags"], targetName: string): boolean {
  return (tags ?? []).some(({ Key, Value }) => Key === TARGET_TAG && Value === targetName);
}
