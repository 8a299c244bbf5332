/**
 * Shared folders: a Job that makes the folders of the shared storage with their owners, and then writes in them as `uplift`.
 * In: the target. Out: one Job, named by what it does, so that a changed table makes a new one. Run again it changes nothing;
 * a folder that somebody else owns is refused and left as it is.
 */
import { createHash } from "node:crypto";
import type { Job } from "kubernetes-types/batch/v1.js";
import type { Container } from "kubernetes-types/core/v1.js";
import {
  labels,
  type Manifest,
  NAMESPACES,
  NO_RIGHTS,
  ROOT_BECAUSE,
  readyWithin,
  SHARED_CLAIM,
  UPLIFT_UID,
} from "../../../schemas/manifest.ts";
import { thirdPartyImage } from "../../../schemas/pins.ts";
import { placement } from "../../../schemas/placement.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

/** A first mount, a first image, and the Job's own tries. */
const DEADLINE_SECONDS = 1200;
/** User of the Postgres image. */
const POSTGRES_UID = 999;

/** A folder of the shared storage, its owner, and its mode. */
export interface SharedFolder {
  readonly name: string;
  readonly uid: number;
  readonly mode: string;
}

/** What lies on a target's shared storage. Dumps of the database are for their own user only: jobs run as `uplift`. */
export function sharedFolders(target: PlatformTarget): SharedFolder[] {
  const names = ["models", "checkpoints", "runs", "jobs", "collections", "evaluations", "cache", "images"];
  const ours = names.map((name) => ({ name, uid: UPLIFT_UID, mode: "755" }));
  const dumped = target.kind === "kubernetes" && target.platform.database.kind === "in-cluster";
  return dumped ? [...ours, { name: "backups", uid: POSTGRES_UID, mode: "700" }] : ours;
}

/** $SHARED: the mount; $FOLDERS: lines of name:uid:mode. Of busybox and of GNU alike. */
export const MAKE_FOLDERS = `set -eu
refuse() {
  echo "$1" >&2
  echo "Make it once on the file system itself: mkdir -p, chown $2:$2, chmod $3." >&2
  exit 1
}
for folder in $FOLDERS; do
  path="$SHARED/\${folder%%:*}" rest="\${folder#*:}"
  uid="\${rest%%:*}" mode="\${rest#*:}"
  [ -d "$path" ] || mkdir "$path" || refuse "$path cannot be made; does the file system refuse root (root_squash)?" "$uid" "$mode"
  owner=$(stat -c %u "$path")
  if [ "$owner" = "$uid" ] && [ "$(stat -c %a "$path")" = "$mode" ]; then continue; fi
  [ "$owner" = "$uid" ] || [ "$owner" = "$(id -u)" ] || refuse "$path belongs to user $owner, who is not to lose it." "$uid" "$mode"
  { chown "$uid:$uid" "$path" && chmod "$mode" "$path"; } || refuse "$path cannot be given to user $uid." "$uid" "$mode"
done
`;

/** $SHARED; $FOLDERS: names. A file system that is mounted, and takes nothing, is found out here and not by the first run. */
export const CHECK_FOLDERS = `set -eu
for folder in $FOLDERS; do
  probe="$SHARED/$folder/.uplift-probe-$HOSTNAME"
  echo probe >"$probe"
  rm "$probe"
done
`;

/** The Job. */
export function sharedFoldersJob(target: PlatformTarget) {
  const folders = sharedFolders(target);
  const table = folders.map(({ name, uid, mode }) => `${name}:${uid}:${mode}`).join(" ");
  const writable = folders
    .filter(({ uid }) => uid === UPLIFT_UID)
    .map(({ name }) => name)
    .join(" ");
  const image = thirdPartyImage("logSidecar", target.platform.pins);
  const { mountPath } = target.storage;
  const container = (
    name: string,
    script: string,
    list: string,
    security: Container["securityContext"],
  ): Container => ({
    name,
    image,
    command: ["sh", "-c", script],
    env: [
      { name: "SHARED", value: mountPath },
      { name: "FOLDERS", value: list },
    ],
    resources: { requests: { cpu: "10m", memory: "16Mi" }, limits: { cpu: "500m", memory: "64Mi" } },
    securityContext: { ...NO_RIGHTS, ...security },
    volumeMounts: [{ name: "shared", mountPath }],
  });
  const content = createHash("sha256").update([MAKE_FOLDERS, CHECK_FOLDERS, table, image, mountPath].join("\0"));
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: `shared-folders-${content.digest("hex").slice(0, 10)}`,
      // The namespace `uplift` lets no pod run as root.
      namespace: NAMESPACES.slurm,
      labels: labels("shared-folders"),
      annotations: readyWithin(DEADLINE_SECONDS + 60),
    },
    spec: {
      backoffLimit: 4,
      activeDeadlineSeconds: DEADLINE_SECONDS,
      // No ttlSecondsAfterFinished: its name says what it has done, and a Job that is gone would be made anew by the next `up`.
      template: {
        metadata: {
          labels: labels("shared-folders"),
          annotations: { [ROOT_BECAUSE]: "only root gives a folder to another user" },
        },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          ...placement(target, "platform"),
          securityContext: { seccompProfile: { type: "RuntimeDefault" } },
          initContainers: [
            container("make", MAKE_FOLDERS, table, {
              runAsUser: 0,
              capabilities: { drop: ["ALL"], add: ["CHOWN", "FOWNER", "DAC_OVERRIDE"] },
            }),
          ],
          containers: [
            container("check", CHECK_FOLDERS, writable, {
              ...{ runAsNonRoot: true, runAsUser: UPLIFT_UID, runAsGroup: UPLIFT_UID },
            }),
          ],
          volumes: [{ name: "shared", persistentVolumeClaim: { claimName: SHARED_CLAIM } }],
        },
      },
    },
  } satisfies Job & Manifest;
}
