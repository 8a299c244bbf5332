/**
 * Identity: the people of a target → the same name, uid and gid in slurmctld, slurmdbd, login and workers. Pure.
 *
 * A request over REST names a user; slurmctld looks it up where it runs, and a user it does not find is refused (slurm-operator
 * #118, #129). Slinky's images know nobody, and slurmctld's has no SSSD (schedmd/slurm/25.11/ubuntu24.04/Dockerfile). So before
 * each daemon starts, an init container of the same image writes its own passwd and group files with our lines added, and they
 * are mounted over the image's. The operator keeps init containers, volumes and mounts of a template (common/pod_template.go,
 * common/container.go).
 */
import { createHash } from "node:crypto";
import type { ConfigMap, Container, Volume, VolumeMount } from "kubernetes-types/core/v1.js";
import { UserError } from "../../../schemas/error.ts";
import { labels, type Manifest, UPLIFT_UID } from "../../../schemas/manifest.ts";
import type { SlurmUser } from "../../../schemas/platform.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { scriptText } from "../script-text.ts";
import { LOCKED, resources } from "./containers.ts";
import { NAMESPACE } from "./names.ts";

/** Who submits runs: the controller's service account in Slurm. */
export const RUNS_USER = { name: "uplift", uid: UPLIFT_UID } as const;

/** Names that are somebody else's in every image. */
const TAKEN = ["root", "daemon", "nobody", "slurm", "sshd", RUNS_USER.name];
const IDENTITY = "slurm-identity";
const FILES_VOLUME = "identity-files";
const VOLUME = "identity";

type Person = Pick<SlurmUser, "name" | "uid">;

/** Everyone who has a home and may run jobs. */
export function people(target: PlatformTarget): readonly Person[] {
  const { users } = target.platform;
  const clash = users.find(
    ({ name, uid }, index) =>
      TAKEN.includes(name) || users.slice(0, index).some((other) => other.name === name || other.uid === uid),
  );
  if (clash)
    throw new UserError({
      ...{ code: "slurm-user-clash", path: "platform.users" },
      asked: `the user ${clash.name} with uid ${clash.uid}`,
      found: TAKEN.includes(clash.name) ? "that name is a system user's" : "another user has that name or uid",
      allowed: "names and uids that nobody else has",
      todo: "give this user another name or uid",
    });
  return [RUNS_USER, ...users];
}

export function home(target: PlatformTarget, name: string): string {
  return `${target.storage.mountPath}/home/${name}`;
}

/** The ConfigMap of the added lines. A password field of "*" refuses passwords and, unlike "x", needs no shadow entry. */
export function identityManifest(target: PlatformTarget): ConfigMap & Manifest {
  const everyone = people(target);
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: IDENTITY, namespace: NAMESPACE, labels: labels(IDENTITY) },
    data: {
      passwd: everyone
        .map(({ name, uid }) => `${name}:*:${uid}:${uid}:${name}:${home(target, name)}:/bin/bash\n`)
        .join(""),
      group: everyone.map(({ name, uid }) => `${name}:*:${uid}:\n`).join(""),
      "identity.sh": scriptText("slurm/scripts/identity.sh"),
      "homes.sh": scriptText("slurm/scripts/homes.sh"),
    },
  };
}

export function identityVolumes(): Volume[] {
  return [
    { name: FILES_VOLUME, configMap: { name: IDENTITY, defaultMode: 0o555 } },
    { name: VOLUME, emptyDir: { sizeLimit: "8Mi" } },
  ];
}

/** `restart`: whether the pods are made anew when the people change. */
export function identityInit(
  target: PlatformTarget,
  daemonImage: string,
  { restart }: { restart: boolean },
): Container {
  const { data } = identityManifest(target);
  const digest = createHash("sha256").update(`${data?.passwd}${data?.group}`).digest("hex").slice(0, 12);
  return {
    name: "identity",
    image: daemonImage,
    command: ["bash", "/uplift/identity/identity.sh", "/uplift/identity", "/identity"],
    ...(restart ? { env: [{ name: "PEOPLE", value: digest }] } : {}),
    volumeMounts: [
      { name: FILES_VOLUME, mountPath: "/uplift/identity", readOnly: true },
      { name: VOLUME, mountPath: "/identity" },
    ],
    resources: resources("10m", "32Mi"),
    securityContext: LOCKED,
  };
}

/** Over the image's own files. `nss`: also where names are looked up, for images with Slurm's own lookup. */
export function identityMounts({ nss = false }: { nss?: boolean } = {}): VolumeMount[] {
  const files = ["passwd", "group", ...(nss ? ["nsswitch.conf"] : [])];
  return files.map((file) => ({ name: VOLUME, mountPath: `/etc/${file}`, subPath: file, readOnly: true }));
}
