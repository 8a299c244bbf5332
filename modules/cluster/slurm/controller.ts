/**
 * Controller: slurmctld with its state on a volume, the lines of slurm.conf that are ours, and the files it hands to workers. Pure.
 *
 * The operator (internal/builder/controllerbuilder/controller_config.go) writes by itself: auth/slurm and auth/jwt with
 * use_client_ids, enable_configless, GresTypes=gpu, CR_Core_Memory, proctrack and task plugins of cgroup, PrologFlags=Contain,
 * ReturnToService=2, AccountingStorageTRES=gres/gpu, one Prolog or Epilog line a file, one NodeSet line a NodeSet. Ours come after.
 */
import type { ConfigMap } from "kubernetes-types/core/v1.js";
import { labels, type Manifest } from "../../../schemas/manifest.ts";
import { placement } from "../../../schemas/placement.ts";
import { scriptText } from "../script-text.ts";
import { blockClassOf, type SlurmArgs } from "./args.ts";
import { image, LOCKED, logSidecar, resources, SUPERVISED } from "./containers.ts";
import { identityInit, identityMounts, identityVolumes } from "./identity.ts";
import { CLUSTER_NAME, CONFIG_FILES, EPILOG, JWT_KEY, NAMESPACE, PROLOG, SLURM, SLURM_KEY } from "./names.ts";
import type { Controller } from "./slinky-types.ts";
import { workerSize } from "./worker-size.ts";
import { keyGeneration } from "./workers.ts";

export function controllerManifests(args: SlurmArgs): (Manifest & (ConfigMap | Controller))[] {
  return [
    configMap(CONFIG_FILES, {
      // Devices of jobs are fenced: without it a job of one GPU sees all eight of a privileged worker (slurm-operator#45).
      "cgroup.conf": lines({
        ...{ CgroupPlugin: "cgroup/v2", IgnoreSystemd: "yes" },
        ...{ ConstrainCores: "yes", ConstrainRAMSpace: "yes", ConstrainSwapSpace: "yes", ConstrainDevices: "yes" },
      }),
      "gres.conf": lines({ AutoDetect: "nvidia" }),
      // A pattern, so that slurmctld, whose image has no pyxis, finds nothing instead of failing.
      "plugstack.conf": "include /usr/share/pyxis/*\n",
    }),
    // The operator takes every key of these as a file name of slurm.conf.
    configMap(PROLOG, { "prolog-uplift.sh": scriptText("slurm/scripts/prolog.sh") }),
    configMap(EPILOG, { "epilog-uplift.sh": scriptText("slurm/scripts/epilog.sh") }),
    controller(args),
  ];
}

/** Our lines of slurm.conf. */
export function slurmConf({ target, pools }: SlurmArgs): string {
  const { partition, maxWalltimeHours, sharedMemoryGib } = target.slurm;
  const size = workerSize(pools.training.instance, sharedMemoryGib);
  const settings = {
    SelectType: "select/cons_tres",
    // A job without --mem would otherwise take all of a node's.
    DefMemPerCPU: String(Math.floor((size.memoryGib * 1024) / size.cpus)),
    // Refused at once instead of waiting for ever.
    EnforcePartLimits: "ALL",
    JobRequeue: "1",
    // After a failed prolog the job goes to another node instead of being held.
    SchedulerParameters: "nohold_on_prolog_fail",
    PrologEpilogTimeout: "300",
    HealthCheckProgram: "/opt/uplift/health.sh",
    HealthCheckInterval: "300",
    // CYCLE: not all nodes in the same second.
    HealthCheckNodeState: "ANY,CYCLE",
    // Names inside jobs come from slurmctld (identity.ts).
    LaunchParameters: "enable_nss_slurm",
    // The limit of locked memory where a job was submitted would break EFA and NCCL where it runs.
    PropagateResourceLimitsExcept: "MEMLOCK",
    // Our key of a job, which outlives its JobId.
    AccountingStoreFlags: "job_comment,job_extra",
    // What became of a job is known for a day, also to a controller that was away: 300 s by default. All of them count as jobs.
    MinJobAge: "86400",
    MaxJobCount: "100000",
    // Kills that hang on storage make no node unusable at once.
    UnkillableStepTimeout: "300",
    MessageTimeout: "30",
  };
  const minutes = Math.round(maxWalltimeHours * 60);
  // ALL, like the charts of Slinky: workers come and go, and a name that is not there yet would stop slurmctld.
  return `${lines(settings)}PartitionName=${partition} Nodes=ALL Default=YES State=UP MaxTime=${minutes}\n`;
}

function controller(args: SlurmArgs): Controller {
  const { target } = args;
  const slurmctld = image(target, "slurmctld");
  const ref = (name: string) => ({ name, namespace: NAMESPACE });
  return {
    apiVersion: "slinky.slurm.net/v1beta1",
    kind: "Controller",
    metadata: { name: SLURM, namespace: NAMESPACE, labels: labels(SLURM) },
    spec: {
      clusterName: CLUSTER_NAME,
      slurmKeyRef: { ...SLURM_KEY },
      jwtKeyRef: { ...JWT_KEY },
      accountingRef: ref(SLURM),
      extraConf: slurmConf(args),
      configFileRefs: [ref(CONFIG_FILES)],
      prologScriptRefs: [ref(PROLOG)],
      epilogScriptRefs: [ref(EPILOG)],
      // Jobs that wait and run survive a new pod.
      persistence: {
        enabled: true,
        storageClassName: blockClassOf(args),
        accessModes: ["ReadWriteOnce"],
        resources: { requests: { storage: "16Gi" } },
      },
      slurmctld: {
        image: slurmctld,
        resources: resources("1", "4Gi"),
        securityContext: { ...SUPERVISED, runAsNonRoot: true },
        volumeMounts: identityMounts(),
      },
      reconfigure: { image: slurmctld, resources: resources("50m", "128Mi"), securityContext: LOCKED },
      logfile: logSidecar(target),
      template: {
        metadata: { annotations: keyGeneration(args) },
        spec: {
          ...placement(target, "platform"),
          initContainers: [identityInit(target, slurmctld, { restart: true })],
          volumes: identityVolumes(),
        },
      },
      metrics: { enabled: true, serviceMonitor: { enabled: target.platform.prometheus } },
    },
  };
}

function configMap(name: string, data: Record<string, string>): ConfigMap & Manifest {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: NAMESPACE, labels: labels(name) },
    data,
  };
}

function lines(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([key, value]) => `${key}=${value}\n`)
    .join("");
}
