/**
 * Autoscaler: Kubernetes' cluster autoscaler, which starts a node for a pod that finds none and ends a node nothing needs.
 * In: image, region. Out: its objects as data; late value: eks-cluster. It resizes groups that carry its tag, and no others:
 * training is not among them.
 */
import type { Deployment } from "kubernetes-types/apps/v1.js";
import type { ServiceAccount } from "kubernetes-types/core/v1.js";
import type { ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding } from "kubernetes-types/rbac/v1.js";
import { labels, late, type Manifest } from "../../../schemas/manifest.ts";
import { POOL_LABEL } from "../../../schemas/pool.ts";
import { AUTOSCALER_TAG } from "./node-pools.ts";

const NAME = "cluster-autoscaler";
/** It keeps its status and its lease in kube-system and offers no other place. */
const NAMESPACE = "kube-system";
/** Who it is; AwsFoundation gives this account its role. */
export const AUTOSCALER_ACCOUNT = { namespace: NAMESPACE, serviceAccount: NAME } as const;
/** A node that nothing needs for so long is ended. */
const IDLE_MINUTES = 10;

const LOOK = ["get", "list", "watch"];
const look = (apiGroup: string, ...resources: string[]): PolicyRule => ({
  apiGroups: [apiGroup],
  resources,
  verbs: LOOK,
});
const RULES: PolicyRule[] = [
  look(
    "",
    "namespaces",
    "nodes",
    "pods",
    "services",
    "replicationcontrollers",
    "persistentvolumeclaims",
    "persistentvolumes",
  ),
  look("apps", "daemonsets", "deployments", "replicasets", "statefulsets"),
  look("batch", "jobs"),
  look("policy", "poddisruptionbudgets"),
  look("storage.k8s.io", "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
  look("resource.k8s.io", "deviceclasses", "resourceclaims", "resourceslices"),
  { apiGroups: [""], resources: ["nodes"], verbs: ["update", "patch"] },
  { apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"] },
  { apiGroups: [""], resources: ["pods/status"], verbs: ["update"] },
  { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
];
/** In its own namespace. */
const OWN_RULES: PolicyRule[] = [
  { apiGroups: [""], resources: ["configmaps"], verbs: ["create", "list", "watch"] },
  {
    ...{ apiGroups: [""], resources: ["configmaps"], resourceNames: [`${NAME}-status`] },
    verbs: ["delete", "get", "update", "watch"],
  },
  { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"] },
  { apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: [NAME], verbs: ["get", "update"] },
];

const HEALTH = { path: "/health-check", port: "metrics" };

/** All its objects. */
export function autoscalerManifests({
  image,
  region,
}: {
  readonly image: string;
  readonly region: string;
}): Manifest[] {
  const own = { name: NAME, namespace: NAMESPACE, labels: labels(NAME) };
  const whole = { name: NAME, labels: labels(NAME) };
  const subjects = [{ kind: "ServiceAccount", name: NAME, namespace: NAMESPACE }];
  const rbac = "rbac.authorization.k8s.io";
  const api = { apiVersion: `${rbac}/v1` as const };
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: own } satisfies ServiceAccount & Manifest;
  const role = { ...api, kind: "ClusterRole", metadata: whole, rules: RULES } satisfies ClusterRole & Manifest;
  const binding = {
    ...{ ...api, kind: "ClusterRoleBinding" as const, metadata: whole, subjects },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: NAME },
  } satisfies ClusterRoleBinding & Manifest;
  const ownRole = { ...api, kind: "Role", metadata: own, rules: OWN_RULES } satisfies Role & Manifest;
  const ownBinding = {
    ...{ ...api, kind: "RoleBinding" as const, metadata: own, subjects },
    roleRef: { apiGroup: rbac, kind: "Role", name: NAME },
  } satisfies RoleBinding & Manifest;
  return [account, role, binding, ownRole, ownBinding, deployment(image, region)];
}

function deployment(image: string, region: string) {
  const selector = labels(NAME);
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: NAME, namespace: NAMESPACE, labels: selector },
    spec: {
      replicas: 1,
      // Two at once would wait for one lease.
      strategy: { type: "Recreate" },
      selector: { matchLabels: selector },
      template: {
        metadata: { labels: selector },
        spec: {
          serviceAccountName: NAME,
          automountServiceAccountToken: true,
          priorityClassName: "system-cluster-critical",
          nodeSelector: { [POOL_LABEL]: "platform" },
          securityContext: {
            ...{ runAsNonRoot: true, runAsUser: 65_534, runAsGroup: 65_534 },
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              ...{ name: NAME, image },
              command: ["./cluster-autoscaler"],
              args: [
                "--cloud-provider=aws",
                `--node-group-auto-discovery=asg:tag=${AUTOSCALER_TAG}=${late("eks-cluster")}`,
                "--expander=least-waste",
                `--scale-down-unneeded-time=${IDLE_MINUTES}m`,
                // A pod's scratch folder is no reason to keep its node.
                "--skip-nodes-with-local-storage=false",
                // A GPU node whose group gives none is given up, and another group may be asked.
                "--max-node-provision-time=20m",
              ],
              // Nodes tell no region to pods: one hop of metadata.
              env: [{ name: "AWS_REGION", value: region }],
              ports: [{ name: "metrics", containerPort: 8085 }],
              resources: { requests: { cpu: "100m", memory: "600Mi" }, limits: { memory: "600Mi" } },
              readinessProbe: { httpGet: HEALTH, periodSeconds: 10 },
              livenessProbe: { httpGet: HEALTH, periodSeconds: 10, failureThreshold: 6 },
              securityContext: {
                ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
                capabilities: { drop: ["ALL"] },
              },
            },
          ],
        },
      },
    },
  } satisfies Deployment & Manifest;
}
