/**
 * Cluster endpoint: an endpoint's spec → its Kubernetes objects in the namespace uplift-serving: the server (cluster-server.ts),
 * what lets clients and nobody else reach it, and what ends it (cluster-expiry.ts). Pure. The Secret with its API key is
 * made by whoever applies them: no value of it is here.
 */
import type { Service } from "kubernetes-types/core/v1.js";
import type { NetworkPolicy, NetworkPolicyPeer } from "kubernetes-types/networking/v1.js";
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { type Manifest, NAMESPACES, PROMETHEUS_PEER } from "../../schemas/manifest.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import { expiryManifests } from "./cluster-expiry.ts";
import { serverLabels } from "./cluster-names.ts";
import { type Surroundings, serverDeployment } from "./cluster-server.ts";
import { weightsEgress } from "./cluster-weights.ts";
import { SERVING_PORT } from "./vllm-flags.ts";

/** Everything of one endpoint but its Secret. The same spec gives the same objects. */
export function endpointManifests(spec: ClusterEndpointSpec, around: Surroundings): Manifest[] {
  const { gpus, name: instance } = around.pool.instance;
  if (spec.layout.gpusPerNode > gpus)
    throw new TypeError(`${spec.name} needs ${spec.layout.gpusPerNode} GPUs of one node, ${instance} has ${gpus}`);
  const prometheus = around.target.platform.prometheus;
  return [
    serverDeployment(spec, around),
    service(spec.name),
    networkPolicy(spec, around.target),
    ...(prometheus ? [serviceMonitor(spec.name)] : []),
    ...expiryManifests(spec, around.target),
  ];
}

const metadataOf = (name: string) => ({ name, namespace: NAMESPACES.serving, labels: serverLabels(name) });
const selectorOf = (name: string) => ({ "app.kubernetes.io/name": name });

function service(name: string): Service & Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: metadataOf(name),
    spec: {
      type: "ClusterIP",
      selector: selectorOf(name),
      ports: [{ name: "http", port: SERVING_PORT, targetPort: "http" }],
    },
  };
}

/**
 * In: evaluation, environments and the controller (uplift), jobs (slurm), metrics. Beside /v1, which asks for the key, vLLM
 * answers /tokenize and /metrics without one, so nobody else gets as far. Out: nothing where weights lie on a volume (a pod
 * always reaches itself), else what they are fetched from. A port-forward comes from the node and needs no rule.
 */
function networkPolicy({ name, source }: ClusterEndpointSpec, target: PlatformTarget): NetworkPolicy & Manifest {
  const { prometheus } = target.platform;
  const of = (namespace: string): NetworkPolicyPeer => ({
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
  });
  const clients = [...[NAMESPACES.platform, NAMESPACES.slurm].map(of), ...(prometheus ? [PROMETHEUS_PEER] : [])];
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadataOf(name),
    spec: {
      podSelector: { matchLabels: selectorOf(name) },
      policyTypes: ["Ingress", "Egress"],
      ingress: [{ from: clients, ports: [{ protocol: "TCP", port: SERVING_PORT }] }],
      egress: source.kind === "objects" ? weightsEgress(target) : [],
    },
  };
}

/** The Prometheus operator's kind; kubernetes-types does not have it. */
interface ServiceMonitor extends Manifest {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly endpoints: readonly { readonly port: string; readonly path: string; readonly interval: string }[];
  };
}

function serviceMonitor(name: string): ServiceMonitor {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "ServiceMonitor",
    metadata: metadataOf(name),
    spec: {
      selector: { matchLabels: selectorOf(name) },
      endpoints: [{ port: "http", path: "/metrics", interval: "30s" }],
    },
  };
}
