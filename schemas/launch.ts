/**
 * Launch: how a training job is started on a cluster: image, script, mounts, ports, time limit. Everything a batch
 * script says is here; nothing here is a secret.
 */
import { z } from "zod";

const Port = z.number().int().min(1).max(65535);

export const Launch = z.strictObject({
  image: z.string(),
  nodes: z.number().int().positive(),
  gpusPerNode: z.number().int().positive(),
  partition: z.string(),
  account: z.string(),
  /** Slurm's limit of one job, seconds; a run that needs longer goes on in a further job. */
  walltimeSeconds: z.number().int().positive(),
  /** The trainer saves and ends by itself this long before the limit. */
  saveBeforeEndSeconds: z.number().int().positive(),
  /** Signal the script gets from Slurm before the limit, e.g. "B:USR1@300"; null where the trainer ignores signals. */
  signal: z.string().nullable(),
  /** source:destination[:ro] */
  mounts: z.array(z.string()),
  /** Ports the trainer takes on its nodes, first and last. */
  ports: z.array(z.strictObject({ name: z.string(), first: Port, last: Port })),
  /** Environment of the job; secrets are named in `secrets` and come from the cluster. */
  env: z.record(z.string(), z.string()),
  /** Names of environment variables that the cluster's secret store fills in. */
  secrets: z.array(z.string()),
  /** The driver's command line inside the image. `${RUN_DIR}` is the run's folder on shared storage. */
  command: z.array(z.string()).min(1),
});
export type Launch = z.infer<typeof Launch>;
