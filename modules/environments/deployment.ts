/**
 * Deployment of the environment service: a target → Kubernetes objects as data: one process in the namespace `uplift`, whose
 * sandboxes are pods in the namespace `uplift-sandboxes` (sandbox-namespace.ts). Pure.
 *
 * One replica, and no horizontal autoscaler: an attempt is a pod, so what grows with load is the pool of sandbox nodes. Each
 * pending pod asks for a node of its own accord: the cluster's autoscaler starts one, up to the pool's size, and ends it when its
 * sandboxes are gone; the quota is the upper bound. The service itself only passes bytes on.
 */
import type { StatefulSet } from "kubernetes-types/apps/v1.js";
import type { Container, PersistentVolumeClaim, Service, ServiceAccount } from "kubernetes-types/core/v1.js";
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort } from "kubernetes-types/networking/v1.js";
import {
  labels,
  type Manifest,
  NAMESPACES,
  NO_RIGHTS,
  PROMETHEUS_PEER,
  readyWithin,
  UPLIFT_UID,
} from "../../schemas/manifest.ts";
import { placement } from "../../schemas/placement.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import type { PodSettings } from "./pod-manifest.ts";
import { ENVIRONMENTS, METRICS_PORT, sandboxNamespaceManifests } from "./sandbox-namespace.ts";

/** What the objects are made of. */
export interface EnvironmentDeploymentArgs {
  readonly target: PlatformTarget;
  /** Task-family folders in the platform's image. Default: those that come with Uplift. */
  readonly families?: readonly string[];
  /** Storage class (ReadWriteOnce) of grades and task sets. */
  readonly blockClass: string;
  /** Where the Kubernetes API answers. Default: on AWS the VPC and EKS' service addresses, elsewhere any address. */
  readonly apiCidrs?: readonly string[];
}

const FAMILIES = ["modules/tasks/repo-chores"];
const DATA = "/data";
/** Attempts in flight when the service is to end go on for so long: a family's attemptSeconds are fewer. */
const DRAIN_SECONDS = 900;
/** Until its first sandboxes have run. */
const START_SECONDS = 1200;
/** EKS takes one of these two, whichever the VPC does not overlap. */
const EKS_SERVICE_CIDRS = ["10.100.0.0/16", "172.20.0.0/16"];
/** Of a service's ClusterIP, and of a control plane's own port, which policies see after the address was translated. */
const API_PORTS: NetworkPolicyPort[] = [443, 6443].map((port) => ({ protocol: "TCP", port }));
const DNS_PORTS: NetworkPolicyPort[] = ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 }));
/** NodeLocal DNSCache listens here on every node that has it. */
const NODE_DNS = "169.254.20.10/32";

/** All objects of the service and of its sandboxes' namespace. Its ServiceMonitor is modules/cluster/observability's. */
export function environmentManifests(args: EnvironmentDeploymentArgs): Manifest[] {
  return [
    ...sandboxNamespaceManifests(args.target),
    serviceAccount(),
    dataClaim(args),
    service(args.target),
    networkPolicy(args),
    statefulSet(args),
  ];
}

/** Which pods the service makes. */
export function podSettings(target: PlatformTarget): PodSettings {
  const { sandboxes, images } = target.platform;
  return {
    namespace: NAMESPACES.sandboxes,
    image: images.sandbox,
    runtimeClass: sandboxes.runtimeClass,
    service: ENVIRONMENTS,
    ...placement(target, "sandboxes"),
    milliCpus: sandboxes.milliCpus,
    memoryMib: sandboxes.memoryMib,
    startSeconds: 300,
  };
}

const metadata = { name: ENVIRONMENTS, namespace: NAMESPACES.platform, labels: labels(ENVIRONMENTS) };
const selector = { "app.kubernetes.io/name": ENVIRONMENTS };

function serviceAccount() {
  return {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata,
    // The one pod that needs the token says so.
    automountServiceAccountToken: false,
  } satisfies ServiceAccount & Manifest;
}

/**
 * Grades that were given, task sets, repositories: a grade is given once, also when the service is somewhere else by then, and a
 * caller does not hand its task set in again. Attempts in flight are not on it: they are their pods, drained before a planned
 * end and, after an unplanned one, unknown to the service, which is never counted as an answer.
 */
function dataClaim({ blockClass: storageClassName }: EnvironmentDeploymentArgs) {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { ...metadata, name: `${ENVIRONMENTS}-data` },
    spec: { accessModes: ["ReadWriteOnce"], storageClassName, resources: { requests: { storage: "20Gi" } } },
  } satisfies PersistentVolumeClaim & Manifest;
}

