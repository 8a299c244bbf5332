/**
 * Cluster names: what an endpoint's objects on a cluster are called, labelled and annotated with. Takes an endpoint's
 * name; returns names and values. Pure.
 */
import type { Affinity } from "kubernetes-types/core/v1.js";
import { labels, NAMESPACES, type SecretKey } from "../../schemas/manifest.ts";
import { SERVING_PORT } from "./vllm-flags.ts";

/** Label of every object of an endpoint, with its name: what `uplift endpoints rm` removes. */
export const ENDPOINT_LABEL = "uplift.dev/endpoint";
/** Label of servers, as against the guards of their end. */
const COMPONENT_LABEL = "app.kubernetes.io/component";
const SERVER = "endpoint";

/** Annotations of an endpoint's Deployment, and of nothing that would restart its pod when they change. */
export const ANNOTATIONS = {
  /** The guard in the cluster reads this one: it alone decides when the endpoint ends. */
  expiresAt: "uplift.dev/expires-at",
  checkpoint: "uplift.dev/checkpoint",
  purpose: "uplift.dev/purpose",
  maker: "uplift.dev/maker",
  /** The whole ClusterEndpointSpec as JSON, so that an endpoint can be listed without the state that made it. */
  spec: "uplift.dev/spec",
} as const;

/** What finds the Deployments of endpoints. */
export const SERVER_SELECTOR = `${COMPONENT_LABEL}=${SERVER},app.kubernetes.io/part-of=uplift`;

/** Labels of an endpoint's server and its Service; `app.kubernetes.io/name` is what selectors match. */
export function serverLabels(name: string): Record<string, string> {
  return { ...labels(name), [COMPONENT_LABEL]: SERVER, [ENDPOINT_LABEL]: name };
}

/** Name and labels of what guards an endpoint's end. */
export function guardOf(name: string): { name: string; labels: Record<string, string> } {
  const guard = `${name}-expiry`;
  return { name: guard, labels: { ...labels(guard), [COMPONENT_LABEL]: "endpoint-expiry", [ENDPOINT_LABEL]: name } };
}

/** The address clients inside the cluster use as `base_url`. */
export function clusterEndpointUrl(name: string): string {
  return `http://${name}.${NAMESPACES.serving}.svc.cluster.local:${SERVING_PORT}/v1`;
}

/** Where an endpoint's API key lies. */
export function apiKeyOf(name: string): SecretKey & { namespace: string } {
  return { namespace: NAMESPACES.serving, name, key: "api-key" };
}

/** As many bytes of a key as OpenAI-compatible clients take without a thought, and nobody guesses. */
export const API_KEY_BYTES = 32;

/** One model a node: also where two would have GPUs enough, they would share its memory bandwidth and page cache. */
export function oneServerANode(): Affinity {
  const labelSelector = { matchLabels: { [COMPONENT_LABEL]: SERVER } };
  return {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [{ labelSelector, topologyKey: "kubernetes.io/hostname" }],
    },
  };
}
