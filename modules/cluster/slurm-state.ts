/**
 * Slurm's state: a cluster → which of Slurm's pods are not ready, and how many workers are. One look, no waiting: Pulumi is done when
 * Slinky's objects are there, and their operator makes the pods afterwards. Speaks to Kubernetes only.
 */
import { CoreV1Api, CustomObjectsApi, type KubeConfig, type V1Pod } from "@kubernetes/client-node";
import { z } from "zod";
import { NAMESPACES } from "../../schemas/manifest.ts";
import type { Pricing } from "../../schemas/pricing.ts";
import { APP, CONTROLLER_POD, INSTANCE, SLINKY } from "./slurm/names.ts";

/** What one look finds. */
export interface SlurmState {
  /** Services that are not ready: "no pod slurm-controller-0", "slurm-login-7d4f: ImagePullBackOff". */
  readonly notReady: string[];
  /** By NodeSet. */
  readonly workers: { readonly name: string; readonly ready: number; readonly wanted: number }[];
}

/** The operator's label of each service's pods, and how their names begin. */
const SERVICES = {
  slurmctld: `pod ${CONTROLLER_POD}`,
  slurmdbd: "pod slurm-accounting-0",
  slurmrestd: "pod of slurm-restapi",
  login: "pod of slurm-login",
} as const;
const WORKER = "slurmd";

const NodeSets = z.object({
  items: z.array(z.object({ metadata: z.object({ name: z.string() }), spec: z.object({ replicas: z.number() }) })),
});

/** Looks once. */
export async function slurmState(config: KubeConfig): Promise<SlurmState> {
  const namespace = NAMESPACES.slurm;
  const of = { ...SLINKY, namespace, plural: "nodesets" };
  const labelSelector = `${APP} in (${[...Object.keys(SERVICES), WORKER].join(",")})`;
  const [{ items: pods }, found] = await Promise.all([
    config.makeApiClient(CoreV1Api).listNamespacedPod({ namespace, labelSelector }),
    config.makeApiClient(CustomObjectsApi).listNamespacedCustomObject(of),
  ]);
  const labelled = (label: string, value: string) => pods.filter(({ metadata }) => metadata?.labels?.[label] === value);
  return {
    notReady: Object.entries(SERVICES).flatMap(([app, what]) => {
      const own = labelled(APP, app);
      if (own.some(isReady)) return [];
      return own.length === 0
        ? [`no ${what}`]
        : own.slice(0, 1).map((pod) => `${pod.metadata?.name}: ${whyNotReady(pod)}`);
    }),
    workers: NodeSets.parse(found).items.map(({ metadata: { name }, spec }) => ({
      name,
      ready: labelled(APP, WORKER).filter((pod) => pod.metadata?.labels?.[INSTANCE] === name && isReady(pod)).length,
      wanted: spec.replicas,
    })),
  };
}

/** The same as a line. `pricing`: of the workers' nodes, which in a capacity block come when it begins. */
export function slurmText(
  { notReady, workers }: SlurmState,
  { pricing, kubectl, now }: { readonly pricing: Pricing; readonly kubectl: string; readonly now: Date },
): string {
  const [ready, wanted] = [sum(workers.map((one) => one.ready)), sum(workers.map((one) => one.wanted))];
  const begins = pricing.kind === "capacity-block" && new Date(pricing.startsAt) > now ? pricing.startsAt : null;
  const block = ready < wanted && begins !== null ? `; their capacity block begins at ${begins}` : "";
  const look = notReady.length > 0 || (ready < wanted && block === "") ? ` (${kubectl} get pods)` : "";
  if (notReady.length === 0) return `up, ${ready} of ${wanted} workers ready${block}${look}`;
  return `not up yet: ${notReady.join(", ")}; ${ready} of ${wanted} workers${block}${look}`;
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);

function isReady({ metadata, status }: V1Pod): boolean {
  const ready = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True") ?? false;
  return ready && metadata?.deletionTimestamp === undefined;
}

/** The first container's reason to wait, that of a pod without a node, or how far it is. */
function whyNotReady({ metadata, status }: V1Pod): string {
  if (metadata?.deletionTimestamp !== undefined) return "ends";
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const waiting = containers.flatMap(({ state }) => state?.waiting?.reason ?? [])[0];
  const unplaced = status?.conditions?.find((one) => one.type === "PodScheduled" && one.status === "False")?.reason;
  return waiting ?? unplaced ?? `${status?.phase ?? "Pending"}, not ready`;
}
