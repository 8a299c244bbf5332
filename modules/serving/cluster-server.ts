/**
 * Cluster server: an endpoint's spec → the Deployment of its one pod: weights that lie in a bucket are fetched
 * (cluster-weights.ts), then comes a look at the model's folder, then `vllm serve`.
 * Pure, but for the text of payload/check_model.py. Not run on a GPU here (unproven): the flags, and vLLM on a read-only
 * root as the user its image ships.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Deployment } from "kubernetes-types/apps/v1.js";
import type { Container, HTTPGetAction, VolumeMount } from "kubernetes-types/core/v1.js";
import { canonicalJson } from "../../schemas/digest.ts";
import type { ClusterEndpointSpec, ModelIdentity } from "../../schemas/endpoint.ts";
import { type Manifest, NAMESPACES, NO_RIGHTS } from "../../schemas/manifest.ts";
import { modelFacts } from "../../schemas/model.ts";
import { placement } from "../../schemas/placement.ts";
import type { GpuPool } from "../../schemas/pool.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import { ANNOTATIONS, apiKeyOf, oneServerANode, serverLabels } from "./cluster-names.ts";
import { fetchSeconds, weightsOf } from "./cluster-weights.ts";
import { probeBudget, SERVING_PORT, vllmFlags } from "./vllm-flags.ts";

/** What an endpoint is put into: a target, and the pool whose nodes serve. */
export interface Surroundings {
  readonly target: PlatformTarget;
  readonly pool: Pick<GpuPool, "kind" | "instance">;
}

const CHECK = readFileSync(join(import.meta.dirname, "payload/check_model.py"), "utf8");

/** Most of a start that is not vLLM's: finding a node, pulling an image of some 10 GB. */
const BEFORE_START_SECONDS = 900;
/** Shares of the node's part that go with the GPUs: asked for, and at most; the rest is the node's own daemons'. */
const SHARE = { requests: 0.5, limits: 0.9 } as const;
/** NCCL and vLLM's message queues between the GPUs' processes; the container's default of 64 MiB crashes the start. */
const SHARED_MEMORY = "32Gi";
/** Compiled kernels and graphs: a few GiB for one model. */
const HOME_SIZE = "64Gi";
const TMP_SIZE = "16Gi";
/** Answers under way get this long when the endpoint ends. */
const GRACE_SECONDS = 60;

/**
 * The user that vllm/vllm-openai ships since 0.21 (vLLM#40275), though its default is root: any other id has no name there,
 * and torch ends with "uid not found" (vLLM#44548). It may write to its home and to nothing else of the image.
 */
const USER = { runAsUser: 2000, runAsGroup: 0 } as const;
const HOME = "/home/vllm";

/** Longest wait for an endpoint to become ready, seconds; a Deployment that needs longer has failed. */
export function readyDeadlineSeconds({ layout, source }: ClusterEndpointSpec): number {
  const { periodSeconds, failureThreshold } = probeBudget(layout).startup;
  return periodSeconds * failureThreshold + BEFORE_START_SECONDS + fetchSeconds(source);
}

/** The Deployment. Its pod says nothing of purpose and end: an endpoint that lives longer is not restarted. */
export function serverDeployment(spec: ClusterEndpointSpec, { target, pool }: Surroundings): Deployment & Manifest {
  const labels = serverLabels(spec.name);
  const weights = weightsOf(spec, target);
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: spec.name,
      namespace: NAMESPACES.serving,
      labels,
      annotations: {
        [ANNOTATIONS.expiresAt]: spec.expiresAt,
        [ANNOTATIONS.checkpoint]: spec.checkpoint,
        [ANNOTATIONS.purpose]: spec.purpose,
        [ANNOTATIONS.maker]: spec.maker,
        [ANNOTATIONS.spec]: canonicalJson(spec),
      },
    },
    spec: {
      replicas: 1,
      // A new pod beside the old one would wait for the GPUs that the old one holds, for ever.
      strategy: { type: "Recreate" },
      revisionHistoryLimit: 1,
      progressDeadlineSeconds: readyDeadlineSeconds(spec),
      selector: { matchLabels: { "app.kubernetes.io/name": spec.name } },
      template: {
        metadata: { labels, annotations: { [ANNOTATIONS.checkpoint]: spec.checkpoint } },
        spec: {
          ...placement(target, pool.kind),
          affinity: oneServerANode(),
          ...weights.account,
          automountServiceAccountToken: false,
          // Variables of the namespace's Services could be read as vLLM's own (VLLM_PORT).
          enableServiceLinks: false,
          // No fsGroup: it would change the group of every file of the shared storage, where the volume lets it.
          securityContext: { runAsNonRoot: true, ...USER, seccompProfile: { type: "RuntimeDefault" } },
          terminationGracePeriodSeconds: GRACE_SECONDS,
          initContainers: [...weights.fetch, checkContainer(spec, weights.mount)],
          containers: [serverContainer(spec, weights.mount, pool)],
          volumes: [
            weights.volume,
            { name: "shm", emptyDir: { medium: "Memory", sizeLimit: SHARED_MEMORY } },
            { name: "home", emptyDir: { sizeLimit: HOME_SIZE } },
            { name: "tmp", emptyDir: { sizeLimit: TMP_SIZE } },
          ],
        },
      },
    },
  };
}

