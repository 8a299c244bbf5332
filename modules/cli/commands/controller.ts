/**
 * uplift controller: the long-lived process of a platform. `uplift up` starts it; not for hands.
 *
 *   on one machine   --home --port --environments-url --python --slots --threads --endpoint-hours
 *   in a cluster     --cluster --home --port --environments-url --mount-path --database-url-file --objects-config --token-file
 *                    --slurm-url --slurm-token-file --target-config
 *
 * No secret is on the command line: they are in files, which are read again when they are needed, so that a changed one needs
 * no restart. Credentials of S3 come from the environment or the pod's identity.
 */
import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { z } from "zod";
import { fromZod } from "../../../schemas/error.ts";
import { GpuPool } from "../../../schemas/pool.ts";
import { ClusterTarget } from "../../../schemas/target.ts";

const common = { home: z.string(), port: z.coerce.number().int().min(1).max(65_535), environmentsUrl: z.url() };

const Local = z.object({
  ...common,
  python: z.string(),
  slots: z.coerce.number().int().positive(),
  threads: z.coerce.number().int().positive(),
  endpointHours: z.coerce.number().positive(),
});

const Cluster = z.object({
  ...common,
  host: z.string(),
  mountPath: z.string().startsWith("/"),
  databaseUrlFile: z.string(),
  objectsConfig: z.string(),
  tokenFile: z.string(),
  slurmUrl: z.url(),
  slurmTokenFile: z.string(),
  targetConfig: z.string(),
  kubeconfig: z.string().optional(),
});

/** The target that the platform was made from, and the nodes its models are served on. */
const TargetConfig = z.object({ target: ClusterTarget, servingPool: GpuPool });

/** `objects` of a cluster stack's outputs. */
const Objects = z.object({
  endpoint: z.url().nullable(),
  region: z.string(),
  buckets: z.object({ snapshots: z.string(), checkpoints: z.string(), traces: z.string(), datasets: z.string() }),
});

/** Registers the command, hidden from help. */
export function controllerCommand(program: Command): void {
  program
    .command("controller", { hidden: true })
    .description("run the controller; uplift up starts it")
    .requiredOption("--home <folder>", "state, stores and logs; in a cluster a folder that may be lost")
    .requiredOption("--port <n>", "where API and dashboard are")
    .requiredOption("--environments-url <url>")
    .option("--python <path>", "the trainers' Python")
    .option("--slots <n>", "jobs at once")
    .option("--threads <n>", "threads a job")
    .option("--endpoint-hours <n>", "longest life of an endpoint")
    .option("--cluster", "over Postgres and S3, with a login", false)
    .option("--host <address>", "in a cluster: the address to listen on", "0.0.0.0")
    .option("--database-url-file <path>", "holds postgresql://…")
    .option("--objects-config <path>", "JSON: endpoint, region and buckets of the object store")
    .option("--token-file <path>", "holds the token of the web login")
    .option("--mount-path <folder>", "in a cluster: the shared storage")
    .option("--slurm-url <url>", "Slurm's REST API")
    .option("--slurm-token-file <path>", "holds the JWT of Slurm's user uplift; read again at every request")
    .option("--target-config <path>", "JSON: the platform's target and serving nodes")
    .option("--kubeconfig <path>", "of the cluster its endpoints are in; default: the one its pod runs in")
    .action(async (options: { cluster: boolean }) => {
      if (!options.cluster) {
        const { runController } = await import("../controller.ts");
        return runController(parsed(Local, options, "uplift controller"));
      }
      const { runClusterController } = await import("../cluster-controller.ts");
      const { clusterServices } = await import("../cluster-services.ts");
      const { platformTarget } = await import("../../cluster/index.ts");
      const { objectsConfig, targetConfig, ...cluster } = parsed(Cluster, options, "uplift controller --cluster");
      const objects = await parsedFile(Objects, objectsConfig);
      const config = await parsedFile(TargetConfig, targetConfig);
      const platform = { ...cluster, ...config, target: platformTarget(config.target) };
      return runClusterController({ ...platform, objects }, clusterServices(platform));
    });
}

function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, where: string): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw fromZod(result.error, where, "controller-options");
}

async function parsedFile<Schema extends z.ZodType>(schema: Schema, path: string): Promise<z.output<Schema>> {
  return parsed(schema, parseJson(await readFile(path, "utf8")), path);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON is no description either; the schema says so.
    return text;
  }
}
