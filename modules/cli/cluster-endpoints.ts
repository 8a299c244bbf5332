/**
 * Cluster endpoints: a spec → an endpoint on a cluster, and its end. What the stacks know and what the cluster has are always
 * looked at together, so that none survives unlisted. The controller calls `prune`, the commands all of it.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { ClusterEndpoint, ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { UserError } from "../../schemas/error.ts";
import { apiKeyOf, clusterEndpointUrl, type ObservedEndpoint } from "../serving/index.ts";

/** Stacks of endpoints: stacks/cluster-engine.ts. */
export interface ClusterEndpointEngine {
  endpointUp(spec: ClusterEndpointSpec, options: { wait: boolean }): Promise<unknown>;
  endpointDestroy(name: string): Promise<unknown>;
  /** Every endpoint that has a stack, half-made ones too. */
  endpointSpecs(): Promise<ClusterEndpointSpec[]>;
}

/** The cluster itself: modules/serving's cluster-state.ts. */
export interface ClusterEndpointView {
  observe(now: Date): Promise<ObservedEndpoint[]>;
  /** Removes what has no stack. */
  remove(name: string): Promise<void>;
}

/** An endpoint as commands show it. */
export interface ListedEndpoint extends Pick<ClusterEndpoint, "name" | "url" | "apiKey" | "state"> {
  /** Who ends it: a stack of this state, or the controller; unknown where another machine's state, or a lost one, had its stack. */
  readonly maker: "stack" | "controller" | "unknown";
  readonly reasons: string[];
  /** Null where nothing readable says. */
  readonly model: string | null;
  readonly purpose: string | null;
  readonly expiresAt: string | null;
  /** GPUs that its pods hold now. */
  readonly gpusHeld: number;
}

/** An endpoint that was asked for. */
export interface ServedEndpoint {
  readonly spec: ClusterEndpointSpec;
  readonly url: string;
  readonly apiKey: ClusterEndpoint["apiKey"];
  readonly state: "starting" | "ready";
  /** It was there, and lives on; false for a new one. */
  readonly reused: boolean;
  /** Its end as asked for now, and as it was before; null for a new one. It ends at `spec.expiresAt`, the later of both. */
  readonly ends: { readonly asked: string; readonly before: string | null };
}

/** Makes, lists and ends the endpoints of one cluster. */
export class ClusterEndpoints {
  readonly #engine: ClusterEndpointEngine;
  readonly #view: ClusterEndpointView;
  readonly #now: () => Date;

  constructor(parts: { engine: ClusterEndpointEngine; view: ClusterEndpointView; now: () => Date }) {
    this.#engine = parts.engine;
    this.#view = parts.view;
    this.#now = parts.now;
  }

