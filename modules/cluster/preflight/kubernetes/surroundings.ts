/**
 * Surroundings: what the cluster must have beside nodes and storage: a runtime class for sandboxes, an engine that enforces
 * network policies, an ingress class, and namespaces nobody else uses.
 */
import { NAMESPACES, OURS } from "../../../../schemas/manifest.ts";
import type { Web } from "../../../../schemas/platform.ts";
import { type Check, error, later, ok, unchecked } from "../check.ts";
import { type KubernetesApi, METADATA_ONLY } from "./api.ts";
import type { Metadata } from "./objects.ts";

type ReadingApi = Pick<KubernetesApi, "get" | "list">;
interface Named {
  readonly metadata: Metadata;
}
interface DaemonSet extends Named {
  readonly spec?: { readonly template?: { readonly spec?: { readonly containers?: readonly Container[] } } };
}
interface Container {
  readonly name: string;
  readonly args?: readonly string[];
}

/** The kernel between a sandbox and its node; sandboxes are refused without one. */
export function runtimeClassCheck(api: ReadingApi, runtimeClass: string, installed: boolean): Check {
  return {
    ...{ area: "kubernetes", name: "runtime-class", subject: `RuntimeClass ${runtimeClass}` },
    async run() {
      const found = await api.get<Named & { handler: string }>(`/apis/node.k8s.io/v1/runtimeclasses/${runtimeClass}`);
      const wanted = installed ? "there (platform.installed.runtimeClass is true)" : "made by the platform";
      if (found) return ok({ found: `handler ${found.handler}`, wanted });
      if (!installed)
        return later({
          ...{
            found: "not there yet: `up` makes the class, and not the handler in containerd of the sandbox nodes",
            wanted,
          },
          todo: `see that they have it (docs/own-cluster.md): where they have not, no sandbox starts, and without one the environment service does not either`,
        });
      return error({
        ...{ found: "there is no such class", wanted },
        todo: `install ${runtimeClass} on the sandbox nodes and make the class (docs/own-cluster.md)`,
      });
    },
  };
}

/** Daemon sets of engines that enforce network policies. */
const ENGINES = [
  { daemon: /^(calico-node|canal)$/, name: "Calico" },
  { daemon: /^(cilium|anetd)$/, name: "Cilium" },
  { daemon: /^antrea-agent$/, name: "Antrea" },
  { daemon: /^kube-router$/, name: "kube-router" },
  { daemon: /^ovnkube-node/, name: "OVN-Kubernetes" },
  { daemon: /^weave-net$/, name: "Weave Net" },
  { daemon: /^kube-network-policies$/, name: "kube-network-policies" },
  { daemon: /^azure-npm$/, name: "Azure NPM" },
];

/**
 * A hint only: nothing in the API says whether policies are enforced. Without an engine a policy is accepted and does
 * nothing, and a sandbox's network is open.
 */
export function networkPolicyCheck(api: ReadingApi): Check {
  return {
    ...{ area: "kubernetes", name: "network-policy", subject: "network policies" },
    async run() {
      const daemons = (await api.list<DaemonSet>("/apis/apps/v1/daemonsets")) ?? [];
      const wanted = "an engine that enforces them";
      const engine = ENGINES.find(({ daemon }) => daemons.some(({ metadata }) => daemon.test(metadata.name)));
      if (engine) return ok({ found: engine.name, wanted });
      const containers = (name: string) =>
        daemons.find(({ metadata }) => metadata.name === name)?.spec?.template?.spec?.containers ?? [];
      const agent = containers("aws-node").find(({ name }) => name === "aws-eks-nodeagent");
      if (agent?.args?.includes("--enable-network-policy=true")) return ok({ found: "the VPC CNI's agent", wanted });
      const plain = daemons.find(({ metadata }) => /^(kube-flannel.*|aws-node)$/.test(metadata.name));
      if (plain)
        return error({
          ...{ found: `${plain.metadata.name}, which enforces none`, wanted },
          todo:
            plain.metadata.name === "aws-node" ? "turn network policies on in the VPC CNI" : "install Calico or Cilium",
        });
      return unchecked({
        ...{ found: "no engine that preflight knows by its daemon set", wanted },
        todo: "see whether a pod under a default-deny policy still reaches another: its network has to be closed",
      });
    },
  };
}

/** The platform's namespaces are free or its own. */
export function namespaceCheck(api: ReadingApi, left: { slurmOperator: boolean; certManager: boolean }): Check {
  return {
    ...{ area: "kubernetes", name: "namespaces", subject: "namespaces" },
    async run() {
      const others: string[] = [
        left.slurmOperator ? NAMESPACES.slurmOperator : "",
        left.certManager ? NAMESPACES.certManager : "",
      ];
      const names = Object.values(NAMESPACES).filter((name) => !others.includes(name));
      const found = await Promise.all(names.map((name) => api.get<Named>(`/api/v1/namespaces/${name}`)));
      const there = found.filter((one) => one !== null);
      const foreign = there.filter(({ metadata }) =>
        Object.entries(OURS).some(([key, value]) => metadata.labels?.[key] !== value),
      );
      const wanted = `${names.join(", ")}: free, or Uplift's own`;
      if (foreign.length === 0) return ok({ found: there.length === 0 ? "free" : "Uplift's own", wanted });
      const list = foreign.map(({ metadata }) => metadata.name).join(", ");
      return error({
        ...{ found: `${list} made by something else`, wanted },
        todo: `remove what is in them, or use another cluster; if they are meant for Uplift: kubectl label namespace ${foreign.map(({ metadata }) => metadata.name).join(" ")} ${Object.entries(
          OURS,
        )
          .map(([key, value]) => `${key}=${value}`)
          .join(" ")}`,
      });
    },
  };
}

/** What the dashboard's public name needs of the cluster. */
export function ingressChecks(api: ReadingApi, web: Web): Check[] {
  const check = (subject: string, path: string, wanted: string, todo: string): Check => ({
    ...{ area: "kubernetes", name: "ingress", subject },
    run: async () => {
      // Of a Secret the metadata only: its values are nobody's business here.
      if (await api.get(path, METADATA_ONLY)) return ok({ found: "there", wanted });
      return error({ found: "not there", wanted, todo });
    },
  });
  const { tls, ingressClass } = web;
  return [
    check(
      `ingress class ${ingressClass}`,
      `/apis/networking.k8s.io/v1/ingressclasses/${ingressClass}`,
      "an ingress controller of that class",
      "install one, or correct platform.web.ingressClass",
    ),
    ...(tls.kind === "secret"
      ? [
          check(
            `Secret ${NAMESPACES.platform}/${tls.name}`,
            `/api/v1/namespaces/${NAMESPACES.platform}/secrets/${tls.name}`,
            `the certificate of ${web.host}`,
            `kubectl create namespace ${NAMESPACES.platform} with the label of Uplift, then kubectl create secret tls ${tls.name} in it`,
          ),
        ]
      : []),
    ...(tls.kind === "cert-manager"
      ? [
          check(
            `ClusterIssuer ${tls.clusterIssuer}`,
            `/apis/cert-manager.io/v1/clusterissuers/${tls.clusterIssuer}`,
            `an issuer of the certificate of ${web.host}`,
            "make the issuer, or correct platform.web.tls",
          ),
        ]
      : []),
  ];
}
