/**
 * Cluster endpoint host: a checkpoint → an endpoint on the cluster that answers, and its end. For the controller, which has no
 * stacks: it applies an endpoint's objects itself, with its service account, marked as its own.
 *
 * One endpoint a name, whoever opens it: a controller that was killed while one started finds it, and goes on with it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiException, type KubeConfig } from "@kubernetes/client-node";
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import { UserError } from "../../schemas/error.ts";
import {
  applyEndpoint,
  clusterEndpointUrl,
  endpointManifests,
  ensureApiKeySecret,
  type ObservedEndpoint,
  observeEndpoints,
  readyDeadlineSeconds,
  removeEndpointObjects,
  type Surroundings,
  waitReady,
} from "../serving/index.ts";
import { type CheckpointRequest, checkpointSpecOf } from "./cluster-endpoint-spec.ts";
import { differences, later } from "./cluster-endpoints.ts";
import { kubernetesSaid } from "./kube-error.ts";

/** What is asked for. */
export interface ClusterEndpointRequest extends CheckpointRequest {
  /** Ends the wait for it, and leaves it as it is: closePurpose ends it. */
  readonly signal?: AbortSignal;
}

/** An endpoint that answers. */
export interface OpenEndpoint {
  readonly name: string;
  readonly url: string;
  readonly apiKey: string;
  /** Name clients send as `model`. */
  readonly model: string;
  readonly expiresAt: string;
  /** It was there already. */
  readonly reused: boolean;
}

export interface ClusterEndpointHostParts {
  readonly config: KubeConfig;
  readonly around: Surroundings;
  readonly now: () => Date;
  /** Default: the address of its Service. Another where that is not reached directly, e.g. through a port-forward. */
  readonly urlOf?: (name: string) => string;
  /** Seconds between two looks at one that starts. Default 2. */
  readonly lookSeconds?: number;
}

/** A server that is ready by its health lists its model within so many seconds: a Service's addresses follow its pod's. */
const LISTED_SECONDS = 60;

/** Makes, finds and ends the controller's endpoints. */
export class ClusterEndpointHost {
  readonly #parts: ClusterEndpointHostParts;

  constructor(parts: ClusterEndpointHostParts) {
    this.#parts = parts;
  }

  /**
   * Returns when the endpoint answers. One of this name that is there and serves the same is used, and lives until the later of
   * both ends; one that is broken, over or of other settings is made anew. UserError `endpoint-not-ready` with the cluster's reasons
   * where it does not become ready: it is removed then, so that it holds no GPUs; `endpoint-unlisted` where the name is another's.
   */
  async open(request: ClusterEndpointRequest): Promise<OpenEndpoint> {
    const { config, around, now, urlOf = clusterEndpointUrl } = this.#parts;
    const asked = checkpointSpecOf(request, around, now());
    const there = await this.#find(asked.name);
    if (there !== undefined && there.maker !== "controller") throw nameTaken(there);
    const reused = there?.spec != null && isLiving(there) && differences(there.spec, asked).length === 0;
    if (there !== undefined && !reused) await told(removeEndpointObjects(config, asked.name));
    const spec = reused && there?.spec ? { ...asked, expiresAt: later(there.spec, asked) } : asked;
    const url = urlOf(spec.name);
    try {
      const apiKey = await told(ensureApiKeySecret(config, spec.name));
      await told(applyEndpoint(config, endpointManifests(spec, around)));
      await this.#waitReady(spec, request.signal);
      await waitReady({ url, apiKey, model: spec.model, timeoutSeconds: LISTED_SECONDS, signal: request.signal });
      return { name: spec.name, url, apiKey, model: spec.model, expiresAt: spec.expiresAt, reused };
    } catch (error) {
      // Its pods' last words are in the error by now. One that served before is kept through an outage of the API, and one whose
      // wait was called off through the end of this process. Where even this fails, the next open or close does it.
      const isLost = (error instanceof UserError && !isAway(error)) || !(reused || request.signal?.aborted);
      if (isLost) await removeEndpointObjects(config, spec.name).catch(() => undefined);
      throw error;
    }
  }

