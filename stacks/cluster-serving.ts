/**
 * Pulumi program of one endpoint on a cluster: its spec → a Secret with a key of its own, and the objects of modules/serving.
 * Exports `endpoint` (ClusterEndpointSpec). With `wait` it is done when the endpoint can answer; a start that fails says why.
 */
import { Provider } from "@pulumi/kubernetes/provider.js";
import * as pulumi from "@pulumi/pulumi";
import { ManifestGroup, RandomSecret, SecretObject } from "../modules/cluster/apply/component.ts";
import { platformOf, poolsOf } from "../modules/cluster/index.ts";
import { API_KEY_BYTES, apiKeyOf, endpointManifests, readyDeadlineSeconds } from "../modules/serving/index.ts";
import type { ClusterEndpointSpec } from "../schemas/endpoint.ts";
import type { Manifest } from "../schemas/manifest.ts";
import type { ClusterTarget, PlatformTarget } from "../schemas/target.ts";

/** What an endpoint's stack is made from. */
export interface ClusterServingArgs {
  readonly spec: ClusterEndpointSpec;
  readonly target: ClusterTarget;
  /** Whether `up` returns only when the endpoint is ready. */
  readonly wait: boolean;
}

/** Pulumi gives up a little after Kubernetes, whose word for it says more. */
const AFTER_KUBERNETES_SECONDS = 60;

/** The program of one endpoint. */
export function clusterServingStack({ spec, target, wait }: ClusterServingArgs) {
  return async () => {
    platformOf(target);
    const around = target as PlatformTarget;
    const { serving, training } = poolsOf(target, []);
    const provider = new Provider("cluster", accessOf(target));
    const { namespace, name, key } = apiKeyOf(spec.name);
    const apiKey = new RandomSecret("api-key", { bytes: API_KEY_BYTES, encoding: "base64url" });
    const secret = new SecretObject(
      `secret ${namespace}/${name}`,
      { namespace, secretName: name, provider, entries: { [key]: apiKey.value } },
      // Its name in states of before.
      { aliases: [{ name: "secret" }] },
    );
    new ManifestGroup(spec.name, {
      manifests: endpointManifests(spec, { target: around, pool: serving ?? training }).map((manifest) =>
        awaited(manifest, spec, wait),
      ),
      ...{ provider, after: [secret] },
    });
    return { endpoint: spec };
  };
}

/** How Pulumi is to treat the Deployment; other objects are there at once. */
function awaited(manifest: Manifest, spec: ClusterEndpointSpec, wait: boolean): Manifest {
  if (manifest.kind !== "Deployment") return manifest;
  const { metadata } = manifest;
  const annotations = {
    ...metadata.annotations,
    "pulumi.com/timeoutSeconds": String(readyDeadlineSeconds(spec) + AFTER_KUBERNETES_SECONDS),
    // The guard owns spec.replicas once it has ended the endpoint; serving it again takes that back.
    "pulumi.com/patchForce": "true",
    ...(wait ? {} : { "pulumi.com/skipAwait": "true" }),
  };
  return { ...manifest, metadata: { ...metadata, annotations } };
}

/** The cluster's API: a context of the kubeconfig, or on AWS what the platform's stack says. */
function accessOf(target: ClusterTarget): { context: string } | { kubeconfig: pulumi.Output<string> } {
  if (target.kind === "kubernetes") return { context: target.kubeContext };
  const platform = new pulumi.StackReference(`organization/${pulumi.getProject()}/${target.name}`);
  return { kubeconfig: platform.requireOutput("kubeconfig").apply(String) };
}
