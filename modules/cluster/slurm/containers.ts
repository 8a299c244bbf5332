/**
 * Containers: what the pods of Slurm's daemons have in common. Pure.
 */
import type { Container, ResourceRequirements, SecurityContext } from "kubernetes-types/core/v1.js";
import { NO_RIGHTS } from "../../../schemas/manifest.ts";
import { type ThirdPartyImage, thirdPartyImage } from "../../../schemas/pins.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";

export function image(target: PlatformTarget, role: ThirdPartyImage): string {
  return thirdPartyImage(role, target.platform.pins);
}

/**
 * As little as a container can have. In containers that the operator makes itself, `allowPrivilegeEscalation: false` is lost: it
 * drops what is false or empty before it merges (slurm-operator v1.1.0, structutils/kube.go).
 */
export const LOCKED = { ...NO_RIGHTS, seccompProfile: { type: "RuntimeDefault" } } satisfies SecurityContext;

/** For images of Slinky whose supervisord keeps its pid file and socket in /tmp of the root filesystem. */
export const SUPERVISED = { ...LOCKED, readOnlyRootFilesystem: false } satisfies SecurityContext;

/** No CPU limit: a daemon that is throttled answers late, and late answers drain nodes. */
export function resources(cpu: string, memory: string): ResourceRequirements {
  return { requests: { cpu, memory }, limits: { memory } };
}

/** The sidecar that prints Slurm's log: a loop in the image's shell. */
export function logSidecar(target: PlatformTarget): Partial<Container> {
  return { image: image(target, "logSidecar"), resources: resources("10m", "32Mi"), securityContext: LOCKED };
}