/** Ends with one clear sentence where the folder does not hold the model meant; Kubernetes shows it as the reason. */
function checkContainer(spec: ClusterEndpointSpec, weights: VolumeMount): Container {
  return {
    name: "check-model",
    // The server's image, which this node needs anyway and which has Python.
    image: spec.image,
    command: ["python3", "-c", CHECK],
    args: ["--folder", spec.modelPath, ...identityArgs(spec)],
    resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { cpu: "1", memory: "512Mi" } },
    securityContext: NO_RIGHTS,
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [weights],
  };
}

function identityArgs({ identity, checkpoint }: { identity: ModelIdentity; checkpoint: string }): string[] {
  switch (identity.kind) {
    case "revision":
      return ["--revision", identity.revision];
    case "digest":
      return ["--digest", checkpoint];
    case "name":
      return ["--checkpoint", identity.checkpoint];
    case "unmarked":
      return [];
  }
}

function serverContainer(
  spec: ClusterEndpointSpec,
  weights: VolumeMount,
  { instance }: Surroundings["pool"],
): Container {
  const { settings, layout } = spec;
  const probes = probeBudget(layout);
  const httpGet: HTTPGetAction = { path: "/health", port: "http" };
  const facts = spec.facts === null ? null : modelFacts(spec.facts);
  const part = layout.gpusPerNode / instance.gpus;
  const size = (share: number) => ({
    cpu: `${Math.floor(instance.allocatableMilliCpus * part * share)}m`,
    memory: `${Math.floor(instance.allocatableMemoryMib * part * share)}Mi`,
    // No EFA: the model's GPUs lie on one node, and speak over NVLink.
    "nvidia.com/gpu": String(layout.gpusPerNode),
  });
  return {
    name: "vllm",
    image: spec.image,
    command: ["vllm", "serve"],
    args: vllmFlags(settings, layout, { path: spec.modelPath, servedName: spec.model, facts }),
    env: [
      // vLLM reads it by itself, and asks for it under /v1. In an argument it would stand in the process list.
      {
        name: "VLLM_API_KEY",
        valueFrom: { secretKeyRef: { name: apiKeyOf(spec.name).name, key: apiKeyOf(spec.name).key } },
      },
      { name: "HF_HUB_OFFLINE", value: "1" },
      { name: "TRANSFORMERS_OFFLINE", value: "1" },
      { name: "VLLM_NO_USAGE_STATS", value: "1" },
      { name: "DO_NOT_TRACK", value: "1" },
      // All caches (vLLM, Triton, Inductor, FlashInfer) are under it by default.
      { name: "HOME", value: HOME },
      { name: "USER", value: "vllm" },
    ],
    ports: [{ name: "http", containerPort: SERVING_PORT }],
    // A busy event loop answers late: one second, the default, has killed healthy servers.
    startupProbe: { httpGet, ...probes.startup, timeoutSeconds: 5 },
    readinessProbe: { httpGet, ...probes.readiness, timeoutSeconds: 5 },
    livenessProbe: { httpGet, ...probes.liveness, timeoutSeconds: 10 },
    resources: { requests: size(SHARE.requests), limits: size(SHARE.limits) },
    securityContext: NO_RIGHTS,
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      weights,
      { name: "shm", mountPath: "/dev/shm" },
      { name: "home", mountPath: HOME },
      { name: "tmp", mountPath: "/tmp" },
    ],
  };
}