  /** Ends one; that it is not there is fine. */
  async close(name: string): Promise<void> {
    const there = await this.#find(name);
    if (there === undefined || there.maker === "controller")
      await told(removeEndpointObjects(this.#parts.config, name));
  }

  /** Ends the endpoints of a purpose, however they came to be left. */
  async closePurpose(purpose: string): Promise<void> {
    for (const endpoint of await this.#observe())
      if (endpoint.maker === "controller" && endpoint.purpose === purpose)
        await told(removeEndpointObjects(this.#parts.config, endpoint.name));
  }

  /** Waits until its pod is ready to answer. An API that is away for a while is asked again. */
  async #waitReady(spec: ClusterEndpointSpec, signal: AbortSignal | undefined): Promise<void> {
    const { now, lookSeconds = 2 } = this.#parts;
    const seconds = readyDeadlineSeconds(spec);
    const deadline = now().getTime() + seconds * 1000;
    let reasons: readonly string[] = [];
    do {
      signal?.throwIfAborted();
      try {
        const there = await this.#find(spec.name);
        if (there === undefined) throw notReady(spec, ["it was removed while it started"]);
        reasons = there.reasons;
        if (there.state === "ready") return;
        if (there.state !== "starting") throw notReady(spec, reasons.length > 0 ? reasons : [`it is ${there.state}`]);
      } catch (error) {
        if (!isAway(error)) throw error;
        reasons = [error.message];
      }
      await sleep(lookSeconds * 1000, undefined, { signal });
    } while (now().getTime() < deadline);
    throw notReady(spec, [...reasons, `it was not ready after ${seconds} seconds`]);
  }

  async #find(name: string): Promise<ObservedEndpoint | undefined> {
    return (await this.#observe()).find((one) => one.name === name);
  }

  #observe(): Promise<ObservedEndpoint[]> {
    return told(observeEndpoints(this.#parts.config, this.#parts.now()));
  }
}

const isLiving = ({ state }: ObservedEndpoint) => state === "starting" || state === "ready";

/** UserError `kubernetes-unreachable` where the API is away or overloaded now; another error is its no, or a defect. */
async function told<T>(request: Promise<T>): Promise<T> {
  return request.catch((error: unknown) => {
    const asked = "the Kubernetes API was asked for an endpoint";
    if (!willPass(error)) throw new Error(`${asked}: ${kubernetesSaid(error)}`, { cause: error });
    throw new UserError({
      ...{ code: UNREACHABLE, path: "uplift-serving", asked, found: kubernetesSaid(error) },
      allowed: "an API that answers",
      todo: "nothing where it restarts: it is asked again; else look at the cluster's control plane",
    });
  });
}

const UNREACHABLE = "kubernetes-unreachable";

function isAway(error: unknown): error is UserError {
  return error instanceof UserError && error.code === UNREACHABLE;
}

/** Whether asking again may change it: no answer at all (node-fetch's error), "too many requests", or its own failure. */
function willPass(error: unknown): boolean {
  if (error instanceof ApiException) return error.code === 429 || error.code >= 500;
  return error instanceof Error && error.name === "FetchError";
}

function notReady({ name, layout }: ClusterEndpointSpec, reasons: readonly string[]): UserError {
  return new UserError({
    ...{ code: "endpoint-not-ready", path: name, asked: "this endpoint is to become ready" },
    found: reasons.join("; "),
    allowed: `a node of the serving pool with ${layout.gpusPerNode} GPUs free, and a whole model of the run`,
    todo: "repair what is named; it was removed, and its step makes it again",
  });
}

function nameTaken({ name, state, purpose }: ObservedEndpoint): UserError {
  return new UserError({
    ...{ code: "endpoint-unlisted", path: name, asked: "an endpoint of this name, to measure a checkpoint" },
    found: `there is one (${state}, ${purpose ?? "purpose unknown"}) that uplift serve made`,
    allowed: "a name that only the controller uses",
    todo: `end it: uplift endpoints rm ${name}`,
  });
}
