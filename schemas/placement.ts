/**
 * Placement: a target's pool → what puts a pod on its nodes. On AWS our node groups carry uplift.dev/pool as label and taint; on
 * a cluster of one's own the target names the labels.
 */
import { POOL_LABEL } from "./pool.ts";
import type { PlatformTarget } from "./target.ts";

export type PoolKind = "training" | "serving" | "sandboxes" | "platform";

export interface Toleration {
  readonly key: string;
  readonly operator: "Equal" | "Exists";
  readonly value?: string;
  readonly effect: "NoSchedule";
}

/** Fields of a pod's spec. */
export interface Placement {
  readonly nodeSelector: Record<string, string>;
  readonly tolerations: Toleration[];
}

/** GPU nodes are often kept free of pods that ask for no GPU. */
const GPU_TAINT: Toleration = { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" };

export function placement(target: PlatformTarget, pool: PoolKind): Placement {
  const gpu = pool === "training" || pool === "serving";
  return {
    nodeSelector: { ...poolLabels(target, pool) },
    tolerations: [
      { key: POOL_LABEL, operator: "Equal", value: pool, effect: "NoSchedule" },
      ...(gpu ? [GPU_TAINT] : []),
    ],
  };
}

/** Labels that a pool's nodes carry. */
export function poolLabels(target: PlatformTarget, pool: PoolKind): Record<string, string> {
  if (target.kind === "aws") return { [POOL_LABEL]: pool };
  const { nodes } = target.platform;
  return pool === "serving" ? (nodes.serving ?? nodes.training) : nodes[pool];
}
