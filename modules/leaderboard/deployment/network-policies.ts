/**
 * Network policies of the namespace `uplift`: nothing comes in but what a line here, or the environment service's own, lets in. In:
 * target. Out: the default, and one policy a component that listens. What goes out is not limited: S3, databases and issuers of
 * logins have addresses of each site's own. Probes and port-forwards come from the pod's own node, which no policy stops.
 */
import type { NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer } from "kubernetes-types/networking/v1.js";
import { type Manifest, PROMETHEUS_PEER } from "../../../schemas/manifest.ts";
import type { Web } from "../../../schemas/platform.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { CONTROLLER, CONTROLLER_PORT, DUMP, MIGRATIONS, metadataOf, POSTGRES, RESTORE, selectorOf } from "./pods.ts";
import { entrancePort } from "./web.ts";

/** All policies of a target. */
export function networkPolicies(target: PlatformTarget): Manifest[] {
  const inCluster = target.kind === "kubernetes" && target.platform.database.kind === "in-cluster";
  const users = [CONTROLLER, MIGRATIONS, DUMP, RESTORE].map(
    (component): NetworkPolicyPeer => ({ podSelector: { matchLabels: selectorOf(component) } }),
  );
  return [
    policy("default-deny", {}, []),
    policy(CONTROLLER, { matchLabels: selectorOf(CONTROLLER) }, controllerRules(target)),
    ...(inCluster
      ? [policy(POSTGRES, { matchLabels: selectorOf(POSTGRES) }, [{ from: users, ports: ports(5432) }])]
      : []),
  ];
}

function controllerRules(target: PlatformTarget): NetworkPolicyIngressRule[] {
  const { web, prometheus } = target.platform;
  return [
    ...(web ? [{ ...ingressPeers(target, web), ports: ports(entrancePort(target)) }] : []),
    ...(prometheus ? [{ from: [PROMETHEUS_PEER], ports: ports(CONTROLLER_PORT) }] : []),
  ];
}

/** Who may use the entrance, which asks everybody for a login; without `from`, any address. */
function ingressPeers(target: PlatformTarget, web: Web): Pick<NetworkPolicyIngressRule, "from"> {
  // A load balancer of AWS calls pods from addresses of its own in the VPC.
  if (target.kind === "aws" && web.tls.kind === "acm")
    return { from: [{ ipBlock: { cidr: target.platform.vpcCidr } }] };
  if (web.ingressNamespace === undefined) return {};
  return {
    from: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": web.ingressNamespace } } }],
  };
}

const ports = (port: number) => [{ protocol: "TCP", port }];

function policy(
  name: string,
  podSelector: NonNullable<NetworkPolicy["spec"]>["podSelector"],
  ingress: NetworkPolicyIngressRule[],
) {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadataOf(name),
    spec: { podSelector, policyTypes: ["Ingress"], ingress },
  } satisfies NetworkPolicy & Manifest;
}
