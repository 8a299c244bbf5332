/**
 * Daemon set: a pod → one of it on every node of some pools. Pure.
 */
import type { DaemonSet } from "kubernetes-types/apps/v1.js";
import type { NodeAffinity, PodSpec } from "kubernetes-types/core/v1.js";
import { labels, type Manifest, NAMESPACES, ROOT_BECAUSE } from "../../../schemas/manifest.ts";
import { type PoolKind, placement, poolLabels } from "../../../schemas/placement.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

/** Nodes of any of these pools: conditions of one term must all hold, one of the terms is enough. */
export function poolAffinity(target: PlatformTarget, pools: readonly PoolKind[]): NodeAffinity | undefined {
  const terms = pools.map((pool) => ({
    matchExpressions: Object.entries(poolLabels(target, pool)).map(([key, value]) => ({
      ...{ key, operator: "In", values: [value] },
    })),
  }));
  // A pool without labels is every node; a term without conditions would be none.
  if (terms.some(({ matchExpressions }) => matchExpressions.length === 0)) return undefined;
  return { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: unique(terms) } };
}

function unique<T>(values: readonly T[]): T[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

/** A daemon of the nodes of some pools; it must be there before anything else, whatever the nodes' taints. */
export function daemonSet(
  name: string,
  target: PlatformTarget,
  pools: readonly PoolKind[],
  rootBecause: string,
  pod: Omit<PodSpec, "affinity" | "tolerations">,
): DaemonSet & Manifest {
  const nodeAffinity = poolAffinity(target, pools);
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name, namespace: NAMESPACES.system, labels: labels(name) },
    spec: {
      selector: { matchLabels: labels(name) },
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "10%" } },
      template: {
        metadata: { labels: labels(name), annotations: { [ROOT_BECAUSE]: rootBecause } },
        spec: {
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          priorityClassName: "system-node-critical",
          ...(nodeAffinity ? { affinity: { nodeAffinity } } : {}),
          tolerations: unique(pools.flatMap((pool) => placement(target, pool).tolerations)),
          nodeSelector: { "kubernetes.io/os": "linux" },
          ...pod,
        },
      },
    },
  };
}
