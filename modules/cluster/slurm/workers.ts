/**
 * Workers: a pool of GPU nodes → its NodeSet, the tools of its nodes and enroot's settings. Pure.
 * slurmd reports the CPUs and memory of the container's limits and the Gres written here, so all three come of one size.
 */
import type { ConfigMap, Container, Volume, VolumeMount } from "kubernetes-types/core/v1.js";
import { labels, type Manifest } from "../../../schemas/manifest.ts";
import { placement } from "../../../schemas/placement.ts";
import type { GpuPool } from "../../../schemas/pool.ts";
import { scriptText } from "../script-text.ts";
import type { SlurmArgs } from "./args.ts";
import { image, LOCKED, logSidecar, resources } from "./containers.ts";
import { homesInit } from "./homes.ts";
import { identityInit, identityMounts, identityVolumes, RUNS_USER } from "./identity.ts";
import { CONTROLLER_HOST, JOB_SECRETS, NAMESPACE, SLURM } from "./names.ts";
import type { NodeSet } from "./slinky-types.ts";
import { type WorkerSize, workerLimits, workerSize } from "./worker-size.ts";

/** Where dcgm-exporter and the prolog meet: a file a GPU that holds its job's id. */
export const JOB_MAPPING = "/var/lib/dcgm-exporter/job-mapping";

const TOOLS = "/opt/uplift";
/** Local disks: kubelet's folder, which our AWS nodes have on their NVMe RAID. */
const SCRATCH = "/scratch";

export function workerManifests(args: SlurmArgs, pool: GpuPool): (Manifest & (ConfigMap | NodeSet))[] {
  const size = workerSize(pool.instance, args.target.slurm.sharedMemoryGib);
  return [nodeTools(args, pool, size), enrootConfig(pool), nodeSet(args, pool, size)];
}

/** Slurm's name of a kind of GPU. AutoDetect=nvidia compares it with the driver's, in which words are joined by "_". */
export function gresOf({ gpu, gpus }: GpuPool["instance"]): string {
  return `gpu:${gpu.replaceAll("-", "_")}:${gpus}`;
}

export const toolsName = (pool: GpuPool) => `slurm-node-tools-${pool.name}`;
export const enrootName = (pool: GpuPool) => `slurm-enroot-${pool.name}`;

/** Whether our dcgm-exporter runs here and reads which job has which GPU. */
export function mapsJobs({ target }: Pick<SlurmArgs, "target">): boolean {
  return target.kind === "aws" || !target.platform.installed.dcgm;
}

/** Scripts and what they check, as files of the workers. */
function nodeTools(args: SlurmArgs, pool: GpuPool, size: WorkerSize): ConfigMap & Manifest {
  const { storage, environments } = args.target;
  const values: Record<string, string> = {
    EXPECTED_GPUS: String(size.gpus),
    EXPECTED_EFA: String(size.efaInterfaces),
    SHARED: storage.mountPath,
    WRITE_AS: String(RUNS_USER.uid),
    HOSTS: `${CONTROLLER_HOST} ${environments.host}`,
    CLOCK_HOST: environments.host,
    CLOCK_PORT: String(environments.port),
    SCRATCH,
    JOB_MAPPING: mapsJobs(args) ? JOB_MAPPING : "",
  };
  const name = toolsName(pool);
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: NAMESPACE, labels: labels(name) },
    data: {
      "node.env": Object.entries(values)
        .map(([key, value]) => `${key}='${value.replaceAll("'", "'\\''")}'\n`)
        .join(""),
      "checks.sh": scriptText("slurm/scripts/checks.sh"),
      "health.sh": scriptText("slurm/scripts/health.sh"),
      "worker-setup.sh": scriptText("slurm/scripts/worker-setup.sh"),
    },
  };
}

/** Images are unpacked and started on local disks; images of many gigabytes are not compressed again. */
function enrootConfig(pool: GpuPool): ConfigMap & Manifest {
  const name = enrootName(pool);
  const mine = (folder: string) => `${SCRATCH}/enroot/${folder}/user-$(id -u)`;
  const settings: Record<string, string> = {
    ENROOT_RUNTIME_PATH: mine("run"),
    ENROOT_CACHE_PATH: mine("cache"),
    ENROOT_DATA_PATH: mine("data"),
    ENROOT_TEMP_PATH: `${SCRATCH}/enroot/tmp`,
    ENROOT_SQUASH_OPTIONS: "-noI -noD -noF -noX -no-duplicates",
    ENROOT_ROOTFS_WRITABLE: "yes",
    ENROOT_TRANSFER_RETRIES: "3",
  };
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: NAMESPACE, labels: labels(name) },
    data: {
      "uplift.conf": Object.entries(settings)
        .map(([key, value]) => `${key} ${value}\n`)
        .join(""),
    },
  };
}

