/**
 * Apply: Kubernetes objects as data → Pulumi resources. In: manifests of any module, the values that are late, a provider.
 * Out: resources in an order that never waits in vain. RandomSecret makes keys once and keeps them encrypted in the state.
 */
import * as pulumi from "@pulumi/pulumi";
import { labels, lateParts, type Manifest } from "../../../schemas/manifest.ts";

/** Of @pulumi/kubernetes in package.json: a resource made by token has to name its provider's version itself. */
const PROVIDER_VERSION = "4.34.2";

/**
 * Kinds by turn: a database is there before the migration, the migration is done before what uses the schema, and all
 * others come first. Slinky's webhook refuses a Controller whose ConfigMaps or accounting are not there yet, and workers want
 * their Controller. Of two kinds in one turn neither waits for the other.
 */
const TURNS: Readonly<Record<string, number>> = {
  ...{ StatefulSet: 1, Job: 2, Deployment: 3, CronJob: 3, Ingress: 3 },
  ...{ Accounting: 2, Controller: 3, RestApi: 4, LoginSet: 4, NodeSet: 4, Token: 4 },
};
const FIRST = 0;

export interface ManifestGroupArgs {
  readonly manifests: readonly Manifest[];
  /** Values of late("name") in the manifests. */
  readonly late?: Readonly<Record<string, pulumi.Input<string>>>;
  readonly provider: pulumi.ProviderResource;
  /** What has to be there first. A component's own `dependsOn` does not reach its children. */
  readonly after?: readonly pulumi.Resource[];
  /** Objects that hold data: `destroy` leaves them, and what they lie in, until it is told otherwise. Default: none. */
  readonly protect?: (manifest: Manifest) => boolean;
  /** Namespaces by name: all that an object with data waits for, so that nothing else is left with it. */
  readonly namespaces?: Readonly<Record<string, pulumi.Resource>>;
}

/** One part of the platform: its objects under one name in the preview. */
export class ManifestGroup extends pulumi.ComponentResource {
  readonly objects: pulumi.Resource[] = [];
  /** Its namespaces by name. */
  readonly namespaces: Record<string, pulumi.Resource> = {};

  constructor(name: string, args: ManifestGroupArgs, opts?: pulumi.ComponentResourceOptions) {
    super("uplift:cluster:Part", name, {}, opts);
    let before = args.after ?? [];
    const turnOf = ({ kind }: Manifest) => TURNS[kind] ?? FIRST;
    const turns = [...new Set(args.manifests.map(turnOf))].sort();
    for (const turn of turns) {
      const made = args.manifests
        .filter((manifest) => turnOf(manifest) === turn)
        .map((manifest) => this.object(manifest, args, before));
      before = [...before, ...made];
    }
    this.registerOutputs({});
  }

  private object(
    manifest: Manifest,
    { late = {}, provider, protect, namespaces = {} }: ManifestGroupArgs,
    dependsOn: readonly pulumi.Resource[],
  ) {
    const { metadata, apiVersion, kind } = manifest;
    const group = apiVersion.includes("/") ? apiVersion : `core/${apiVersion}`;
    const place = metadata.namespace === undefined ? "" : `${metadata.namespace}/`;
    const kept = protect?.(manifest) ?? false;
    const own = namespaces[metadata.namespace ?? ""];
    const object = new KubernetesObject(
      `kubernetes:${group}:${kind}`,
      `${kind} ${place}${metadata.name}`,
      withLate(manifest, late) as pulumi.Inputs,
      {
        ...{ parent: this, provider, version: PROVIDER_VERSION, protect: kept },
        dependsOn: kept ? (own ? [own] : []) : [...dependsOn],
      },
    );
    this.objects.push(object);
    if (kind === "Namespace") this.namespaces[metadata.name] = object;
    return object;
  }
}

/** Any kind of object: the provider is told by the token which one. */
class KubernetesObject extends pulumi.CustomResource {}

/** The same with every late value put in. */
export function withLate(value: unknown, late: Readonly<Record<string, pulumi.Input<string>>>): unknown {
  if (typeof value === "string") {
    const parts = lateParts(value);
    if (parts.length === 1) return value;
    return pulumi.concat(
      ...parts.map((part, index) => {
        if (index % 2 === 0) return part;
        const known = late[part];
        if (known === undefined) throw new TypeError(`nothing gives the late value "${part}"`);
        return known;
      }),
    );
  }
  if (Array.isArray(value)) return value.map((item) => withLate(item, late));
  if (value !== null && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withLate(item, late)]));
  return value;
}

export interface SecretObjectArgs {
  readonly namespace: string;
  readonly secretName: string;
  /** Values as text, or as base64 under `base64`. */
  readonly entries?: Readonly<Record<string, pulumi.Input<string>>>;
  readonly base64?: Readonly<Record<string, pulumi.Input<string>>>;
  readonly provider: pulumi.ProviderResource;
}

/** A Kubernetes Secret; encrypted in the state, never shown. */
export class SecretObject extends pulumi.CustomResource {
  constructor(name: string, args: SecretObjectArgs, opts?: pulumi.CustomResourceOptions) {
    const { namespace, secretName, entries = {}, base64 = {}, provider } = args;
    const encoded = Object.entries(entries).map(([key, value]) => [
      key,
      pulumi.output(value).apply((text) => Buffer.from(text).toString("base64")),
    ]);
    super(
      "kubernetes:core/v1:Secret",
      name,
      {
        apiVersion: "v1",
        kind: "Secret",
        type: "Opaque",
        metadata: { name: secretName, namespace, labels: labels(secretName) },
        // An empty one would differ from what the API gives back, at every preview.
        ...(encoded.length + Object.keys(base64).length > 0
          ? { data: pulumi.secret({ ...Object.fromEntries(encoded), ...base64 }) }
          : {}),
      },
      { ...opts, provider, version: PROVIDER_VERSION, additionalSecretOutputs: ["data", "stringData"] },
    );
  }
}

const randomness: pulumi.dynamic.ResourceProvider = {
  async create({ bytes, encoding, generation }) {
    const { randomBytes, randomUUID } = require("node:crypto");
    return { id: randomUUID(), outs: { bytes, encoding, generation, value: randomBytes(bytes).toString(encoding) } };
  },
  // A new generation makes a new key; another version of this text does not.
  async diff(_id, olds, news) {
    const replaces = ["bytes", "encoding", "generation"].filter((key) => olds[key] !== news[key]);
    return { changes: replaces.length > 0, replaces };
  },
};

/** A random value, made once, kept in the state as a secret. */
export class RandomSecret extends pulumi.dynamic.Resource {
  declare readonly value: pulumi.Output<string>;

  constructor(
    name: string,
    args: { readonly bytes: number; readonly encoding: "base64" | "base64url" | "hex"; readonly generation?: number },
    opts?: pulumi.CustomResourceOptions,
  ) {
    const inputs = { generation: 1, ...args, value: undefined };
    super(randomness, name, inputs, { ...opts, additionalSecretOutputs: ["value"] }, "uplift", "RandomSecret");
  }
}
