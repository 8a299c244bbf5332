/**
 * Storage: the shared file system is of a kind the nodes can mount, and the class of disks exists. Whether nodes do mount the
 * file system nothing in the API says, until a job of the platform has: `up` finds out.
 */
import { NAMESPACES } from "../../../../schemas/manifest.ts";
import type { KubernetesPlatform, SharedVolume } from "../../../../schemas/platform.ts";
import { type Check, error, type Found, later, ok } from "../check.ts";
import { type KubernetesApi, METADATA_ONLY } from "./api.ts";
import type { Metadata } from "./objects.ts";

/** The platform's jobs that make folders on the shared storage: one that is done has mounted and written it. */
const FOLDERS_JOBS = `/apis/batch/v1/namespaces/${NAMESPACES.platform}/jobs?labelSelector=${encodeURIComponent("app.kubernetes.io/name=shared-folders")}`;

type ReadingApi = Pick<KubernetesApi, "get" | "list">;
interface StorageClass {
  readonly metadata: Metadata;
  readonly provisioner: string;
}

/** Shared storage (many nodes) and disks (one). */
export function storageChecks(api: ReadingApi, { shared, blockClass }: KubernetesPlatform["storage"]): Check[] {
  return [
    {
      ...{ area: "kubernetes", name: "shared-storage", subject: `shared storage ${nameOf(shared)}` },
      run: async () => {
        const missing = await missingFor(api, shared);
        if (missing) return missing;
        const wanted = "mounted by every node, to read and write";
        const jobs = await api.list<{ status?: { succeeded?: number } }>(FOLDERS_JOBS);
        if (jobs?.some(({ status }) => (status?.succeeded ?? 0) > 0))
          return ok({ found: "the platform has written to it", wanted });
        return later({
          ...{ found: "no object of the cluster says whether its nodes can mount it", wanted },
          todo: "nothing: the job shared-folders of the first `up` mounts it and makes its folders, and `up` fails where it cannot. To know before: mount it on two nodes, write a file on one, read it on the other",
        });
      },
    },
    {
      ...{ area: "kubernetes", name: "storage-class", subject: `storage class ${blockClass}` },
      run: async () => {
        const found = await api.get<StorageClass>(`/apis/storage.k8s.io/v1/storageclasses/${blockClass}`);
        const wanted = "there, for databases and Slurm's state";
        if (found) return ok({ found: found.provisioner, wanted });
        return error({
          ...{ found: "there is no such class", wanted },
          todo: "correct platform.storage.blockClass: kubectl get storageclass",
        });
      },
    },
  ];
}

function nameOf(shared: SharedVolume): string {
  switch (shared.kind) {
    case "nfs":
      return `${shared.server}:${shared.path}`;
    case "node-path":
      return `${shared.path} of the nodes`;
    case "csi":
      return `of driver ${shared.driver}`;
  }
}

/** What a volume needs of the cluster, or of its target, and has not. */
async function missingFor(api: ReadingApi, shared: SharedVolume): Promise<Found | null> {
  if (shared.kind === "nfs" && /(^|\.)example\.(org|com|net)$/.test(shared.server))
    return error({
      found: "the server that the shipped target writes in its place",
      wanted: "a file system of yours",
      todo: "write platform.storage.shared as your nodes mount it",
    });
  if (shared.kind !== "csi") return null;
  if (!(await api.get(`/apis/storage.k8s.io/v1/csidrivers/${shared.driver}`)))
    return error({
      ...{ found: "there is no such driver", wanted: "a CSI driver of the cluster" },
      todo: "install it, or correct platform.storage.shared.driver: kubectl get csidriver",
    });
  const { nodeSecret } = shared;
  if (!nodeSecret) return null;
  const path = `/api/v1/namespaces/${nodeSecret.namespace}/secrets/${nodeSecret.name}`;
  if (await api.get(path, METADATA_ONLY)) return null;
  return error({
    ...{
      found: `no Secret ${nodeSecret.namespace}/${nodeSecret.name}`,
      wanted: "the Secret of the driver's node plugin",
    },
    todo: "make it, or correct platform.storage.shared.nodeSecret",
  });
}
