/**
 * Controller: the one long-lived process of a platform (API, dashboard, leaderboard, reconcile loop) as Kubernetes objects. In: target,
 * its serving nodes, where its objects are and where Slurm answers. Out: account with its role, the migrations before it,
 * Deployment, Service.
 */
import type { Deployment } from "kubernetes-types/apps/v1.js";
import type { Job } from "kubernetes-types/batch/v1.js";
import type { ConfigMap, Container, EnvVar, Service, ServiceAccount, Volume } from "kubernetes-types/core/v1.js";
import type { Role, RoleBinding } from "kubernetes-types/rbac/v1.js";
import { digestJson } from "../../../schemas/digest.ts";
import {
  labels,
  type Manifest,
  NAMESPACES,
  readyWithin,
  type SecretKey,
  SHARED_CLAIM,
  UPLIFT_UID,
} from "../../../schemas/manifest.ts";
import type { GpuPool } from "../../../schemas/pool.ts";
import type { ClusterStackOutputs } from "../../../schemas/stack.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import {
  CONTROLLER,
  CONTROLLER_PORT,
  MIGRATIONS,
  metadataOf,
  podDefaults,
  scratch,
  secretVolume,
  selectorOf,
  upliftContainer,
} from "./pods.ts";
import { proxyContainer, proxyServicePorts, proxyVolumes } from "./web.ts";

export interface ControllerArgs {
  readonly target: PlatformTarget;
  /** As the stack exports them; names may be late values. */
  readonly objects: ClusterStackOutputs["objects"];
  /** Nodes of the endpoints that it makes. Not with the plans' wants: each `up` would start it anew. */
  readonly servingPool: GpuPool;
  /** Where jobs are submitted, and the entry of a Secret in the namespace `uplift` that holds the JWT for it. */
  readonly slurm: { readonly url: string; readonly token: SecretKey };
}

const RBAC = "rbac.authorization.k8s.io";
const MIGRATIONS_SECONDS = 1800;
const DATABASE_URL = "/secrets/database/url";

/** The controller's objects, without what guards them. */
export function controllerProcess(args: ControllerArgs): Manifest[] {
  return [account(), role(), roleBinding(), configuration(args), migrations(args), deployment(args), service(args)];
}

/** On AWS a Pod Identity association gives this account its buckets. */
function account() {
  return {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: metadataOf(CONTROLLER),
    automountServiceAccountToken: false,
  } satisfies ServiceAccount & Manifest;
}

/**
 * What modules/serving/cluster-state.ts and cluster-apply.ts do: look at endpoints, make those of evaluations by server-side apply
 * (which is patch, and create where there is none), and remove them and any whose time is over, by their label. Kubernetes lets it
 * give an endpoint's guard only what it may itself: reading Deployments and scaling them. A Secret is made by name and read
 * again, which no rule can bind to keys of endpoints; whoever may make Deployments could mount all of the namespace anyway.
 */
function role() {
  const made = ["create", "patch", "deletecollection"];
  return {
    apiVersion: `${RBAC}/v1`,
    kind: "Role",
    metadata: { ...metadataOf(CONTROLLER), namespace: NAMESPACES.serving },
    rules: [
      { apiGroups: ["apps"], resources: ["deployments"], verbs: ["get", "list", ...made] },
      { apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"] },
      { apiGroups: [""], resources: ["pods", "events"], verbs: ["list"] },
      { apiGroups: ["batch"], resources: ["cronjobs"], verbs: made },
      { apiGroups: [""], resources: ["services", "serviceaccounts"], verbs: made },
      { apiGroups: [""], resources: ["secrets"], verbs: ["create", "get", "delete"] },
      { apiGroups: ["networking.k8s.io"], resources: ["networkpolicies"], verbs: made },
      { apiGroups: [RBAC], resources: ["roles", "rolebindings"], verbs: made },
      { apiGroups: ["monitoring.coreos.com"], resources: ["servicemonitors"], verbs: made },
    ],
  } satisfies Role & Manifest;
}

function roleBinding() {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: "RoleBinding",
    metadata: { ...metadataOf(CONTROLLER), namespace: NAMESPACES.serving },
    roleRef: { apiGroup: RBAC, kind: "Role", name: CONTROLLER },
    subjects: [{ kind: "ServiceAccount", name: CONTROLLER, namespace: NAMESPACES.platform }],
  } satisfies RoleBinding & Manifest;
}

/** The target holds names of secrets, no values. */
function configuration({ objects, target, servingPool }: ControllerArgs) {
  const file = (value: object) => `${JSON.stringify(value, null, 2)}\n`;
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: metadataOf(CONTROLLER),
    data: { "objects.json": file(objects), "target.json": file({ target, servingPool }) },
  } satisfies ConfigMap & Manifest;
}

/** Brings the database's schema to what this image knows; the Deployment waits for it. Another image is another Job. */
function migrations({ target }: ControllerArgs) {
  const [, digest = ""] = target.platform.images.platform.split("@sha256:");
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      ...metadataOf(MIGRATIONS, `${MIGRATIONS}-${digest.slice(0, 10)}`),
      annotations: readyWithin(MIGRATIONS_SECONDS + 60),
    },
    spec: {
      backoffLimit: 6,
      activeDeadlineSeconds: MIGRATIONS_SECONDS,
      // No ttlSecondsAfterFinished: a Job that is gone would be made anew by the next `up`.
      template: {
        metadata: { labels: labels(MIGRATIONS) },
        spec: {
          ...podDefaults(target, UPLIFT_UID),
          restartPolicy: "Never",
          containers: [
            upliftContainer(target, ["migrate", "--database-url-file", DATABASE_URL], {
              name: MIGRATIONS,
              resources: { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "2", memory: "1Gi" } },
              volumeMounts: [
                { name: "database", mountPath: "/secrets/database", readOnly: true },
                { name: "tmp", mountPath: "/tmp" },
              ],
            }),
          ],
          volumes: [secretVolume("database", "database", ["url"]), scratch("tmp", "256Mi")],
        },
      },
    },
  } satisfies Job & Manifest;
}

