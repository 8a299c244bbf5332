/**
 * Stack: what `uplift up` leaves behind for the other commands, read back from Pulumi's outputs.
 */
import { z } from "zod";
import { Pools } from "./pool.ts";

export const LocalStackOutputs = z.object({
  kind: z.literal("local"),
  /** Absolute folder of state, stores and logs. */
  home: z.string(),
  /** http://127.0.0.1:7600: API and dashboard. */
  controllerUrl: z.string(),
  environmentsUrl: z.string(),
  objectStorePath: z.string(),
  databasePath: z.string(),
  /** The Python of the trainers' venv. */
  python: z.string(),
});
export type LocalStackOutputs = z.infer<typeof LocalStackOutputs>;

/** What a platform of nodes exports; nothing in it is a secret. */
const cluster = {
  /** The dashboard's address, or null where it is reached through a port-forward of service uplift/controller. */
  webUrl: z.string().nullable(),
  /** Inside the cluster. */
  environmentsUrl: z.string(),
  slurmRestUrl: z.string(),
  /** Shared storage as every node mounts it. */
  mountPath: z.string(),
  /** S3: snapshots/, checkpoints/, traces/, datasets/ in each. Endpoint null for AWS's own. */
  objects: z.object({
    endpoint: z.string().nullable(),
    region: z.string(),
    buckets: z.object({ snapshots: z.string(), checkpoints: z.string(), traces: z.string(), datasets: z.string() }),
  }),
  pools: Pools,
  /** Plans it was made for: name and digest. */
  plans: z.array(z.object({ name: z.string(), digest: z.string() })),
};
export const KubernetesStackOutputs = z.object({ kind: z.literal("kubernetes"), kubeContext: z.string(), ...cluster });
export const AwsStackOutputs = z.object({
  kind: z.literal("aws"),
  region: z.string(),
  accountId: z.string(),
  eksCluster: z.string(),
  /** How to reach its API: asks `aws eks get-token` each time, so it holds no secret. */
  kubeconfig: z.string(),
  ...cluster,
});
export const ClusterStackOutputs = z.discriminatedUnion("kind", [KubernetesStackOutputs, AwsStackOutputs]);
export type ClusterStackOutputs = z.infer<typeof ClusterStackOutputs>;

export const StackOutputs = z.discriminatedUnion("kind", [LocalStackOutputs]);
export type StackOutputs = z.infer<typeof StackOutputs>;
