/**
 * Shared volumes: a target's shared file system → a volume and the claim `shared` in each namespace that mounts it. Pure.
 * A claim binds one volume and a volume one claim, so the same file system is there as three volumes, made by hand and not from a
 * class, which would give three file systems. Deleting them deletes no file: Retain, and the file system is not theirs.
 */
import type { PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec } from "kubernetes-types/core/v1.js";
import { labels, late, type Manifest, NAMESPACES, SHARED_CLAIM } from "../../../schemas/manifest.ts";
import type { SharedVolume } from "../../../schemas/platform.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

/** Namespaces whose pods mount the shared storage. */
const SHARED_NAMESPACES = [NAMESPACES.platform, NAMESPACES.slurm, NAMESPACES.serving] as const;
type SharedNamespace = (typeof SHARED_NAMESPACES)[number];

/** What names no class, so that no default class makes another volume. */
const NO_CLASS = "";

/** A volume and its claim, by namespace. */
export function sharedVolumes(target: PlatformTarget): Manifest[] {
  return SHARED_NAMESPACES.flatMap((namespace) => [volume(target, namespace), claim(namespace)]);
}

function volume(target: PlatformTarget, namespace: SharedNamespace) {
  const name = volumeName(namespace);
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, labels: labels("shared-storage") },
    spec: {
      capacity: { storage: SIZE },
      accessModes: ["ReadWriteMany"],
      persistentVolumeReclaimPolicy: "Retain",
      storageClassName: NO_CLASS,
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name: SHARED_CLAIM },
      ...(target.kind === "aws" ? fsx(name) : source(target.platform.storage.shared, namespace)),
    },
  } satisfies PersistentVolume & Manifest;
}

function claim(namespace: SharedNamespace) {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: SHARED_CLAIM, namespace, labels: labels("shared-storage") },
    spec: {
      accessModes: ["ReadWriteMany"],
      storageClassName: NO_CLASS,
      volumeName: volumeName(namespace),
      resources: { requests: { storage: SIZE } },
    },
  } satisfies PersistentVolumeClaim & Manifest;
}

const volumeName = (namespace: SharedNamespace) => `uplift-shared-${namespace}`;

/**
 * Only the match of claim and volume: nothing enforces it, and Kubernetes lets no claim of a volume made by hand change it. How
 * large the file system is, it says itself.
 */
const SIZE = "1Ti";

type Source = Pick<PersistentVolumeSpec, "csi" | "nfs" | "hostPath" | "mountOptions">;

/**
 * FSx for Lustre. The driver mounts what the attributes name (its node plugin reads nothing else); the handle only tells
 * volumes apart, and two of one handle would be one volume to a node. flock: PyTorch's and Triton's caches lock files.
 */
function fsx(name: string): Source {
  return {
    mountOptions: ["flock", "noatime"],
    csi: {
      driver: "fsx.csi.aws.com",
      volumeHandle: `${late("fsx-id")}-${name}`,
      volumeAttributes: { dnsname: late("fsx-dns-name"), mountname: late("fsx-mount-name") },
    },
  };
}

function source(shared: SharedVolume, namespace: SharedNamespace): Source {
  switch (shared.kind) {
    case "nfs":
      return { nfs: { server: shared.server, path: shared.path }, ...mountOptions(shared.mountOptions) };
    case "node-path":
      // Directory: where a node has not mounted the file system, the pod waits instead of writing on the node's disk.
      return { hostPath: { path: shared.path, type: "Directory" } };
    case "csi": {
      const secret = shared.nodeSecret
        ? { nodeStageSecretRef: shared.nodeSecret, nodePublishSecretRef: shared.nodeSecret }
        : {};
      return {
        csi: {
          driver: shared.driver,
          volumeHandle: shared.volumeHandles?.[namespace] ?? volumeName(namespace),
          volumeAttributes: shared.attributes,
          ...secret,
        },
        ...mountOptions(shared.mountOptions),
      };
    }
  }
}

const mountOptions = (options: string[]) => (options.length > 0 ? { mountOptions: options } : {});
