/**
 * Live work: a cluster → the jobs, attempts and endpoints that run on it now, or why that cannot be told. Asked before anything is
 * destroyed or made smaller. Speaks to Kubernetes only: Slurm is asked by `squeue` inside slurmctld's pod, whose way leads
 * through the kubelet. Its REST API is closed to the API server by our own network policy.
 */
import { Writable } from "node:stream";
import {
  ApiException,
  AppsV1Api,
  CoreV1Api,
  CustomObjectsApi,
  Exec,
  type KubeConfig,
  type V1Status,
} from "@kubernetes/client-node";
import { z } from "zod";
import { ATTEMPT, NAMESPACES, NO_ATTEMPT, OURS } from "../../schemas/manifest.ts";
import { CONTROLLER_POD, SLINKY } from "./slurm/names.ts";

/** What is under way. */
export interface LiveWork {
  /** "sft github-sft-rl (job 17, RUNNING)". */
  readonly jobs: string[];
  readonly endpoints: string[];
  /** Attempts at tasks that have a sandbox: all that is seen of a run that only collects, which needs neither of both. */
  readonly attempts: number;
  /** Why one of them is not known; null where all are. */
  readonly unknown: string | null;
}

/** Longest that squeue may take. */
const ANSWER_MS = 20_000;
/** Where squeue is. */
const SLURMCTLD = { pod: CONTROLLER_POD, container: "slurmctld" } as const;
/** Id, name and state of every job that Slurm has not ended. */
const SQUEUE = ["squeue", "--all", "--noheader", "--format=%i|%T|%j"];

/** Looks at a cluster. */
export async function liveWork(
  config: KubeConfig,
  run: (config: KubeConfig, command: string[]) => Promise<string> = runInSlurmctld,
): Promise<LiveWork> {
  const [jobs, endpoints, attempts] = await Promise.allSettled([
    slurmJobs(config, run),
    servedEndpoints(config),
    liveAttempts(config),
  ]);
  const why = [jobs, endpoints, attempts].flatMap((one) => (one.status === "rejected" ? [reasonOf(one.reason)] : []));
  return {
    jobs: jobs.status === "fulfilled" ? jobs.value : [],
    endpoints: endpoints.status === "fulfilled" ? endpoints.value : [],
    attempts: attempts.status === "fulfilled" ? attempts.value : 0,
    // An API that does not answer fails all for one cause.
    unknown: why.length > 0 ? [...new Set(why)].join("; ") : null,
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

/** Attempts by their sandboxes' pods. One may have two: it is acted in the first and graded in the second. */
async function liveAttempts(config: KubeConfig): Promise<number> {
  const { items } = await config.makeApiClient(CoreV1Api).listNamespacedPod({ namespace: NAMESPACES.sandboxes });
  const live = items.filter(
    ({ metadata, status }) => !metadata?.deletionTimestamp && !["Succeeded", "Failed"].includes(status?.phase ?? ""),
  );
  const ids = new Set(live.map(({ metadata }) => metadata?.annotations?.[ATTEMPT] ?? NO_ATTEMPT));
  ids.delete(NO_ATTEMPT);
  return ids.size;
}

/** Jobs that Slurm has not ended. None where there is no Slurm of ours. */
async function slurmJobs(
  config: KubeConfig,
  run: (config: KubeConfig, command: string[]) => Promise<string>,
): Promise<string[]> {
  const api = config.makeApiClient(CustomObjectsApi);
  const of = { ...SLINKY, namespace: NAMESPACES.slurm, plural: "controllers" };
  const found: unknown = await api.listNamespacedCustomObject(of).catch((error: unknown) => {
    // Without Slinky's kinds no Slurm of ours was ever made.
    if (error instanceof ApiException && error.code === 404) return { items: [] };
    throw error;
  });
  if (z.object({ items: z.array(z.unknown()) }).parse(found).items.length === 0) return [];
  const lines = (await run(config, SQUEUE)).split("\n").filter((line) => line.trim() !== "");
  return lines.map((line) => {
    const [id, state, ...name] = line.trim().split("|");
    return `${name.join("|")} (job ${id}, ${state})`;
  });
}

/** A command's output in slurmctld's pod. */
async function runInSlurmctld(config: KubeConfig, command: string[]): Promise<string> {
  const { pod, container } = SLURMCTLD;
  const texts = { out: "", error: "" };
  const into = (key: keyof typeof texts) =>
    new Writable({
      write(chunk, _encoding, done) {
        texts[key] += chunk;
        done();
      },
    });
  const ended = new Promise<V1Status>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${pod} did not answer within ${ANSWER_MS / 1000} s`)), ANSWER_MS);
    new Exec(config)
      .exec(NAMESPACES.slurm, pod, container, command, into("out"), into("error"), null, false, (status) => {
        clearTimeout(timer);
        resolve(status);
      })
      .catch((error: unknown) => {
        clearTimeout(timer);
        const why = reasonOf(error);
        reject(
          new Error(`slurmctld (pod ${pod}) cannot be asked: ${why.endsWith(" 404") ? "there is no such pod" : why}`),
        );
      });
  });
  const { status, message } = await ended;
  if (status !== "Success") throw new Error(`squeue in ${pod} failed: ${texts.error.trim() || message}`);
  return texts.out;
}

function reasonOf(error: unknown): string {
  if (error instanceof ApiException) return `Kubernetes answered ${error.code}`;
  // A WebSocket that was refused gives an event, not an Error.
  const said = z.looseObject({ message: z.string() }).safeParse(error).data?.message ?? String(error);
  // Which request it was says nothing of why.
  return said.replace(/^request to (https?:\/\/[^/]+)\S* failed, reason: /, "$1 does not answer: ");
}
