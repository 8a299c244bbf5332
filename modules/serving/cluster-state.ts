/**
 * Cluster state: a cluster's Kubernetes API → the endpoints that are there, whoever made them, each with its state and why;
 * and the removal of one that has no stack. Reads Deployments, pods and events of the namespace uplift-serving.
 */
import {
  ApiException,
  AppsV1Api,
  BatchV1Api,
  CoreV1Api,
  type CoreV1Event,
  CustomObjectsApi,
  type KubeConfig,
  NetworkingV1Api,
  RbacAuthorizationV1Api,
  type V1ContainerStateTerminated,
  type V1ContainerStatus,
  type V1Deployment,
  type V1Pod,
} from "@kubernetes/client-node";
import { type ClusterEndpoint, ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { NAMESPACES } from "../../schemas/manifest.ts";
import { ANNOTATIONS, apiKeyOf, ENDPOINT_LABEL, SERVER_SELECTOR } from "./cluster-names.ts";
import { CANNOT_RUN, FETCH_CONTAINER } from "./cluster-weights.ts";

/** An endpoint as the cluster has it now. */
export interface ObservedEndpoint {
  readonly name: string;
  /** Null where this version cannot read what it was made from. */
  readonly spec: ClusterEndpointSpec | null;
  /** Null where no end is written down: the guard in the cluster takes that for over. */
  readonly expiresAt: string | null;
  readonly purpose: string | null;
  readonly maker: ClusterEndpointSpec["maker"];
  readonly state: ClusterEndpoint["state"];
  /** Why it is not ready, or what is wrong with it, a sentence each. */
  readonly reasons: string[];
  /** GPUs of nodes that its pods hold. */
  readonly gpusHeld: number;
}

const namespace = NAMESPACES.serving;

/** Every endpoint of a cluster by name; none where the namespace is not there. */
export async function observeEndpoints(config: KubeConfig, now: Date): Promise<ObservedEndpoint[]> {
  const core = config.makeApiClient(CoreV1Api);
  const [deployments, pods, events] = await Promise.all([
    config.makeApiClient(AppsV1Api).listNamespacedDeployment({ namespace, labelSelector: SERVER_SELECTOR }),
    core.listNamespacedPod({ namespace, labelSelector: SERVER_SELECTOR }),
    core.listNamespacedEvent({ namespace, fieldSelector: "involvedObject.kind=Pod,type=Warning" }),
  ]);
  return deployments.items
    .map((deployment) => {
      const name = deployment.metadata?.name;
      const own = pods.items.filter(({ metadata }) => metadata?.labels?.[ENDPOINT_LABEL] === name);
      return observed(deployment, own, events.items, now);
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function observed(deployment: V1Deployment, pods: V1Pod[], events: CoreV1Event[], now: Date): ObservedEndpoint {
  const { name = "?", annotations = {} } = deployment.metadata ?? {};
  const expiresAt = annotations[ANNOTATIONS.expiresAt] ?? null;
  const gpusHeld = pods.map(gpusOf).reduce((sum, gpus) => sum + gpus, 0);
  return {
    ...{ name, spec: specOf(annotations[ANNOTATIONS.spec]), expiresAt, gpusHeld },
    purpose: annotations[ANNOTATIONS.purpose] ?? null,
    maker: annotations[ANNOTATIONS.maker] === "controller" ? "controller" : "stack",
    ...judged(deployment, pods, events, { over: !(now.getTime() < Date.parse(expiresAt ?? "")), gpusHeld }),
  };
}

function specOf(text: string | undefined): ClusterEndpointSpec | null {
  try {
    return ClusterEndpointSpec.safeParse(JSON.parse(text ?? "")).data ?? null;
  } catch {
    return null;
  }
}

function judged(
  { metadata, spec, status }: V1Deployment,
  pods: V1Pod[],
  events: CoreV1Event[],
  { over, gpusHeld }: { over: boolean; gpusHeld: number },
): Pick<ObservedEndpoint, "state" | "reasons"> {
  if (over) return { state: "expired", reasons: gpusHeld > 0 ? [`its pods still hold ${gpusHeld} GPUs`] : [] };
  if (spec?.replicas === 0) return { state: "failed", reasons: ["it was scaled to 0 before its end"] };
  const isCurrent = (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0);
  if (isCurrent && (status?.availableReplicas ?? 0) > 0) return { state: "ready", reasons: [] };

  // One that is older than its Deployment is of an endpoint of this name that was ended a moment ago.
  const born = metadata?.creationTimestamp?.getTime() ?? 0;
  const current = pods.filter(
    (pod) =>
      !hasEnded(pod) &&
      pod.metadata?.deletionTimestamp === undefined &&
      (pod.metadata?.creationTimestamp?.getTime() ?? born) >= born,
  );
  const condition = (type: string) => status?.conditions?.find((one) => one.type === type);
  const refused = condition("ReplicaFailure");
  const faults = [
    ...(refused?.status === "True" ? [`its pod cannot be made: ${refused.message}`] : []),
    ...current.flatMap(faultsOf),
  ];
  if (faults.length > 0) return { state: "failed", reasons: faults };
  const evicted = pods
    .filter(hasEnded)
    .map(({ status: of }) => `a pod before ended: ${of?.reason}: ${of?.message ?? ""}`);
  const waits = [...current.flatMap((pod) => waitsOf(pod, events)), ...evicted];
  const progressing = condition("Progressing");
  // What waits for a node or a volume goes on by itself, however late.
  if (waits.length === 0 && progressing?.status === "False")
    return { state: "failed", reasons: [`it was not ready in time: ${progressing.message}`] };
  return { state: "starting", reasons: waits };
}

/** Evicted, for example; Kubernetes keeps such pods, and makes another. */
function hasEnded({ status }: Pick<V1Pod, "status">): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** What ends a container for good, or again and again. */
function faultsOf({ status }: V1Pod): string[] {
  return [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].flatMap((container) => {
    const { name, state, lastState, restartCount } = container;
    const ended = state?.terminated ?? lastState?.terminated;
    const said = lastLines(ended?.message);
    if (resumes(container)) return [];
    if (state?.waiting?.reason === "CrashLoopBackOff" || (state?.terminated?.exitCode ?? 0) !== 0)
      return [`${name} ended with status ${ended?.exitCode ?? "?"}${timesOf(restartCount)}${said}`];
    return isStuck(container) ? [`${name}: ${state?.waiting?.reason}: ${state?.waiting?.message ?? ""}`] : [];
  });
}

/** A fetch that broke off, by an outage of the bucket's or a kill, and starts again where it was. */
function resumes({ name, state, lastState }: V1ContainerStatus): boolean {
  const ended = state?.terminated ?? lastState?.terminated;
  return name === FETCH_CONTAINER && ended !== undefined && ended.exitCode !== CANNOT_RUN;
}

const PASSING = new Set(["ContainerCreating", "PodInitializing", "CrashLoopBackOff"]);
const isStuck = ({ state }: V1ContainerStatus) =>
  state?.waiting?.reason !== undefined && !PASSING.has(state.waiting.reason);

/** What a pod waits for that it may get yet. */
function waitsOf({ metadata, status }: V1Pod, events: CoreV1Event[]): string[] {
  const unscheduled = status?.conditions?.find(({ type, status: is }) => type === "PodScheduled" && is === "False");
  if (unscheduled) return [`no node for it yet: ${unscheduled.message ?? unscheduled.reason}`];
  const again = (name: string, { exitCode, message }: V1ContainerStateTerminated) =>
    `${name} starts again; before it ended with status ${exitCode}${lastLines(message)}`;
  const restarted = [
    ...(status?.initContainerStatuses ?? []).flatMap((one) => {
      const ended = one.ready ? undefined : (one.state?.terminated ?? one.lastState?.terminated);
      return ended && resumes(one) ? [again(one.name, ended)] : [];
    }),
    ...(status?.containerStatuses ?? []).flatMap(({ name, restartCount, lastState }) => {
      const before = lastState?.terminated;
      return restartCount > 0 && before ? [again(name, before)] : [];
    }),
  ];
  if (status?.phase === "Running") return restarted;
  const newest = new Map<string, string>();
  // Volumes that cannot be mounted are nowhere else.
  for (const { involvedObject, reason = "", message = "" } of events)
    if (involvedObject.name === metadata?.name && reason !== "FailedScheduling" && reason !== "BackOff")
      newest.set(reason, `${reason}: ${message}`);
  return [...restarted, ...newest.values()];
}

/** GPUs a pod holds; one that waits for a node, or has ended, holds none. */
function gpusOf({ spec, status }: V1Pod): number {
  if (spec?.nodeName === undefined || hasEnded({ status })) return 0;
  return spec.containers.reduce((sum, { resources }) => sum + Number(resources?.limits?.["nvidia.com/gpu"] ?? 0), 0);
}

const timesOf = (restarts: number) => (restarts > 1 ? `, ${restarts} times` : "");

/** The end of what a container wrote: the sentence of check-model, or the last lines of vLLM's trace. */
function lastLines(message: string | undefined): string {
  const lines = (message ?? "").split("\n").filter((line) => line.trim() !== "");
  return lines.length === 0 ? "" : `: ${lines.slice(-3).join(" | ").slice(-600)}`;
}

/**
 * Removes all objects of an endpoint that has no stack; what is gone already is fine. Its Deployment goes last: an endpoint is
 * found by it, so that a removal which is cut off half way is done again.
 */
export async function removeEndpointObjects(config: KubeConfig, name: string): Promise<void> {
  const own = { namespace, labelSelector: `${ENDPOINT_LABEL}=${name}`, propagationPolicy: "Background" };
  const [apps, batch, core, networking, rbac, custom] = [
    config.makeApiClient(AppsV1Api),
    config.makeApiClient(BatchV1Api),
    config.makeApiClient(CoreV1Api),
    config.makeApiClient(NetworkingV1Api),
    config.makeApiClient(RbacAuthorizationV1Api),
    config.makeApiClient(CustomObjectsApi),
  ];
  const monitors = { group: "monitoring.coreos.com", version: "v1", plural: "servicemonitors" };
  await orGone(custom.deleteCollectionNamespacedCustomObject({ ...monitors, ...own }));
  await core.deleteCollectionNamespacedService(own);
  await networking.deleteCollectionNamespacedNetworkPolicy(own);
  await orGone(core.deleteNamespacedSecret({ namespace, name: apiKeyOf(name).name }));
  await rbac.deleteCollectionNamespacedRoleBinding(own);
  await rbac.deleteCollectionNamespacedRole(own);
  await core.deleteCollectionNamespacedServiceAccount(own);
  await batch.deleteCollectionNamespacedCronJob(own);
  await apps.deleteCollectionNamespacedDeployment(own);
}

/** Not found: no such object, or no such kind on this cluster. */
async function orGone(request: Promise<unknown>): Promise<void> {
  await request.catch((error: unknown) => {
    if (!(error instanceof ApiException && error.code === 404)) throw error;
  });
}
