/**
 * Storage of a platform: the shared file system in each namespace that mounts it, its folders, and the class of block volumes.
 * In: a target. Out: Kubernetes objects as data; on AWS with the late values fsx-id, fsx-dns-name, fsx-mount-name.
 */
import type { StorageClass } from "kubernetes-types/storage/v1.js";
import { labels, type Manifest } from "../../../schemas/manifest.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { sharedFoldersJob } from "./shared-folders.ts";
import { sharedVolumes } from "./shared-volumes.ts";

const AWS_BLOCK_CLASS = "uplift-block";

/** Storage class of databases and Slurm's state (ReadWriteOnce). */
export function blockClass(target: PlatformTarget): string {
  return target.kind === "aws" ? AWS_BLOCK_CLASS : target.platform.storage.blockClass;
}

/** All objects of a target's storage. */
export function storageManifests({ target }: { readonly target: PlatformTarget }): Manifest[] {
  return [...(target.kind === "aws" ? [ebsClass()] : []), ...sharedVolumes(target), sharedFoldersJob(target)];
}

/** EBS gp3, encrypted with the account's own key for EBS; a volume outlives its claim, so that a mistake can be taken back. */
function ebsClass() {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: AWS_BLOCK_CLASS, labels: labels("block-storage") },
    provisioner: "ebs.csi.aws.com",
    parameters: { type: "gp3", encrypted: "true" },
    reclaimPolicy: "Retain",
    volumeBindingMode: "WaitForFirstConsumer",
    allowVolumeExpansion: true,
  } satisfies StorageClass & Manifest;
}