function service({ environments }: PlatformTarget) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata,
    spec: {
      selector,
      ports: [
        { name: "http", port: environments.port, targetPort: "http" },
        { name: "metrics", port: METRICS_PORT, targetPort: "metrics" },
      ],
    },
  } satisfies Service & Manifest;
}

/** Whoever reaches the port can act and grade, so it is jobs and the controller; what scrapes gets a port without attempts. */
function networkPolicy({ target, apiCidrs }: EnvironmentDeploymentArgs) {
  const { environments, platform } = target;
  const namespace = (name: string): NetworkPolicyPeer => ({
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": name } },
  });
  const cidrs = apiCidrs ?? (target.kind === "aws" ? [target.platform.vpcCidr, ...EKS_SERVICE_CIDRS] : ["0.0.0.0/0"]);
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata,
    spec: {
      podSelector: { matchLabels: selector },
      policyTypes: ["Ingress", "Egress"],
      ingress: [
        {
          from: [namespace(NAMESPACES.slurm), namespace(NAMESPACES.platform)],
          ports: [{ protocol: "TCP", port: environments.port }],
        },
        ...(platform.prometheus ? [{ from: [PROMETHEUS_PEER], ports: [{ protocol: "TCP", port: METRICS_PORT }] }] : []),
      ],
      egress: [
        { to: [namespace("kube-system"), { ipBlock: { cidr: NODE_DNS } }], ports: DNS_PORTS },
        { to: cidrs.map((cidr) => ({ ipBlock: { cidr } })), ports: API_PORTS },
      ],
    },
  } satisfies NetworkPolicy & Manifest;
}

/** Not a Deployment: never two at once on one journal, also when a node is lost. */
function statefulSet(args: EnvironmentDeploymentArgs) {
  const { target } = args;
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    // Of the first start, with its image and volume; of an update also what attempts in flight are given.
    metadata: { ...metadata, annotations: readyWithin(START_SECONDS + DRAIN_SECONDS + 300) },
    spec: {
      replicas: 1,
      serviceName: ENVIRONMENTS,
      selector: { matchLabels: selector },
      template: {
        metadata: { labels: labels(ENVIRONMENTS) },
        spec: {
          ...placement(target, "platform"),
          serviceAccountName: ENVIRONMENTS,
          // To make and enter its sandboxes.
          automountServiceAccountToken: true,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: DRAIN_SECONDS + 60,
          securityContext: {
            runAsNonRoot: true,
            ...{ runAsUser: UPLIFT_UID, runAsGroup: UPLIFT_UID, fsGroup: UPLIFT_UID },
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [container(args)],
          volumes: [
            { name: "data", persistentVolumeClaim: { claimName: `${ENVIRONMENTS}-data` } },
            { name: "tmp", emptyDir: { sizeLimit: "256Mi" } },
          ],
        },
      },
    },
  } satisfies StatefulSet & Manifest;
}

function container({ target, families = FAMILIES }: EnvironmentDeploymentArgs): Container {
  const { environments, platform } = target;
  const probe = { httpGet: { path: "/health", port: "http" }, timeoutSeconds: 5 };
  return {
    name: ENVIRONMENTS,
    image: platform.images.platform,
    command: ["node", "--import", "tsx", "modules/environments/main.ts"],
    args: [
      ...["--host", "0.0.0.0", "--port", String(environments.port), "--metrics-port", String(METRICS_PORT)],
      ...["--data", DATA, "--families", families.join(",")],
      ...["--max-attempts", String(platform.sandboxes.maxSandboxes), "--drain-seconds", String(DRAIN_SECONDS)],
      ...["--sandbox", "kubernetes", "--pods", JSON.stringify(podSettings(target))],
    ],
    ports: [
      { name: "http", containerPort: environments.port },
      { name: "metrics", containerPort: METRICS_PORT },
    ],
    resources: { requests: { cpu: "500m", memory: "1Gi" }, limits: { cpu: "4", memory: "4Gi" } },
    // It listens once its first sandboxes have run, for which a first node may have to start.
    startupProbe: { ...probe, periodSeconds: 5, failureThreshold: START_SECONDS / 5 },
    readinessProbe: { ...probe, periodSeconds: 10 },
    livenessProbe: { ...probe, periodSeconds: 20, failureThreshold: 6 },
    securityContext: NO_RIGHTS,
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: "data", mountPath: DATA },
      { name: "tmp", mountPath: "/tmp" },
    ],
  };
}
