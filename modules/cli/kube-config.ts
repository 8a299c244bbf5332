/**
 * Kube config: a cluster target → how to reach its Kubernetes API, never the current context by itself.
 * Reads the kubeconfig that KUBECONFIG or the home folder names, or the one the platform's stack gives.
 */
import { KubeConfig } from "@kubernetes/client-node";
import { UserError } from "../../schemas/error.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget } from "../../schemas/target.ts";

/** The API of a target's cluster; null where an AWS target has none yet. */
export function kubeConfigOf(target: ClusterTarget, outputs: ClusterStackOutputs | null): KubeConfig | null {
  const config = new KubeConfig();
  if (target.kind === "aws") {
    if (outputs?.kind !== "aws") return null;
    config.loadFromString(outputs.kubeconfig);
    return config;
  }
  try {
    config.loadFromDefault();
  } catch {
    // An empty or broken file: it has no context, which is said below.
  }
  // Where there is no kubeconfig the client makes one up, with this context.
  const contexts = config.getContexts().flatMap(({ name }) => (name === "loaded-context" ? [] : [name]));
  if (!contexts.includes(target.kubeContext))
    throw new UserError({
      ...{ code: "kube-context-missing", path: `${target.name}: kubeContext` },
      asked: `the cluster of the context "${target.kubeContext}"`,
      found: "the kubeconfig has no such context",
      allowed: contexts.join(", ") || "none: KUBECONFIG names no file with contexts",
      todo: "correct kubeContext in the target file, or set KUBECONFIG to the file that has it",
    });
  config.setCurrentContext(target.kubeContext);
  return config;
}
