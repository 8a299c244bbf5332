/**
 * Homes: the init container that makes people's homes on the shared storage, once. Pure. All other folders are of the Job of
 * storage/shared-folders.ts; a home comes with its person, and no Job waits for that.
 */
import type { Container } from "kubernetes-types/core/v1.js";
import type { SlurmArgs } from "./args.ts";
import { LOCKED, resources } from "./containers.ts";

export function homesInit({ target }: SlurmArgs, daemonImage: string): Container {
  return {
    name: "homes",
    image: daemonImage,
    command: ["bash", "/uplift/identity/homes.sh", target.storage.mountPath, "/uplift/identity/passwd"],
    volumeMounts: [
      { name: "identity-files", mountPath: "/uplift/identity", readOnly: true },
      { name: "shared", mountPath: target.storage.mountPath },
    ],
    resources: resources("10m", "32Mi"),
    // Root makes folders for others.
    securityContext: {
      ...LOCKED,
      runAsUser: 0,
      capabilities: { drop: ["ALL"], add: ["CHOWN", "FOWNER", "DAC_OVERRIDE"] },
    },
  };
}
