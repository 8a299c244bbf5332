/**
 * Cluster services: what the controller's command line names → the services of its cluster that it speaks to: Slurm over REST as
 * the user `uplift`, and endpoints through the Kubernetes API with the pod's own account. Connects when they are first used.
 */
import type { GpuPool } from "../../schemas/pool.ts";
import type { PlatformTarget } from "../../schemas/target.ts";
import { SlurmRest, SlurmScheduler } from "../runs/index.ts";
import type { ClusterServices } from "./cluster-controller.ts";
import { ClusterEndpointHost } from "./cluster-endpoint-host.ts";
import { podEndpoints, podKubeConfig } from "./pod-endpoints.ts";
import { readSecret } from "./secret-files.ts";

/** Whom jobs run as: schemas/manifest.ts has its uid. */
const SLURM_USER = "uplift";

/** The services of a cluster. */
export function clusterServices(options: {
  readonly slurmUrl: string;
  readonly slurmTokenFile: string;
  readonly target: PlatformTarget;
  readonly servingPool: GpuPool;
  readonly kubeconfig?: string | undefined;
}): ClusterServices {
  const { slurmUrl, slurmTokenFile, target, servingPool: pool, kubeconfig } = options;
  const now = () => new Date();
  const token = () => readSecret(slurmTokenFile, "the JWT of Slurm's user");
  return {
    endpoints: podEndpoints(kubeconfig, now),
    host: new ClusterEndpointHost({ config: podKubeConfig(kubeconfig), around: { target, pool }, now }),
    batch: new SlurmScheduler(new SlurmRest({ url: slurmUrl, user: SLURM_USER, token })),
  };
}
