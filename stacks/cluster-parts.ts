/**
 * Cluster parts: target + pools → every Kubernetes object of its platform, by part, in the order in which the parts are made;
 * and where the platform's services are found. Pure: what the stack applies is what tests check.
 */
import { autoscalerManifests } from "../modules/cluster/aws/autoscaler.ts";
import { BUCKETS } from "../modules/cluster/aws/buckets.ts";
import { awsName } from "../modules/cluster/aws/names.ts";
import { poolsOf } from "../modules/cluster/index.ts";
import { namespaceManifests } from "../modules/cluster/namespaces.ts";
import { nodeDaemonManifests } from "../modules/cluster/nodes/index.ts";
import { observabilityManifests } from "../modules/cluster/observability/index.ts";
import { controllerToken, SLURM_REST_URL, slurmManifests } from "../modules/cluster/slurm/index.ts";
import { blockClass, storageManifests } from "../modules/cluster/storage/index.ts";
import { environmentManifests } from "../modules/environments/deployment.ts";
import { controllerManifests } from "../modules/leaderboard/deployment/index.ts";
import { weightsManifests } from "../modules/serving/index.ts";
import { late, type Manifest, SHARED_CLAIM } from "../schemas/manifest.ts";
import { thirdPartyImage } from "../schemas/pins.ts";
import type { Pools } from "../schemas/pool.ts";
import type { ClusterStackOutputs } from "../schemas/stack.ts";
import type { PlatformTarget } from "../schemas/target.ts";

/** Parts of a platform, each after the ones it needs. */
export const PARTS = {
  namespaces: [],
  "node-daemons": ["namespaces"],
  storage: ["namespaces"],
  slurm: ["secrets", "operators", "storage", "node-daemons"],
  environments: ["storage", "node-daemons"],
  controller: ["secrets", "storage", "ingress"],
  observability: ["slurm", "environments", "controller"],
} as const satisfies Record<string, readonly (string | "secrets" | "operators" | "ingress")[]>;
export type PartName = keyof typeof PARTS;

/** The objects of every part. */
export function clusterParts(target: PlatformTarget, pools: Pools): Record<PartName, Manifest[]> {
  const { objects } = servicesOf(target);
  const standing = poolsOf(target, []);
  return {
    namespaces: namespaceManifests(target),
    "node-daemons": [
      ...nodeDaemonManifests({ target }),
      ...(target.kind === "aws"
        ? autoscalerManifests({
            region: target.region,
            image: thirdPartyImage("clusterAutoscaler", target.platform.pins),
          })
        : []),
    ],
    storage: [...storageManifests({ target }), ...weightsManifests(target)],
    slurm: slurmManifests({
      ...{ target, pools, sharedClaim: SHARED_CLAIM, blockClass: blockClass(target) },
      ...(target.kind === "aws" ? { accountingHost: late("accounting-host") } : {}),
    }),
    environments: environmentManifests({ target, blockClass: blockClass(target) }),
    controller: controllerManifests({
      ...{ target, objects },
      // What it may serve on, whatever the plans of the day want.
      servingPool: standing.serving ?? standing.training,
      slurm: { url: SLURM_REST_URL, token: controllerToken(target) },
    }),
    observability: observabilityManifests({ target }),
  };
}

/** Where services of a platform are, as its stack exports them. */
export function servicesOf(
  target: PlatformTarget,
): Pick<ClusterStackOutputs, "webUrl" | "environmentsUrl" | "slurmRestUrl" | "mountPath" | "objects"> {
  const { platform, environments, storage } = target;
  return {
    webUrl: platform.web ? `https://${platform.web.host}` : null,
    environmentsUrl: `http://${environments.host}:${environments.port}`,
    slurmRestUrl: SLURM_REST_URL,
    mountPath: storage.mountPath,
    objects: objectsOf(target),
  };
}

/** On AWS a bucket each; elsewhere one bucket, in which the names are prefixes. */
function objectsOf(target: PlatformTarget): ClusterStackOutputs["objects"] {
  const buckets = (nameOf: (bucket: (typeof BUCKETS)[number]) => string) =>
    Object.fromEntries(BUCKETS.map((bucket) => [bucket, nameOf(bucket)])) as ClusterStackOutputs["objects"]["buckets"];
  if (target.kind === "aws")
    return { endpoint: null, region: target.region, buckets: buckets((bucket) => awsName(target, bucket)) };
  const { endpoint, region, bucket } = target.platform.storage.objects;
  return { endpoint, region, buckets: buckets(() => bucket) };
}
