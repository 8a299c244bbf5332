/**
 * Cluster endpoint text: what commands print about endpoints on a cluster: for a person who wants to use one, or to see what
 * there is. Pure.
 */
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { exampleCallWith, SERVING_PORT } from "../serving/index.ts";
import type { ListedEndpoint, ServedEndpoint } from "./cluster-endpoints.ts";

/** How kubectl reaches a cluster: its context, and on AWS the command that makes it. */
export interface KubectlAccess {
  readonly context: string;
  readonly setUp: string | null;
}

/** On AWS the context is called as the target. */
export function kubectlAccess(target: ClusterTarget, outputs: ClusterStackOutputs | null): KubectlAccess {
  if (target.kind === "kubernetes") return { context: target.kubeContext, setUp: null };
  const cluster = outputs?.kind === "aws" ? outputs.eksCluster : target.name;
  const setUp = `aws eks update-kubeconfig --region ${target.region} --name ${cluster} --alias ${target.name}`;
  return { context: target.name, setUp };
}

/** What was made, and a call to try: the key goes from the cluster into a variable, and through a pipe into curl. */
export function servedText({ spec, url, apiKey, state, reused }: ServedEndpoint, access: KubectlAccess): string {
  const kubectl = `kubectl --context ${access.context} --namespace ${apiKey.namespace}`;
  const held = `${spec.layout.gpusPerNode} GPUs of one node`;
  return [
    `${spec.name} ${state === "ready" ? "is ready" : "starts"}: it holds ${held} until ${spec.expiresAt}${reused ? " (it was there already)" : ""}`,
    ...(state === "starting" ? ["  uplift endpoints shows when it is ready, or why not"] : []),
    `  in the cluster  ${url}  model "${spec.model}"`,
    `  API key         Secret ${apiKey.namespace}/${apiKey.name}, key ${apiKey.key}`,
    "From this machine:",
    ...(access.setUp ? [access.setUp] : []),
    `${kubectl} port-forward service/${spec.name} ${SERVING_PORT}:${SERVING_PORT} &`,
    exampleCallWith({
      url: `http://127.0.0.1:${SERVING_PORT}/v1`,
      model: spec.model,
      keyCommand: `${kubectl} get secret ${apiKey.name} -o jsonpath='{.data.${apiKey.key}}' | base64 -d`,
    }),
  ].join("\n");
}

/** One line an endpoint, its reasons below it. */
export function endpointsText(all: readonly ListedEndpoint[]): string {
  if (all.length === 0) return "No endpoints. Make one: uplift serve CHECKPOINT --plan FILE --target TARGET";
  return all
    .flatMap(({ name, listed, state, reasons, url, purpose, expiresAt, gpusHeld }) => [
      `${name}  ${state.padEnd(8)} ${gpusHeld} GPUs  ${url}  ${purpose ?? "purpose unknown"}  until ${expiresAt?.slice(0, 16) ?? "unknown"}`,
      ...(listed ? [] : ["    unlisted: the cluster has it, and no stack of this machine's state"]),
      ...reasons.map((reason) => `    ${reason}`),
    ])
    .join("\n");
}
