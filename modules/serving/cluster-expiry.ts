/**
 * Cluster expiry: an endpoint's spec → what ends it when its time is over, though controller and CLI be down: a CronJob that
 * may do one thing, scale this one Deployment to 0. Its first run after the end frees the GPUs within a minute; the
 * controller, or `uplift endpoints prune`, removes the rest. Pure, but for the text of payload/end-expired.mjs.
 *
 * Why not simpler: Kubernetes allows activeDeadlineSeconds in no Deployment's pod, and a server that ends itself is started
 * again, with its GPUs still held.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CronJob } from "kubernetes-types/batch/v1.js";
import type { Container, ServiceAccount } from "kubernetes-types/core/v1.js";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.js";
import type { Role, RoleBinding } from "kubernetes-types/rbac/v1.js";
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { type Manifest, NAMESPACES, NO_RIGHTS } from "../../schemas/manifest.ts";
import { placement } from "../../schemas/placement.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import { guardOf } from "./cluster-names.ts";

const PROGRAM = readFileSync(join(import.meta.dirname, "payload/end-expired.mjs"), "utf8");
const RBAC = "rbac.authorization.k8s.io";
const ACCOUNT_FILES = "/var/run/secrets/kubernetes.io/serviceaccount";
/** One run; the next hour's comes anyway. */
const RUN_SECONDS = 600;
/** Also a run that Kubernetes could start only late does its work. */
const LATE_SECONDS = 1800;

/** The CronJob, its service account with a role for one Deployment, and its network policy. */
export function expiryManifests(spec: ClusterEndpointSpec, target: PlatformTarget): Manifest[] {
  const { name, labels } = guardOf(spec.name);
  const metadata = { name, namespace: NAMESPACES.serving, labels };
  const account: ServiceAccount & Manifest = {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata,
    automountServiceAccountToken: false,
  };
  const role: Role & Manifest = {
    apiVersion: `${RBAC}/v1`,
    kind: "Role",
    metadata,
    rules: [
      { apiGroups: ["apps"], resources: ["deployments"], resourceNames: [spec.name], verbs: ["get"] },
      { apiGroups: ["apps"], resources: ["deployments/scale"], resourceNames: [spec.name], verbs: ["patch"] },
    ],
  };
  const binding: RoleBinding & Manifest = {
    apiVersion: `${RBAC}/v1`,
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: RBAC, kind: "Role", name },
    subjects: [{ kind: "ServiceAccount", name, namespace: NAMESPACES.serving }],
  };
  const policy: NetworkPolicy & Manifest = {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata,
    spec: {
      podSelector: { matchLabels: { "app.kubernetes.io/name": name } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [],
      // The API server's address behind its Service, and its port, are each cluster's own.
      egress: [{}],
    },
  };
  return [account, role, binding, policy, cronJob(spec, target)];
}

function cronJob(spec: ClusterEndpointSpec, target: PlatformTarget): CronJob & Manifest {
  const { name, labels } = guardOf(spec.name);
  return {
    apiVersion: "batch/v1",
    kind: "CronJob",
    metadata: { name, namespace: NAMESPACES.serving, labels },
    spec: {
      schedule: expirySchedule(spec.expiresAt),
      timeZone: "Etc/UTC",
      startingDeadlineSeconds: LATE_SECONDS,
      concurrencyPolicy: "Forbid",
      successfulJobsHistoryLimit: 1,
      failedJobsHistoryLimit: 1,
      jobTemplate: {
        metadata: { labels },
        spec: {
          backoffLimit: 6,
          activeDeadlineSeconds: RUN_SECONDS,
          ttlSecondsAfterFinished: 3600,
          template: {
            metadata: { labels },
            spec: {
              ...placement(target, "platform"),
              serviceAccountName: name,
              // The one pod of an endpoint that speaks to the API.
              automountServiceAccountToken: true,
              enableServiceLinks: false,
              restartPolicy: "OnFailure",
              securityContext: { runAsNonRoot: true, runAsUser: 65534, seccompProfile: { type: "RuntimeDefault" } },
              containers: [guardContainer(spec, target)],
            },
          },
        },
      },
    },
  };
}

/** Every hour at the minute of the end: the first run after it is the one that counts, later ones mend a failed one. */
export function expirySchedule(expiresAt: string): string {
  const minutes = Math.ceil(Date.parse(expiresAt) / 60_000);
  return `${minutes % 60} * * * *`;
}

function guardContainer(spec: ClusterEndpointSpec, { platform }: PlatformTarget): Container {
  return {
    name: "end-expired",
    image: platform.images.platform,
    command: ["node", "--input-type=module", "--eval", PROGRAM],
    // Without the end, which would make every longer life another pod: the Deployment's annotation has it.
    args: ["https://kubernetes.default.svc", `${ACCOUNT_FILES}/token`, NAMESPACES.serving, spec.name],
    env: [{ name: "NODE_EXTRA_CA_CERTS", value: `${ACCOUNT_FILES}/ca.crt` }],
    resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { cpu: "500m", memory: "256Mi" } },
    securityContext: NO_RIGHTS,
    terminationMessagePolicy: "FallbackToLogsOnError",
  };
}
