/**
 * Sandbox namespace: a target → what bounds its sandboxes: who may make them, how many and how large, what they reach (nothing), and
 * that no upkeep of nodes ends one. Pure. All of it holds for every pod in the namespace, whoever made it.
 */
import type { LimitRange, ResourceQuota } from "kubernetes-types/core/v1.js";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.js";
import type { PodDisruptionBudget } from "kubernetes-types/policy/v1.js";
import type { Role, RoleBinding } from "kubernetes-types/rbac/v1.js";
import { labels, type Manifest, NAMESPACES } from "../../schemas/manifest.ts";
import type { PlatformTarget } from "../../schemas/target.ts";

/** Name of the service, its account, and what selects its pods. */
export const ENVIRONMENTS = "environments";
/** Port of /metrics and nothing else. */
export const METRICS_PORT = 9602;

/** What a runtime class may add to each pod: Kata's machine takes as much, gVisor's less. */
const OVERHEAD = { milliCpus: 250, memoryMib: 256 };
const EPHEMERAL_MIB = 128;

/** All objects of the namespace but itself. */
export function sandboxNamespaceManifests({ platform }: PlatformTarget): Manifest[] {
  const { sandboxes } = platform;
  return [denyAll(), role(), roleBinding(), quota(sandboxes), limits(sandboxes), disruptionBudget(sandboxes)];
}

type Sandboxes = PlatformTarget["platform"]["sandboxes"];

const metadataOf = (name: string) => ({ name, namespace: NAMESPACES.sandboxes, labels: labels(name) });

/** Nothing comes in, nothing goes out, not even a question to DNS. The service enters through the API server and the kubelet. */
function denyAll() {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadataOf("deny-all"),
    spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] },
  } satisfies NetworkPolicy & Manifest;
}

/** A command over a WebSocket is a GET to the API, and since Kubernetes 1.35 needs "create" as well. */
function role() {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: metadataOf(ENVIRONMENTS),
    rules: [
      { apiGroups: [""], resources: ["pods"], verbs: ["create", "get", "list", "watch", "delete"] },
      { apiGroups: [""], resources: ["pods/exec"], verbs: ["create", "get"] },
    ],
  } satisfies Role & Manifest;
}

function roleBinding() {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: metadataOf(ENVIRONMENTS),
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: ENVIRONMENTS },
    subjects: [{ kind: "ServiceAccount", name: ENVIRONMENTS, namespace: NAMESPACES.platform }],
  } satisfies RoleBinding & Manifest;
}

/** So many sandboxes and nothing else: no services, volumes or secrets are made here. */
function quota({ maxSandboxes, milliCpus, memoryMib }: Sandboxes) {
  const cpu = `${maxSandboxes * (milliCpus + OVERHEAD.milliCpus)}m`;
  const memory = `${maxSandboxes * (memoryMib + OVERHEAD.memoryMib)}Mi`;
  const ephemeral = `${maxSandboxes * EPHEMERAL_MIB}Mi`;
  return {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: metadataOf("sandboxes"),
    spec: {
      hard: {
        pods: String(maxSandboxes),
        ...{ "requests.cpu": cpu, "requests.memory": memory, "requests.ephemeral-storage": ephemeral },
        ...{ "limits.cpu": cpu, "limits.memory": memory, "limits.ephemeral-storage": ephemeral },
        ...{ services: "0", persistentvolumeclaims: "0", secrets: "0", replicationcontrollers: "0" },
        ...{ "count/deployments.apps": "0", "count/statefulsets.apps": "0", "count/jobs.batch": "0" },
      },
    },
  } satisfies ResourceQuota & Manifest;
}

function limits({ milliCpus, memoryMib }: Sandboxes) {
  const size = { cpu: `${milliCpus}m`, memory: `${memoryMib}Mi`, "ephemeral-storage": `${EPHEMERAL_MIB}Mi` };
  return {
    apiVersion: "v1",
    kind: "LimitRange",
    metadata: metadataOf("sandboxes"),
    spec: { limits: [{ type: "Container", max: size, default: size, defaultRequest: size }] },
  } satisfies LimitRange & Manifest;
}

/**
 * More than there can be, so that no eviction is ever allowed: a node that is drained waits for its attempts, which end by
 * themselves within minutes. Of pods without a controller only such a number can be given. The service has no budget of its own:
 * evicted, it takes no new attempts and lets the others end (--drain-seconds); with one replica a budget would only block drains.
 */
function disruptionBudget({ maxSandboxes }: Sandboxes) {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: metadataOf("sandboxes"),
    spec: { minAvailable: maxSandboxes + 1, selector: { matchLabels: labels("sandbox") } },
  } satisfies PodDisruptionBudget & Manifest;
}
