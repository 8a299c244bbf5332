/**
 * uplift serve | endpoints on a cluster: opens the target's engine and its Kubernetes API for the work of cluster-endpoints.ts,
 * and prints what came of it.
 */
import { UserError } from "../../../schemas/error.ts";
import type { ClusterStackOutputs } from "../../../schemas/stack.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { poolsOf } from "../../cluster/index.ts";
import { observeEndpoints, removeEndpointObjects } from "../../serving/index.ts";
import { endpointSpecOf } from "../cluster-endpoint-spec.ts";
import { endpointsText, kubectlAccess, servedText } from "../cluster-endpoint-text.ts";
import { ClusterEndpoints } from "../cluster-endpoints.ts";
import { openClusterEngine } from "../cluster-platform.ts";
import { kubeConfigOf } from "../kube-config.ts";
import { kubernetesSaid } from "../kube-error.ts";
import { readReviewedPlan } from "../reviewed-plan.ts";
import { print, printJson } from "./options.ts";
import { printProgress } from "./platform.ts";

/** Options of serve that a cluster uses. */
export interface ClusterServeOptions {
  readonly json: boolean;
  readonly plan?: string;
  readonly path?: string;
  readonly from?: string;
  readonly wait: boolean;
  /** Default: the target's endpointHours. */
  readonly hours: number | undefined;
}

/** Makes an endpoint, or gives one that is there a longer life. */
export async function serveOnCluster(
  target: ClusterTarget,
  reference: string,
  { json, plan: planFile, path, from, wait, hours = target.endpointHours }: ClusterServeOptions,
): Promise<void> {
  if (planFile === undefined) throw withoutPlan(target, reference);
  const plan = await readReviewedPlan(planFile);
  const { serving, training } = poolsOf(target, [plan]);
  const asked = { reference, plan, planFile, target, pool: serving ?? training, path, from, hours };
  const spec = endpointSpecOf({ ...asked, purpose: "uplift serve" }, new Date());
  const { endpoints, outputs } = await open(target, json);
  if (outputs === null) throw platformDown(target);
  const served = await endpoints.serve(spec, { wait });
  const { spec: made, ...rest } = served;
  if (json) printJson({ ...made, ...rest });
  else print(servedText(served, kubectlAccess(target, outputs), new Date()));
}

/** Prints every endpoint of the stacks and of the cluster. */
export async function listOnCluster(target: ClusterTarget, json: boolean): Promise<void> {
  const all = await (await open(target, json)).endpoints.list();
  if (json) printJson(all);
  else print(endpointsText(all, new Date()));
}

/** Ends one. */
export async function removeOnCluster(target: ClusterTarget, name: string, json: boolean): Promise<void> {
  await (await open(target, json)).endpoints.remove(name);
  if (json) printJson({ removed: name });
  else print(`${name} is gone`);
}

/** Ends all whose time is over. */
export async function pruneOnCluster(target: ClusterTarget, json: boolean): Promise<void> {
  const removed = await (await open(target, json)).endpoints.prune();
  if (json) printJson({ removed });
  else print(removed.length > 0 ? `Ended: ${removed.join(", ")}` : "No endpoint's time is over.");
}

async function open(
  target: ClusterTarget,
  json: boolean,
): Promise<{ endpoints: ClusterEndpoints; outputs: ClusterStackOutputs | null }> {
  const engine = await openClusterEngine(target, json ? undefined : printProgress);
  const outputs = await engine.readOutputs();
  const config = kubeConfigOf(target, outputs);
  if (config === null) throw platformDown(target);
  const named = (error: unknown) => Promise.reject(apiFailed(target, error));
  const view = {
    observe: (now: Date) => observeEndpoints(config, now).catch(named),
    remove: (name: string) => removeEndpointObjects(config, name).catch(named),
  };
  return { endpoints: new ClusterEndpoints({ engine, view, now: () => new Date() }), outputs };
}

function platformDown({ name }: ClusterTarget): UserError {
  return new UserError({
    ...{ code: "platform-down", path: name, asked: "endpoints of the target's cluster", found: "it is not up" },
    ...{ allowed: "a target whose platform is up", todo: `uplift up RECIPE --target ${name}` },
  });
}

/** The cluster's API away, or unwilling: no defect of ours. */
function apiFailed({ name }: ClusterTarget, error: unknown): UserError {
  return new UserError({
    ...{ code: "kubernetes-unreachable", path: name, asked: "the Kubernetes API of the target's cluster is asked" },
    found: kubernetesSaid(error),
    allowed: "a cluster that answers, and a user who may read and change Deployments in uplift-serving",
    todo: "try `kubectl get deployments --namespace uplift-serving` with the same context",
  });
}

function withoutPlan({ name, kind }: ClusterTarget, reference: string): UserError {
  return new UserError({
    ...{
      code: "serve-without-plan",
      path: "--plan",
      asked: `${reference} is to be served on the ${kind} target ${name}`,
    },
    found: "no plan says with which settings, on how many GPUs, from which image",
    allowed: "the plan.json of a recipe for this target",
    todo: `uplift plan RECIPE --target ${name} --out FOLDER, then uplift serve ${reference} --plan FOLDER/plan.json`,
  });
}
