/**
 * Network: who may speak to Slurm's pods. Pure. Jobs reach each other on any port (NCCL, Ray), so workers are open to the
 * namespace; what runs outside it reaches REST only.
 */
import type { NetworkPolicy, NetworkPolicyIngressRule } from "kubernetes-types/networking/v1.js";
import { labels, type Manifest, NAMESPACES, PROMETHEUS_PEER } from "../../../schemas/manifest.ts";
import { DATABASE, DATABASE_PORT } from "./accounting.ts";
import type { SlurmArgs } from "./args.ts";
import { APP, NAMESPACE } from "./names.ts";

type Policy = NetworkPolicy & Manifest;

export function networkPolicies({ target, accountingHost }: SlurmArgs): Policy[] {
  const { installed } = target.kind === "kubernetes" ? target.platform : { installed: null };
  const operator = installed?.slurmOperator ? installed.slurmOperatorNamespace : NAMESPACES.slurmOperator;
  return [
    policy(
      "slurm-inside",
      // Policies add up: this one must not open the database.
      { matchExpressions: [{ key: APP, operator: "NotIn", values: [DATABASE] }] },
      { from: [{ podSelector: {} }] },
    ),
    policy(
      "slurm-restapi",
      { matchLabels: { [APP]: "slurmrestd" } },
      {
        from: [NAMESPACES.platform, operator].map(namespace),
        ports: [{ protocol: "TCP", port: 6820 }],
      },
    ),
    ...(accountingHost === undefined
      ? [
          policy(
            "slurm-accounting-database",
            { matchLabels: labels(DATABASE) },
            {
              from: [{ podSelector: { matchLabels: { [APP]: "slurmdbd" } } }],
              ports: [{ protocol: "TCP", port: DATABASE_PORT }],
            },
          ),
        ]
      : []),
    // slurmctld answers /metrics on its only port, to whoever may reach it.
    ...(target.platform.prometheus
      ? [
          policy(
            "slurm-metrics",
            { matchLabels: { [APP]: "slurmctld" } },
            { from: [PROMETHEUS_PEER], ports: [{ protocol: "TCP", port: 6817 }] },
          ),
        ]
      : []),
  ];
}

const namespace = (name: string) => ({
  namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": name } },
});

function policy(
  name: string,
  podSelector: NonNullable<NetworkPolicy["spec"]>["podSelector"],
  rule: NetworkPolicyIngressRule,
): Policy {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: NAMESPACE, labels: labels(name) },
    spec: { podSelector, policyTypes: ["Ingress"], ingress: [rule] },
  };
}
