/**
 * Cluster apply: an endpoint's objects and its key → the Kubernetes API, without a stack: server-side apply, so that doing it
 * again, also half way, changes nothing that is right. Takes manifests as endpointManifests makes them; writes the namespace
 * uplift-serving.
 */
import { randomBytes } from "node:crypto";
import {
  ApiException,
  CoreV1Api,
  CustomObjectsApi,
  type KubeConfig,
  PatchStrategy,
  setHeaderOptions,
} from "@kubernetes/client-node";
import { type Manifest, NAMESPACES } from "../../schemas/manifest.ts";
import { API_KEY_BYTES, apiKeyOf, serverLabels } from "./cluster-names.ts";

/** Owner of the fields that the controller sets. */
const FIELD_MANAGER = "uplift-controller";

const namespace = NAMESPACES.serving;

/** Makes an endpoint's objects what these manifests say; of its fields that others changed (the guard's replicas) too. */
export async function applyEndpoint(config: KubeConfig, manifests: readonly Manifest[]): Promise<void> {
  // What guards its end before what holds GPUs: killed in between, nothing is left that never ends.
  const isServer = ({ kind }: Manifest) => kind === "Deployment";
  for (const manifest of [...manifests].sort((a, b) => Number(isServer(a)) - Number(isServer(b))))
    await applyOne(config, manifest);
}

/**
 * The bodies go through methods that take them as they are. KubernetesObjectApi would put them through the client's classes,
 * which know a network policy's `from` as `_from`: the rule would lose it, and let everybody in.
 */
async function applyOne(config: KubeConfig, body: Manifest): Promise<void> {
  const options = setHeaderOptions("Content-Type", PatchStrategy.ServerSideApply);
  const named = { namespace, name: body.metadata.name, body, fieldManager: FIELD_MANAGER, force: true };
  const core = config.makeApiClient(CoreV1Api);
  switch (body.kind) {
    case "Service":
      await core.patchNamespacedService(named, options);
      return;
    case "ServiceAccount":
      await core.patchNamespacedServiceAccount(named, options);
      return;
  }
  const [group = "", version = ""] = body.apiVersion.split("/");
  const plural = body.kind === "NetworkPolicy" ? "networkpolicies" : `${body.kind.toLowerCase()}s`;
  await config
    .makeApiClient(CustomObjectsApi)
    .patchNamespacedCustomObject({ ...named, group, version, plural }, options);
}

/** The key of an endpoint, made on first use and kept: a server that runs asks for the one it started with. */
export async function ensureApiKeySecret(config: KubeConfig, endpoint: string): Promise<string> {
  const core = config.makeApiClient(CoreV1Api);
  const { name, key } = apiKeyOf(endpoint);
  const made = randomBytes(API_KEY_BYTES).toString("base64url");
  const metadata = { name, namespace, labels: serverLabels(endpoint) };
  try {
    await core.createNamespacedSecret({ namespace, body: { metadata, stringData: { [key]: made } } });
    return made;
  } catch (error) {
    if (!(error instanceof ApiException && error.code === 409)) throw error;
  }
  const { data } = await core.readNamespacedSecret({ namespace, name });
  const kept = data?.[key];
  if (kept === undefined) throw new Error(`the Secret ${namespace}/${name} is there without its entry ${key}`);
  return Buffer.from(kept, "base64").toString();
}
