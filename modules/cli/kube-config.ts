/**
 * Kube config: a cluster target → how to reach its Kubernetes API, never the current context by itself.
 * Reads the kubeconfig that KUBECONFIG or the home folder names, or the one the platform's stack gives.
 */
import { KubeConfig } from "@kubernetes/client-node";
import { UserError } from "../../schemas/error.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { loadContext } from "../cluster/preflight/kubernetes/api.ts";

/** The API of a target's cluster; null where an AWS target has none yet. */
export function kubeConfigOf(target: ClusterTarget, outputs: ClusterStackOutputs | null): KubeConfig | null {
  if (target.kind === "aws") {
    if (outputs?.kind !== "aws") return null;
    const config = new KubeConfig();
    config.loadFromString(outputs.kubeconfig);
    return config;
  }
  const { config, contexts } = loadContext(target.kubeContext);
  if (config !== null) return config;
  const { place, names, unreadable } = contexts;
  throw new UserError({
    ...{ code: "kube-context-missing", path: `${target.name}: kubeContext` },
    asked: `the cluster of the context "${target.kubeContext}"`,
    found: unreadable ?? `the kubeconfig has no such context: ${place}`,
    allowed: names.join(", ") || "a kubeconfig with this context",
    todo: place.startsWith("KUBECONFIG")
      ? "correct kubeContext in the target file, or KUBECONFIG, which names the kubeconfig"
      : "correct kubeContext in the target file, or set KUBECONFIG to the file that has it",
  });
}
