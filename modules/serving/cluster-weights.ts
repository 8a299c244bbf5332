/**
 * Cluster weights: where an endpoint's model lies → what its pod mounts, and, where that is a bucket, what fetches it to the
 * node's own disk first: an init container (fetch-weights/main.ts), which a killed pod's container goes on with. Pure.
 *
 * Credentials: on a cluster of one's own the Secret `objects` of this namespace, given to that one container. On AWS the
 * identity of the service account `weights`, which reads one bucket; EKS gives it to every container of the pod.
 */
import type { Container, EnvVar, PodSpec, ServiceAccount, Volume, VolumeMount } from "kubernetes-types/core/v1.js";
import type { NetworkPolicyEgressRule } from "kubernetes-types/networking/v1.js";
import type { ClusterEndpointSpec, WeightsSource } from "../../schemas/endpoint.ts";
import { labels, type Manifest, NAMESPACES, NO_RIGHTS, SHARED_CLAIM } from "../../schemas/manifest.ts";
import type { PlatformTarget } from "../../schemas/target.ts";

/** Where fetched weights lie in the pod. */
export const WEIGHTS_PATH = "/weights";
/** Name of the container that fetches: one that was killed goes on where it was. */
export const FETCH_CONTAINER = "fetch-weights";
/** Its exit status for what will not go away by itself: sysexits' EX_CONFIG, as check-model has it. */
export const CANNOT_RUN = 78;

/** Service account with the identity that reads weights on AWS: modules/cluster/aws binds it. */
const ACCOUNT = "weights";
/** Secret with the bucket's credentials on a cluster of one's own: stacks/cluster-secrets.ts. */
const SECRET = "objects";
/** Where the EKS Pod Identity agent answers, on each node. A policy that names any way out closes this one unless it names it. */
const POD_IDENTITY = { cidr: "169.254.170.23/32", port: 80 } as const;

/** A slow fetch, bytes a second: what a start may take before it has failed. S3 gives a large node many times that. */
const SLOW_BYTES_PER_SECOND = 200e6;

type Own = PlatformTarget & { kind: "kubernetes" };

/** What a pod has to do with its weights. */
interface Weights {
  readonly volume: Volume;
  /** Read only: of those who read them. */
  readonly mount: VolumeMount;
  readonly fetch: Container[];
  readonly account: Pick<PodSpec, "serviceAccountName">;
}

/** Volume, mount and, for a bucket, the container that fills it. */
export function weightsOf({ source }: ClusterEndpointSpec, target: PlatformTarget): Weights {
  if (source.kind === "shared")
    return {
      volume: { name: "shared", persistentVolumeClaim: { claimName: SHARED_CLAIM, readOnly: true } },
      mount: { name: "shared", mountPath: target.storage.mountPath, readOnly: true },
      ...{ fetch: [], account: {} },
    };
  return {
    volume: { name: "weights", emptyDir: { sizeLimit: `${source.gib}Gi` } },
    mount: { name: "weights", mountPath: WEIGHTS_PATH, readOnly: true },
    fetch: [fetchContainer(source, target)],
    account: target.kind === "aws" ? { serviceAccountName: ACCOUNT } : {},
  };
}

/** Seconds that a fetch may take. */
export function fetchSeconds(source: WeightsSource): number {
  return source.kind === "shared" ? 0 : Math.ceil((source.gib * 2 ** 30) / SLOW_BYTES_PER_SECOND);
}

function fetchContainer(source: WeightsSource & { kind: "objects" }, target: PlatformTarget): Container {
  const region = target.kind === "aws" ? target.region : target.platform.storage.objects.region;
  return {
    name: FETCH_CONTAINER,
    image: target.platform.images.platform,
    command: ["node", "--import", "tsx", "modules/serving/fetch-weights/main.ts"],
    args: [
      ...["--bucket", source.bucket, "--prefix", source.prefix, "--region", region],
      ...["--folder", WEIGHTS_PATH, "--most-gib", String(source.gib)],
      ...(target.kind === "aws" ? [] : ["--endpoint", target.platform.storage.objects.endpoint]),
    ],
    env: target.kind === "aws" ? [] : keys(),
    resources: {
      // The pod is put where the disk has room for its model.
      requests: { cpu: "2", memory: "1Gi", "ephemeral-storage": `${source.gib}Gi` },
      // What was just written counts as its memory until the disk has it.
      limits: { cpu: "16", memory: "8Gi" },
    },
    securityContext: NO_RIGHTS,
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: "weights", mountPath: WEIGHTS_PATH },
      { name: "tmp", mountPath: "/tmp" },
    ],
  };
}

function keys(): EnvVar[] {
  const from = (name: string, key: string): EnvVar => ({ name, valueFrom: { secretKeyRef: { name: SECRET, key } } });
  return [from("AWS_ACCESS_KEY_ID", "access-key-id"), from("AWS_SECRET_ACCESS_KEY", "secret-access-key")];
}

/** Ways out of a pod that fetches: names, the bucket's server at whatever address, and on AWS who gives it its identity. */
export function weightsEgress(target: PlatformTarget): NetworkPolicyEgressRule[] {
  const port = target.kind === "aws" ? 443 : portOf(target);
  return [
    { ports: ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 })) },
    { ports: [{ protocol: "TCP", port }] },
    ...(target.kind === "aws"
      ? [{ to: [{ ipBlock: { cidr: POD_IDENTITY.cidr } }], ports: [{ protocol: "TCP", port: POD_IDENTITY.port }] }]
      : []),
  ];
}

function portOf({ platform }: Own): number {
  const { port, protocol } = new URL(platform.storage.objects.endpoint);
  return port === "" ? (protocol === "http:" ? 80 : 443) : Number(port);
}

/** What must be there before such an endpoint: on AWS the account that has the identity. */
export function weightsManifests(target: PlatformTarget): Manifest[] {
  if (target.kind !== "aws") return [];
  const account: ServiceAccount & Manifest = {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name: ACCOUNT, namespace: NAMESPACES.serving, labels: labels(ACCOUNT) },
    automountServiceAccountToken: false,
  };
  return [account];
}
