/**
 * Namespaces: a target → the namespaces of its platform, one a trust boundary, each with the strictest pod security it can have. Pure.
 */
import type { Namespace } from "kubernetes-types/core/v1.js";
import { type Manifest, NAMESPACES, OURS } from "../../schemas/manifest.ts";
import type { PlatformTarget } from "../../schemas/target.ts";

/** Kubernetes' pod security levels. slurmd and device plugins have to see the node's devices; all others need nothing of it. */
const LEVELS = {
  platform: "restricted",
  sandboxes: "restricted",
  // vLLM's image starts as root.
  serving: "baseline",
  slurm: "privileged",
  system: "privileged",
  // Its chart (1.1.0) gives its pods no securityContext, and has no value for one: "restricted" would refuse them.
  slurmOperator: "baseline",
  certManager: "restricted",
} as const satisfies Record<keyof typeof NAMESPACES, "restricted" | "baseline" | "privileged">;

/** The namespaces; those of operators that are there already are left alone. */
export function namespaceManifests(target: PlatformTarget): Manifest[] {
  const installed = target.kind === "kubernetes" ? target.platform.installed : null;
  const theirs: (keyof typeof NAMESPACES)[] = [
    ...(installed?.certManager ? (["certManager"] as const) : []),
    ...(installed?.slurmOperator ? (["slurmOperator"] as const) : []),
  ];
  return (Object.keys(LEVELS) as (keyof typeof NAMESPACES)[])
    .filter((key) => !theirs.includes(key))
    .map(
      (key) =>
        ({
          apiVersion: "v1",
          kind: "Namespace",
          metadata: {
            name: NAMESPACES[key],
            labels: { ...OURS, "pod-security.kubernetes.io/enforce": LEVELS[key] },
          },
        }) satisfies Namespace & Manifest,
    );
}