function nodeSet(args: SlurmArgs, pool: GpuPool, size: WorkerSize): NodeSet {
  const { target } = args;
  const slurmd = image(target, "slurmd");
  const limits = workerLimits(size);
  return {
    apiVersion: "slinky.slurm.net/v1beta1",
    kind: "NodeSet",
    metadata: { name: pool.name, namespace: NAMESPACE, labels: labels(`slurm-${pool.name}`) },
    spec: {
      controllerRef: { name: SLURM, namespace: NAMESPACE },
      scalingMode: "StatefulSet",
      replicas: pool.nodes,
      extraConf: `Features=${pool.instance.gpu} Gres=${gresOf(pool.instance)}`,
      // The partition is in slurm.conf under the target's own name: the operator would call it like the NodeSet.
      partition: { enabled: false },
      slurmd: {
        image: slurmd,
        env: [{ name: "NVIDIA_DRIVER_CAPABILITIES", value: "compute,utility" }],
        resources: { limits, requests: limits },
        volumeMounts: workerMounts(args),
        // The operator makes slurmd privileged (worker_app.go): it sets cgroups and devices of jobs and enroot's mounts.
      },
      logfile: logSidecar(target),
      template: {
        metadata: { annotations: keyGeneration(args) },
        spec: {
          ...placement(target, "training"),
          initContainers: [
            identityInit(target, slurmd, { restart: false }),
            homesInit(args, slurmd),
            setupInit(args, slurmd),
          ],
          volumes: workerVolumes(args, pool, size),
          // slurmd's end marks the node down first.
          terminationGracePeriodSeconds: 120,
        },
      },
      // With any other number 1.1.0 drains every worker for an image that cannot be pulled: it counts no new worker that is not
      // ready (slurm-operator#229, fixed in 1.2.1: "25%" from then on). With 0 a worker that is well is replaced when its pod
      // is deleted, and not before. Not OnDelete, with which 1.1.0 never gives back a worker whose node was cordoned
      // (nodeset_sync.go, splitUpdatePods: no pod to keep). Its API's text says "can not be 0"; nothing there refuses it.
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0 } },
      workloadDisruptionProtection: true,
      // NoExecute would also put out the node's device plugins.
      taintKubeNodes: false,
    },
  };
}

/** Raising platform.keyGeneration starts every daemon anew with the new keys. */
export function keyGeneration({ target }: SlurmArgs): Record<string, string> {
  return { "uplift.dev/key-generation": String(target.platform.keyGeneration) };
}

function hasJobSecrets({ target }: SlurmArgs): boolean {
  return Object.keys(target.platform.jobSecrets).length > 0;
}

function workerMounts(args: SlurmArgs): VolumeMount[] {
  return [
    ...identityMounts({ nss: true }),
    { name: "shared", mountPath: args.target.storage.mountPath },
    { name: "shared-memory", mountPath: "/dev/shm" },
    { name: "scratch", mountPath: SCRATCH },
    { name: "node-tools", mountPath: TOOLS, readOnly: true },
    { name: "enroot", mountPath: "/etc/enroot/enroot.conf.d", readOnly: true },
    ...(hasJobSecrets(args) ? [{ name: "secrets", mountPath: "/run/secrets/uplift", readOnly: true }] : []),
    ...(mapsJobs(args) ? [{ name: "job-mapping", mountPath: JOB_MAPPING }] : []),
  ];
}

function workerVolumes(args: SlurmArgs, pool: GpuPool, size: WorkerSize): Volume[] {
  return [
    ...identityVolumes(),
    { name: "shared", persistentVolumeClaim: { claimName: args.sharedClaim } },
    { name: "shared-memory", emptyDir: { medium: "Memory", sizeLimit: `${size.sharedMemoryGib}Gi` } },
    // Without a limit: a full scratch would have the worker evicted with its jobs.
    { name: "scratch", emptyDir: {} },
    { name: "node-tools", configMap: { name: toolsName(pool), defaultMode: 0o555 } },
    { name: "enroot", configMap: { name: enrootName(pool) } },
    ...(hasJobSecrets(args)
      ? [
          { name: "job-secrets", secret: { secretName: JOB_SECRETS, defaultMode: 0o400 } },
          { name: "secrets", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
        ]
      : []),
    ...(mapsJobs(args) ? [{ name: "job-mapping", hostPath: { path: JOB_MAPPING, type: "DirectoryOrCreate" } }] : []),
  ];
}

/** Secrets lie in memory, readable by the user of runs alone: people share these workers. */
function setupInit(args: SlurmArgs, slurmd: string): Container {
  return {
    name: "setup",
    image: slurmd,
    command: ["bash", `${TOOLS}/worker-setup.sh`, String(RUNS_USER.uid)],
    volumeMounts: [
      { name: "node-tools", mountPath: TOOLS, readOnly: true },
      { name: "scratch", mountPath: SCRATCH },
      ...(hasJobSecrets(args)
        ? [
            { name: "job-secrets", mountPath: "/uplift/job-secrets", readOnly: true },
            { name: "secrets", mountPath: "/run/secrets/uplift" },
          ]
        : []),
    ],
    resources: resources("10m", "32Mi"),
    securityContext: { ...LOCKED, capabilities: { drop: ["ALL"], add: ["CHOWN", "FOWNER"] } },
  };
}
