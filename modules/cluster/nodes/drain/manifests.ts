/**
 * Node drain's manifests: one pod that may read and cordon nodes, and nothing else. Pure.
 */
import type { Deployment } from "kubernetes-types/apps/v1.js";
import type { ServiceAccount } from "kubernetes-types/core/v1.js";
import type { ClusterRole, ClusterRoleBinding } from "kubernetes-types/rbac/v1.js";
import { labels, type Manifest, NAMESPACES, NO_RIGHTS } from "../../../../schemas/manifest.ts";
import { placement, poolLabels } from "../../../../schemas/placement.ts";
import type { PlatformTarget } from "../../../../schemas/target.ts";

const NAME = "node-drain";
const ROLE = "uplift-node-drain";
const metadata = { name: NAME, namespace: NAMESPACES.system, labels: labels(NAME) };

export function nodeDrainManifests(
  target: PlatformTarget,
): (Manifest & (ServiceAccount | ClusterRole | ClusterRoleBinding | Deployment))[] {
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata, automountServiceAccountToken: false },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: ROLE, labels: labels(NAME) },
      rules: [{ apiGroups: [""], resources: ["nodes"], verbs: ["list", "patch"] }],
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: ROLE, labels: labels(NAME) },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: ROLE },
      subjects: [{ kind: "ServiceAccount", name: NAME, namespace: NAMESPACES.system }],
    },
    deployment(target),
  ];
}

/** Whether it has looked within so many minutes: it answers nobody, and writes a file instead. */
const lately = (minutes: number) => ({
  exec: { command: ["sh", "-c", `test -n "$(find /tmp/looked -mmin -${minutes})"`] },
  ...{ initialDelaySeconds: 10, periodSeconds: 30, timeoutSeconds: 5 },
});

function deployment(target: PlatformTarget): Deployment & Manifest {
  const selector = Object.entries(poolLabels(target, "training"))
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata,
    spec: {
      replicas: 1,
      strategy: { type: "Recreate" },
      selector: { matchLabels: labels(NAME) },
      template: {
        metadata: { labels: labels(NAME) },
        spec: {
          ...placement(target, "platform"),
          serviceAccountName: NAME,
          automountServiceAccountToken: true,
          enableServiceLinks: false,
          securityContext: {
            ...{ runAsNonRoot: true, runAsUser: 65_532, runAsGroup: 65_532 },
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              name: NAME,
              image: target.platform.images.platform,
              command: ["node", "--import", "tsx", "modules/cluster/nodes/drain/main.ts"],
              env: [
                { name: "UPLIFT_NODE_SELECTOR", value: selector },
                { name: "NODE_EXTRA_CA_CERTS", value: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt" },
              ],
              readinessProbe: lately(2),
              livenessProbe: lately(10),
              resources: { requests: { cpu: "10m", memory: "128Mi" }, limits: { memory: "512Mi" } },
              securityContext: NO_RIGHTS,
              // tsx keeps what it compiled in the folder for temporary files.
              volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
            },
          ],
          volumes: [{ name: "tmp", emptyDir: { sizeLimit: "128Mi" } }],
        },
      },
    },
  };
}
