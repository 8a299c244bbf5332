/**
 * Live work: a cluster → the jobs and endpoints that run on it now, or why that cannot be told. Asked before anything is
 * destroyed or made smaller. Speaks to Kubernetes, and through its service proxy to Slurm's REST API with a token made here.
 */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import http, { type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";
import { ApiException, AppsV1Api, CoreV1Api, CustomObjectsApi, type KubeConfig } from "@kubernetes/client-node";
import { z } from "zod";
import { NAMESPACES, OURS } from "../../schemas/manifest.ts";

/** What is under way. */
export interface LiveWork {
  /** "sft github-sft-rl (job 17, RUNNING)". */
  readonly jobs: string[];
  readonly endpoints: string[];
  /** Why one of both is not known; null where both are. */
  readonly unknown: string | null;
}

/** Oldest dialect of slurmrestd that the pinned Slurm speaks. */
const SLURM_API = "v0.0.44";
const TOKEN_SECONDS = 60;
const ANSWER_MS = 20_000;
/** The user jobs are submitted as; slurmctld knows it (modules/cluster/slurm). */
const USER = "uplift";
const ENDED = new Set([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "TIMEOUT",
  "OUT_OF_MEMORY",
  "NODE_FAIL",
  "BOOT_FAIL",
  "DEADLINE",
]);

const Jobs = z.object({
  jobs: z.array(z.object({ job_id: z.number(), name: z.string(), job_state: z.array(z.string()) })),
  errors: z.array(z.object({ error: z.string().optional(), description: z.string().optional() })).default([]),
});

/** Looks at a cluster. */
export async function liveWork(config: KubeConfig): Promise<LiveWork> {
  const [jobs, endpoints] = await Promise.allSettled([slurmJobs(config), servedEndpoints(config)]);
  const why = [jobs, endpoints].flatMap((one) => (one.status === "rejected" ? [reasonOf(one.reason)] : []));
  return {
    jobs: jobs.status === "fulfilled" ? jobs.value : [],
    endpoints: endpoints.status === "fulfilled" ? endpoints.value : [],
    unknown: why.length > 0 ? why.join("; ") : null,
  };
}

/** Deployments of model servers that are not scaled to nothing. */
async function servedEndpoints(config: KubeConfig): Promise<string[]> {
  const labelSelector = Object.entries(OURS)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  const { items } = await config
    .makeApiClient(AppsV1Api)
    .listNamespacedDeployment({ namespace: NAMESPACES.serving, labelSelector });
  return items.filter(({ spec }) => spec?.replicas !== 0).map(({ metadata }) => metadata?.name ?? "?");
}

/** Jobs that Slurm has not ended. None where there is no Slurm of ours. */
async function slurmJobs(config: KubeConfig): Promise<string[]> {
  const api = config.makeApiClient(CustomObjectsApi);
  const of = { group: "slinky.slurm.net", version: "v1beta1", namespace: NAMESPACES.slurm, plural: "restapis" };
  const found: unknown = await api.listNamespacedCustomObject(of).catch((error: unknown) => {
    // Without Slinky's kinds no Slurm of ours was ever made.
    if (error instanceof ApiException && error.code === 404) return { items: [] };
    throw error;
  });
  const restApi = z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string() }) })) }).parse(found)
    .items[0];
  if (restApi === undefined) return [];
  const core = config.makeApiClient(CoreV1Api);
  const secret = await core.readNamespacedSecret({ namespace: NAMESPACES.slurm, name: "slurm-auth-jwt" });
  const key = Buffer.from(secret.data?.["jwt.key"] ?? "", "base64");
  const answer = await throughProxy(config, `${restApi.metadata.name}-restapi:6820`, `slurm/${SLURM_API}/jobs/`, {
    "X-SLURM-USER-NAME": USER,
    "X-SLURM-USER-TOKEN": slurmToken(key, USER, Math.floor(Date.now() / 1000)),
  });
  const { jobs, errors } = Jobs.parse(answer);
  // slurmrestd answers 200 and says what went wrong in the body.
  if (errors.length > 0) throw new Error(errors.map(({ error, description }) => error ?? description).join("; "));
  return jobs
    .filter(({ job_state }) => !job_state.some((state) => ENDED.has(state)))
    .map(({ job_id, name, job_state }) => `${name} (job ${job_id}, ${job_state.join(" ")})`);
}

/** GET on a Service through the API server, which needs no port-forward. The client's own call escapes the path's slashes. */
async function throughProxy(
  config: KubeConfig,
  service: string,
  path: string,
  headers: Record<string, string>,
): Promise<unknown> {
  const place = `/api/v1/namespaces/${NAMESPACES.slurm}/services/${service}/proxy/${path}`;
  const url = new URL(`${config.getCurrentCluster()?.server}${place}`);
  const options: RequestOptions = { headers, timeout: ANSWER_MS };
  await config.applyToHTTPSOptions(options);
  const request = (url.protocol === "http:" ? http : https).request(url, options);
  request.once("timeout", () => request.destroy(new Error(`${service} did not answer within ${ANSWER_MS / 1000} s`)));
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const body = await text(response);
  if (response.statusCode === 200) return JSON.parse(body);
  throw new Error(
    response.statusCode === 503 ? "Slurm's REST API does not run" : `Slurm's REST API answered ${response.statusCode}`,
  );
}

/** A token for slurmrestd: HS256 over the raw key, `sun` the user. */
export function slurmToken(key: Buffer, user: string, nowSeconds: number): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { sun: user, iat: nowSeconds, exp: nowSeconds + TOKEN_SECONDS };
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${signed}.${createHmac("sha256", key).update(signed).digest("base64url")}`;
}

function reasonOf(error: unknown): string {
  return error instanceof ApiException
    ? `Kubernetes answered ${error.code}`
    : error instanceof Error
      ? error.message
      : String(error);
}
