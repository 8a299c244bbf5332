/**
 * Pods: what the pods of Uplift's own services in the namespace `uplift` have in common: names, user, rights, the program. Pure.
 */
import type { Container, PodSpec, Volume } from "kubernetes-types/core/v1.js";
import { labels, NAMESPACES, NO_RIGHTS } from "../../../schemas/manifest.ts";
import { placement } from "../../../schemas/placement.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

/** Port of the controller: everything but /health and /ready asks for a login. */
export const CONTROLLER_PORT = 7600;
export const CONTROLLER = "controller";
export const MIGRATIONS = "migrations";
export const POSTGRES = "postgres";
export const DUMP = "postgres-dump";
export const RESTORE = "postgres-restore";

/** User of the Postgres image. */
export const POSTGRES_UID = 999;

/** Metadata of an object of a component in the namespace `uplift`. */
export function metadataOf(component: string, name = component) {
  return { name, namespace: NAMESPACES.platform, labels: labels(component) };
}

/** What selects a component's pods. */
export const selectorOf = (component: string) => ({ "app.kubernetes.io/name": component });

/**
 * A pod's spec but its containers. No fsGroup unless a pod says so: a volume's driver may give every file of the shared storage
 * to that group, one by one.
 */
export function podDefaults(target: PlatformTarget, uid: number): Omit<PodSpec, "containers"> {
  return {
    ...placement(target, "platform"),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    securityContext: {
      ...{ runAsNonRoot: true, runAsUser: uid, runAsGroup: uid },
      seccompProfile: { type: "RuntimeDefault" },
    },
  };
}

/** A container that runs the `uplift` command of the platform's image. */
export function upliftContainer(
  target: PlatformTarget,
  args: readonly string[],
  rest: Omit<Container, "image" | "command" | "args" | "securityContext">,
): Container {
  return {
    image: target.platform.images.platform,
    command: ["node", "--import", "tsx", "modules/cli/main.ts"],
    args: [...args],
    securityContext: NO_RIGHTS,
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...rest,
  };
}

/** A Secret's keys as files. */
export function secretVolume(name: string, secretName: string, keys: readonly string[]): Volume {
  return { name, secret: { secretName, items: keys.map((key) => ({ key, path: key })) } };
}

/** A folder that ends with its pod. */
export function scratch(name: string, sizeLimit: string): Volume {
  return { name, emptyDir: { sizeLimit } };
}