  /**
   * Serves. One that is there and serves the same gets the later of both ends, without a restart, and is repaired if it is
   * broken; other settings are a UserError `endpoint-settings-differ`. With `wait`, `endpoint-not-ready` says why it is not.
   */
  async serve(asked: ClusterEndpointSpec, { wait }: { readonly wait: boolean }): Promise<ServedEndpoint> {
    const [specs, observed] = await Promise.all([this.#engine.endpointSpecs(), this.#view.observe(this.#now())]);
    const known = specs.find(({ name }) => name === asked.name);
    const differs = known === undefined ? [] : differences(known, asked);
    if (differs.length > 0) throw otherSettings(asked.name, differs);
    const there = observed.find(({ name }) => name === asked.name);
    if (known === undefined && there !== undefined) throw unlisted(there);
    const spec = known === undefined ? asked : { ...asked, purpose: known.purpose, expiresAt: later(known, asked) };
    try {
      await this.#engine.endpointUp(spec, { wait });
    } catch (error) {
      throw (await this.#notReady(spec)) ?? error;
    }
    const reused = known !== undefined && there !== undefined && there.state !== "expired";
    return {
      ...{ spec, url: clusterEndpointUrl(spec.name), apiKey: apiKeyOf(spec.name), reused },
      state: wait ? "ready" : "starting",
      ends: { asked: asked.expiresAt, before: reused ? known.expiresAt : null },
    };
  }

  /** Every endpoint of the stacks and of the cluster, by name. */
  async list(): Promise<ListedEndpoint[]> {
    const [specs, observed] = await Promise.all([this.#engine.endpointSpecs(), this.#view.observe(this.#now())]);
    const known = specs.map((spec) => this.#listed(spec, observed));
    const others = observed.filter(({ name }) => !specs.some((spec) => spec.name === name));
    const unlisted = others.map((one) =>
      entry(one.name, one.spec, one, one.maker === "controller" ? "controller" : "unknown"),
    );
    return [...known, ...unlisted].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Ends an endpoint, whoever made it. UserError `endpoint-unknown` where there is none. */
  async remove(name: string): Promise<void> {
    const all = await this.list();
    const endpoint = all.find((one) => one.name === name);
    if (endpoint) return this.#end(endpoint);
    throw new UserError({
      ...{ code: "endpoint-unknown", path: name, asked: "this endpoint is to be ended" },
      found: "there is none of that name",
      allowed: all.map((one) => one.name).join(", ") || "none: nothing is served",
      todo: "check the name with uplift endpoints",
    });
  }

  /** Ends every endpoint whose time is over; returns their names. One that cannot be ended keeps no other from its end. */
  async prune(): Promise<string[]> {
    const expired = (await this.list()).filter(({ state }) => state === "expired");
    const failures: unknown[] = [];
    for (const endpoint of expired) await this.#end(endpoint).catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
    return expired.map(({ name }) => name);
  }

  async #end({ name, maker }: ListedEndpoint): Promise<void> {
    if (maker === "stack") await this.#engine.endpointDestroy(name);
    else await this.#view.remove(name);
  }

  #listed(spec: ClusterEndpointSpec, observed: readonly ObservedEndpoint[]): ListedEndpoint {
    const there = observed.find(({ name }) => name === spec.name);
    if (there) return entry(spec.name, spec, there, "stack");
    const isOver = Date.parse(spec.expiresAt) <= this.#now().getTime();
    const reasons = ["its Deployment is not in the cluster"];
    const gone = { ...spec, state: isOver ? ("expired" as const) : ("failed" as const), reasons, gpusHeld: 0 };
    return entry(spec.name, spec, gone, "stack");
  }

  /** Why it did not become ready, as the cluster sees it; null where it says nothing about that. */
  async #notReady({ name }: ClusterEndpointSpec): Promise<UserError | null> {
    // The failure that is being explained may be of the cluster's API itself.
    const observed = await this.#view.observe(this.#now()).catch(() => []);
    const there = observed.find((one) => one.name === name);
    if (there === undefined || there.reasons.length === 0) return null;
    return new UserError({
      ...{ code: "endpoint-not-ready", path: name, asked: "this endpoint is to become ready" },
      found: there.reasons.join("; "),
      allowed: "a node of the serving pool that is free, and a whole model of the plan's revision",
      todo: `repair what is named and serve it again, or end it: uplift endpoints rm ${name}`,
    });
  }
}

function entry(
  name: string,
  spec: ClusterEndpointSpec | null,
  there: Pick<ObservedEndpoint, "state" | "reasons" | "gpusHeld" | "expiresAt" | "purpose">,
  maker: ListedEndpoint["maker"],
): ListedEndpoint {
  const { state, reasons, gpusHeld, expiresAt, purpose } = there;
  return {
    ...{ name, maker, state, reasons, gpusHeld, expiresAt, purpose, model: spec?.model ?? null },
    ...{ url: clusterEndpointUrl(name), apiKey: apiKeyOf(name) },
  };
}

/** Fields in which an endpoint that is there is another one; why it is there and how long says nothing of what it answers. */
export function differences(known: ClusterEndpointSpec, asked: ClusterEndpointSpec): string[] {
  const fields = ["model", "modelPath", "source", "identity", "settings", "layout", "image"] as const;
  return fields.flatMap((field) =>
    canonicalJson(known[field]) === canonicalJson(asked[field])
      ? []
      : [`${field} ${canonicalJson(known[field])}, asked for is ${canonicalJson(asked[field])}`],
  );
}

/** The later of two ends. */
export const later = (one: ClusterEndpointSpec, other: ClusterEndpointSpec) =>
  Date.parse(one.expiresAt) > Date.parse(other.expiresAt) ? one.expiresAt : other.expiresAt;

function otherSettings(name: string, differs: readonly string[]): UserError {
  return new UserError({
    ...{ code: "endpoint-settings-differ", path: name, asked: "an endpoint of this checkpoint with other settings" },
    found: `one is there with ${differs.join("; ")}`,
    allowed: "one endpoint a checkpoint",
    todo: `uplift endpoints rm ${name}`,
  });
}

/** Made a second time by another state it would get another key, while its server still asks for the first. */
function unlisted({ name, state, maker }: ObservedEndpoint): UserError {
  const whose =
    maker === "controller"
      ? "is the controller's, which ends it by itself"
      : "no stack here knows: another machine made it, or this machine's state was lost";
  return new UserError({
    ...{ code: "endpoint-unlisted", path: name, asked: "an endpoint of this checkpoint" },
    found: `the cluster has one (${state}) that ${whose}`,
    allowed: "one endpoint a checkpoint",
    todo: `use it (its key is in the Secret ${apiKeyOf(name).namespace}/${name}), or end it: uplift endpoints rm ${name}`,
  });
}
