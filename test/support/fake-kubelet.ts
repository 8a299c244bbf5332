/**
 * Fake kubelet: plays nodes, pods and volumes on a Kubernetes API that has a controller manager and no nodes. Every pod
 * becomes Running and Ready at once, a Job's pod succeeds, a claim without a volume gets one. Nothing runs: what needs a real
 * kubelet (images, probes, isolation, mounts) is not tested with it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { KubernetesApi } from "./kubernetes-api.ts";

const Listed = z.object({
  items: z.array(
    z.looseObject({
      metadata: z.looseObject({
        name: z.string(),
        namespace: z.string().optional(),
        deletionTimestamp: z.string().optional(),
        ownerReferences: z.array(z.looseObject({ kind: z.string() })).optional(),
      }),
      spec: z.looseObject({
        containers: z.array(z.looseObject({ name: z.string() })).optional(),
        initContainers: z.array(z.looseObject({ name: z.string() })).optional(),
        volumeName: z.string().optional(),
        storageClassName: z.string().optional(),
        accessModes: z.array(z.string()).optional(),
        resources: z.looseObject({ requests: z.record(z.string(), z.string()).optional() }).optional(),
      }),
      status: z.looseObject({ phase: z.string().optional() }).optional(),
    }),
  ),
});
type Item = z.infer<typeof Listed>["items"][number];

/** Starts playing; the returned function ends it. `holds` keeps the pods it names from becoming ready. */
export function startFakeKubelet(
  api: KubernetesApi,
  holds: (pod: string) => boolean = () => false,
): () => Promise<void> {
  let stopped = false;
  let failure: unknown = null;
  const list = async (path: string) => Listed.parse((await api.request("GET", path)).body).items;
  const tick = async () => {
    for (const pod of await list("/api/v1/pods")) await playPod(api, pod, holds);
    for (const claim of await list("/api/v1/persistentvolumeclaims")) await provide(api, claim);
  };
  const loop = (async () => {
    while (!stopped) {
      await tick().catch((error: unknown) => {
        if (!stopped) failure = error;
      });
      await sleep(200);
    }
  })();
  return async () => {
    stopped = true;
    await loop;
    if (failure !== null) throw failure;
  };
}

async function playPod(api: KubernetesApi, pod: Item, holds: (pod: string) => boolean): Promise<void> {
  const { name, namespace, deletionTimestamp, ownerReferences = [] } = pod.metadata;
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
  if (deletionTimestamp !== undefined) {
    // What a kubelet does when the containers have ended.
    await api.request("DELETE", path, { gracePeriodSeconds: 0 });
    return;
  }
  if (holds(name)) return;
  const succeeds = ownerReferences.some(({ kind }) => kind === "Job");
  const phase = succeeds ? "Succeeded" : "Running";
  if (pod.status?.phase === phase) return;
  const now = new Date().toISOString();
  const state = succeeds
    ? { terminated: { exitCode: 0, reason: "Completed", startedAt: now, finishedAt: now } }
    : { running: { startedAt: now } };
  const statuses = (containers: Item["spec"]["containers"] = []) =>
    containers.map((container) => ({
      ...{
        name: container.name,
        ready: !succeeds,
        started: !succeeds,
        restartCount: 0,
        image: "fake",
        imageID: "fake",
      },
      state,
    }));
  const condition = (type: string, status = "True") => ({ type, status, lastTransitionTime: now });
  await api.request("PATCH", `${path}/status`, {
    status: {
      phase,
      ...{ startTime: now, hostIP: "10.1.0.1", podIP: "10.1.1.1", podIPs: [{ ip: "10.1.1.1" }] },
      conditions: [
        condition("PodScheduled"),
        condition("Initialized"),
        condition("ContainersReady", succeeds ? "False" : "True"),
        condition("Ready", succeeds ? "False" : "True"),
      ],
      containerStatuses: statuses(pod.spec.containers),
    },
  });
}

/** A claim's volume, as a storage class's provisioner makes it. */
async function provide(api: KubernetesApi, claim: Item): Promise<void> {
  const { name, namespace } = claim.metadata;
  const { volumeName, storageClassName, accessModes, resources } = claim.spec;
  if (volumeName !== undefined || !storageClassName) return;
  await api.request("POST", "/api/v1/persistentvolumes", {
    metadata: { name: `fake-${namespace}-${name}` },
    spec: {
      ...{ storageClassName, accessModes, capacity: resources?.requests ?? { storage: "1Gi" } },
      persistentVolumeReclaimPolicy: "Delete",
      claimRef: { kind: "PersistentVolumeClaim", apiVersion: "v1", name, namespace },
      hostPath: { path: `/tmp/fake-${namespace}-${name}` },
    },
  });
}
