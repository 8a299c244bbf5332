/**
 * Pod manifest: settings, purpose and a family's limits → the pod of one sandbox. Pure.
 *
 * The same sandbox as sandbox-profile.ts makes of a process, with a kernel of its own (gVisor) or a machine of its own (Kata)
 * around it: nothing writable but volumes in memory of a fixed size, no account, no network (a NetworkPolicy of the namespace:
 * deployment.ts), no right to become anyone else. Container and volumes live as long as the pod, and that at most its deadline.
 */
import type { Pod } from "kubernetes-types/core/v1.js";
import { z } from "zod";
import { ATTEMPT, labels, type Manifest } from "../../schemas/manifest.ts";
import type { SandboxLimits } from "../../schemas/task.ts";
import { type SandboxPurpose, TMP_BYTES } from "./sandbox-profile.ts";

const Count = z.number().int().positive();

/** What a service is told of its pods. */
export const PodSettings = z.strictObject({
  namespace: z.string(),
  /** With /usr/bin/python3 (3.9 or newer), git and tar. */
  image: z.string(),
  runtimeClass: z.string(),
  /** This service's name among all that have sandboxes in the namespace: it ends what an earlier one of the name left. */
  service: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
  nodeSelector: z.record(z.string(), z.string()).default({}),
  tolerations: z
    .array(
      z.strictObject({
        key: z.string(),
        operator: z.enum(["Exists", "Equal"]),
        value: z.string().optional(),
        effect: z.enum(["NoSchedule", "PreferNoSchedule", "NoExecute"]).optional(),
      }),
    )
    .default([]),
  /** Of one sandbox: requested and never exceeded. */
  milliCpus: Count,
  memoryMib: Count,
  /** How long a sandbox may wait for a place and its image. Default 300: a new node takes some minutes. */
  startSeconds: Count.default(300),
});
export type PodSettings = z.infer<typeof PodSettings>;

/** Labels by which pods are found again. */
export const SERVICE_LABEL = "uplift.dev/service";
export const PROCESS_LABEL = "uplift.dev/process";

/** Who runs in a sandbox; nobody on the nodes has this id. */
const USER = 1000;
const FILES_MIB = 8;
/** Of the executor's own processes, and of gVisor's bookkeeping beside what the tools use. */
const OWN_MIB = 96;
/** From the end of an attempt's time to the end of its pod, for packing, and for a service that is slow or away. */
const DEADLINE_MARGIN_SECONDS = 300;

/** PID 1 does nothing but wait: for the executor's end (payload/nest.py), or for the pod's. */
const WAIT = "trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done";

/** Memory that a pod needs for a family: one process at its limit, everything that can be written, and our own. */
export function memoryNeededMib({ memoryMib, diskMib }: Pick<SandboxLimits, "memoryMib" | "diskMib">): number {
  return memoryMib + diskMib + TMP_BYTES / 1024 / 1024 + FILES_MIB + OWN_MIB;
}

/** The pod of one sandbox. */
export function sandboxPod(args: {
  settings: PodSettings;
  name: string;
  /** Which process of the service made it: what another one made is left over. */
  process: string;
  attempt: string;
  purpose: SandboxPurpose;
  limits: SandboxLimits;
}): Pod & Manifest {
  const { settings, purpose, limits } = args;
  const seconds = purpose === "grading" ? limits.graderSeconds : limits.attemptSeconds;
  const size = { cpu: `${settings.milliCpus}m`, memory: `${settings.memoryMib}Mi`, "ephemeral-storage": "128Mi" };
  const volumes = {
    work: { path: "/work", size: `${limits.diskMib}Mi` },
    tmp: { path: "/tmp", size: `${TMP_BYTES / 1024 / 1024}Mi` },
    executor: { path: "/opt/uplift", size: `${FILES_MIB}Mi` },
    ...(purpose === "grading" ? { grader: { path: "/grader", size: `${FILES_MIB}Mi` } } : {}),
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: args.name,
      namespace: settings.namespace,
      labels: {
        ...labels("sandbox"),
        [SERVICE_LABEL]: settings.service,
        [PROCESS_LABEL]: args.process,
        "uplift.dev/purpose": purpose,
      },
      annotations: {
        [ATTEMPT]: args.attempt, // Longer than a label may be, and with other characters.
        // An autoscaler that moves a sandbox to empty its node would end an attempt.
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
      },
    },
    spec: {
      runtimeClassName: settings.runtimeClass,
      restartPolicy: "Never",
      activeDeadlineSeconds: Math.ceil(seconds) + DEADLINE_MARGIN_SECONDS,
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      hostname: "sandbox",
      // There is nothing to ask, and the cluster's domain and name servers are nobody's business in there.
      dnsPolicy: "None",
      dnsConfig: { nameservers: ["127.0.0.1"] },
      nodeSelector: settings.nodeSelector,
      tolerations: settings.tolerations,
      securityContext: {
        runAsNonRoot: true,
        ...{ runAsUser: USER, runAsGroup: USER, fsGroup: USER },
        // gVisor and Kata apply it to nothing inside (their own defaults), so that tools may be nested: payload/nest.py.
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "sandbox",
          image: settings.image,
          command: ["/bin/sh", "-c", WAIT],
          workingDir: "/work",
          resources: { requests: size, limits: size },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
          volumeMounts: Object.entries(volumes).map(([name, { path }]) => ({ name, mountPath: path })),
        },
      ],
      // In memory: a full one answers ENOSPC, while a full disk volume would have the pod evicted.
      volumes: Object.entries(volumes).map(([name, { size: sizeLimit }]) => ({
        name,
        emptyDir: { medium: "Memory", sizeLimit },
      })),
    },
  };
}
