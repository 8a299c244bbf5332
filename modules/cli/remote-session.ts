/**
 * Remote session: a target's name → its controller, wherever it runs, as the commands about runs speak to it. On one machine its
 * address is known; of a cluster it is, in this order:
 *
 *   UPLIFT_CONTROLLER_URL and UPLIFT_CONTROLLER_TOKEN   what they say: nothing else of the cluster is needed
 *   the target's platform.web with a login by token     https://HOST, with UPLIFT_CONTROLLER_TOKEN or the token of the cluster's Secret
 *   a port-forward through the Kubernetes API           to the controller's pod, with the token of the Secret
 *
 * Reads the environment and the kubeconfig; changes nothing in the cluster.
 */
import { resolve } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import { UserError } from "../../schemas/error.ts";
import { NAMESPACES } from "../../schemas/manifest.ts";
import type { ClusterStackOutputs } from "../../schemas/stack.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import type { StackProgress } from "../../stacks/engine.ts";
import { clusterHome } from "../../stacks/home.ts";
import { kubectlAccess } from "./cluster-endpoint-text.ts";
import type { Route } from "./controller-answer.ts";
import { ControllerClient } from "./controller-client.ts";
import { loadTarget, PROJECT_DIR } from "./project.ts";
import { exists } from "./recipe-file.ts";
import { remoteStore, type SubmissionStore } from "./remote-store.ts";
import { type LiveSession, live, openSession } from "./session.ts";