function deployment(args: ControllerArgs) {
  const { target, servingPool, slurm } = args;
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: metadataOf(CONTROLLER),
    spec: {
      replicas: 1,
      // A reconciler: two at once would do each step twice.
      strategy: { type: "Recreate" },
      selector: { matchLabels: selectorOf(CONTROLLER) },
      template: {
        metadata: {
          labels: labels(CONTROLLER),
          // What the processes read once, at their start: a change is a new pod.
          annotations: {
            "uplift.dev/objects": JSON.stringify(args.objects),
            "uplift.dev/target": digestJson({ target, servingPool }),
            "uplift.dev/key-generation": String(target.platform.keyGeneration),
          },
        },
        spec: {
          ...podDefaults(target, UPLIFT_UID),
          serviceAccountName: CONTROLLER,
          terminationGracePeriodSeconds: 60,
          containers: [controllerContainer(args), ...proxyContainer(target)],
          volumes: [
            secretVolume("database", "database", ["url"]),
            secretVolume("web", "web-token", ["token"]),
            {
              name: "slurm",
              secret: { secretName: slurm.token.name, items: [{ key: slurm.token.key, path: "token" }] },
            },
            // Runs, models and snapshots, as every job sees them.
            { name: "shared", persistentVolumeClaim: { claimName: SHARED_CLAIM } },
            { name: "config", configMap: { name: CONTROLLER } },
            API_ACCESS,
            // Copies of objects: traces that somebody looks at.
            scratch("work", "20Gi"),
            scratch("tmp", "1Gi"),
            ...proxyVolumes(target),
          ],
        },
      },
    },
  } satisfies Deployment & Manifest;
}

function controllerContainer(args: ControllerArgs): Container {
  const probe = (path: string) => ({ httpGet: { path, port: "http" }, timeoutSeconds: 5 });
  return upliftContainer(args.target, controllerOptions(args), {
    name: CONTROLLER,
    env: objectsAccess(args),
    ports: [{ name: "http", containerPort: CONTROLLER_PORT }],
    // Expert collections run in it, each attempt with its own conversation in memory.
    resources: { requests: { cpu: "1", memory: "2Gi" }, limits: { cpu: "4", memory: "8Gi" } },
    startupProbe: { ...probe("/health"), periodSeconds: 2, failureThreshold: 90 },
    readinessProbe: { ...probe("/ready"), periodSeconds: 10 },
    livenessProbe: { ...probe("/health"), periodSeconds: 20, failureThreshold: 6 },
    volumeMounts: [
      { name: "database", mountPath: "/secrets/database", readOnly: true },
      { name: "web", mountPath: "/secrets/web", readOnly: true },
      { name: "slurm", mountPath: "/secrets/slurm", readOnly: true },
      { name: "shared", mountPath: args.target.storage.mountPath },
      { name: "config", mountPath: "/config", readOnly: true },
      { name: "api-access", mountPath: "/var/run/secrets/kubernetes.io/serviceaccount", readOnly: true },
      { name: "work", mountPath: "/work" },
      { name: "tmp", mountPath: "/tmp" },
    ],
  });
}

/** What Kubernetes mounts in every container of a pod by itself; here the proxy is not to have it. */
const API_ACCESS: Volume = {
  name: "api-access",
  projected: {
    sources: [
      { serviceAccountToken: { path: "token", expirationSeconds: 3600 } },
      { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
      { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
    ],
  },
};

/** The command line: modules/cli/commands/controller.ts. */
function controllerOptions({ target, slurm }: ControllerArgs): string[] {
  const { environments, storage } = target;
  return [
    ...["controller", "--cluster"],
    ...["--home", "/work"],
    ...["--port", String(CONTROLLER_PORT)],
    ...["--mount-path", storage.mountPath],
    ...["--environments-url", `http://${environments.host}:${environments.port}`],
    ...["--database-url-file", DATABASE_URL],
    ...["--objects-config", "/config/objects.json"],
    ...["--token-file", "/secrets/web/token"],
    ...["--target-config", "/config/target.json"],
    ...["--slurm-url", slurm.url],
    ...["--slurm-token-file", "/secrets/slurm/token"],
  ];
}

/** Credentials of the object store for the SDK's own chain; on AWS the pod's identity is that. */
function objectsAccess({ target, objects }: ControllerArgs): EnvVar[] {
  const region = { name: "AWS_REGION", value: objects.region };
  if (target.kind === "aws") return [region];
  const key = (name: string, secretKey: string): EnvVar => ({
    name,
    valueFrom: { secretKeyRef: { name: "objects", key: secretKey } },
  });
  return [region, key("AWS_ACCESS_KEY_ID", "access-key-id"), key("AWS_SECRET_ACCESS_KEY", "secret-access-key")];
}

function service({ target }: ControllerArgs) {
  const port = { name: "http", port: CONTROLLER_PORT, targetPort: "http" };
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: metadataOf(CONTROLLER),
    spec: { type: "ClusterIP", selector: selectorOf(CONTROLLER), ports: [port, ...proxyServicePorts(target)] },
  } satisfies Service & Manifest;
}