/** A controller that can be asked. */
export interface Connection {
  /** The target as it was named, for the commands that a message names. */
  readonly targetName: string;
  readonly client: ControllerClient;
  readonly store: SubmissionStore;
  /** Where a person sees the dashboard. */
  readonly dashboard: string;
  close(): Promise<void>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Does something with a target's controller, and ends the connection. UserError `platform-down` where the platform is not up. */
export async function connected<Result>(
  targetName: string,
  work: (connection: Connection) => Promise<Result>,
  progress?: (event: StackProgress) => void,
): Promise<Result> {
  const target = await loadTarget(targetName);
  const connection =
    target.kind === "local"
      ? localConnection(targetName, await live(await openSession(targetName, progress)))
      : await connectCluster(targetName, target, process.env, progress);
  return withConnection(connection, work);
}

/** Does something with a connection, and ends it. */
export async function withConnection<Result>(
  connection: Connection,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}

/** The controller of one machine, whose platform is up. */
export function localConnection(targetName: string, { client, store, outputs }: LiveSession): Connection {
  return { targetName, client, store, dashboard: outputs.controllerUrl, close: async () => undefined };
}

/** The controller of a cluster. */
export async function connectCluster(
  targetName: string,
  target: ClusterTarget,
  environment: Environment,
  progress?: (event: StackProgress) => void,
): Promise<Connection> {
  const { UPLIFT_CONTROLLER_URL: named, UPLIFT_CONTROLLER_TOKEN: given } = environment;
  const at = (url: string, route: Route, token: string | undefined, dashboard: string, close = async () => {}) => {
    const client = new ControllerClient(url, undefined, token ?? null, route);
    return { targetName, client, store: remoteStore(client), dashboard, close };
  };
  if (named) return at(address(named), { kind: "address", source: "UPLIFT_CONTROLLER_URL" }, given, named);
  const { web } = target.platform ?? {};
  if (web?.login.kind === "token") {
    const url = `https://${web.host}`;
    const route: Route = { kind: "address", source: `platform.web of the target ${target.name}` };
    return at(url, route, given || (await tokenIn(target, await apiOf(target, progress))), url);
  }
  const config = await apiOf(target, progress);
  const token = given || (await tokenIn(target, config));
  const { forwardPort } = await import("./port-forward.ts");
  const { CONTROLLER, CONTROLLER_PORT, selectorOf } = await import("../leaderboard/deployment/pods.ts");
  const to = { namespace: NAMESPACES.platform, selector: selectorOf(CONTROLLER), port: CONTROLLER_PORT };
  const forward = await forwardPort(config, to).catch((error: unknown) => failed(target, error));
  if (forward === null) throw down(target, "no pod of its controller is ready");
  const { context } = kubectlAccess(target, null);
  const kubectl = `kubectl --context ${context} -n ${NAMESPACES.platform}`;
  const command = `${kubectl} port-forward service/${CONTROLLER} ${CONTROLLER_PORT}`;
  const dashboard = web ? `https://${web.host}` : `http://127.0.0.1:${CONTROLLER_PORT} after: ${command}`;
  return at(forward.url, { kind: "tunnel", targetName, kubectl, last: forward.last }, token, dashboard, forward.close);
}

function address(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return text;
  // A password is not shown, and would not be sent.
  const found = url?.username || url?.password ? "it has a user or a password in it" : `it is "${text}"`;
  throw new UserError({
    ...{ code: "controller-url-invalid", path: "UPLIFT_CONTROLLER_URL", asked: "the controller's address is read" },
    found,
    allowed: "http://HOST:PORT or https://HOST, without a path",
    todo: "correct it, or unset it: without it the controller is found through the Kubernetes API",
  });
}

/** The target's Kubernetes API. An AWS target's is in what its stack has put out; a cluster of one's own has a kubeconfig. */
async function apiOf(target: ClusterTarget, progress?: (event: StackProgress) => void): Promise<KubeConfig> {
  const { kubeConfigOf } = await import("./kube-config.ts");
  const config = kubeConfigOf(target, target.kind === "aws" ? await outputsHere(target, progress) : null);
  if (config) return config;
  throw down(target, "this machine's Pulumi state has no platform of it");
}

/** What the platform's stack has put out, where this machine has its state or the target says where that is; else null. */
async function outputsHere(
  target: ClusterTarget,
  progress?: (event: StackProgress) => void,
): Promise<ClusterStackOutputs | null> {
  const isHere = target.platform?.stateUrl !== undefined || (await exists(resolve(PROJECT_DIR, clusterHome(target))));
  if (!isHere) return null;
  const { openClusterEngine } = await import("./cluster-platform.ts");
  return (await openClusterEngine(target, progress)).readOutputs();
}

/**
 * The same for checks before something is sent, or null where this machine cannot read it: then the controller, which checks
 * again, is asked at once, and a cluster that nothing here reaches is told of by whatever needs it.
 */
export async function outputsIfReadable(
  target: ClusterTarget,
  environment: Environment,
): Promise<ClusterStackOutputs | null> {
  return environment.UPLIFT_CONTROLLER_URL ? null : outputsHere(target).catch(() => null);
}

/** The token of the web login. */
async function tokenIn(target: ClusterTarget, config: KubeConfig): Promise<string> {
  const { CoreV1Api } = await import("@kubernetes/client-node");
  const secret = await config
    .makeApiClient(CoreV1Api)
    .readNamespacedSecret({ name: "web-token", namespace: NAMESPACES.platform })
    .catch((error: unknown) => failed(target, error));
  return Buffer.from(secret.data?.token ?? "", "base64").toString("utf8");
}

/** What the Kubernetes API's refusal, or its silence, means here. */
async function failed(target: ClusterTarget, error: unknown): Promise<never> {
  const { ApiException } = await import("@kubernetes/client-node");
  const status = error instanceof ApiException ? error.code : null;
  if (status === 404) throw down(target, "its cluster has no Secret web-token in the namespace uplift");
  const { kubernetesSaid } = await import("./kube-error.ts");
  throw new UserError({
    ...{
      code: "kubernetes-unreachable",
      path: target.name,
      asked: "the Kubernetes API of the target's cluster is asked",
    },
    found: kubernetesSaid(error),
    allowed:
      "a cluster that answers, and a user who may read the Secret uplift/web-token and forward a port of its pods",
    todo: "ask the platform's owner for UPLIFT_CONTROLLER_URL and UPLIFT_CONTROLLER_TOKEN, or check the context and your rights",
  });
}

function down({ name }: ClusterTarget, found: string): UserError {
  return new UserError({
    ...{ code: "platform-down", path: name, asked: "the controller of the target's platform", found },
    allowed: "a target whose platform is up, or UPLIFT_CONTROLLER_URL and UPLIFT_CONTROLLER_TOKEN of one that is",
    todo: `uplift up RECIPE --target ${name}`,
  });
}
