/**
 * Pod watch: one service's pods → the latest known state of each, told as it changes.
 * Comes in: the API, a label selector. Goes out: calls of listeners. Holds one connection; an API that is away is asked again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { type KubernetesApi, KubernetesError, type Pod } from "./kubernetes-api.ts";

const PAUSE_MILLISECONDS = 1000;

/** Hears of the pods that somebody asks about. */
export class PodWatch {
  readonly #api: KubernetesApi;
  readonly #labelSelector: string;
  readonly #log: Logger;
  readonly #listeners = new Map<string, (pod: Pod | undefined) => void>();
  readonly #stopped = new AbortController();
  #isFollowing = false;

  constructor(args: { api: KubernetesApi; labelSelector: string; log: Logger }) {
    this.#api = args.api;
    this.#labelSelector = args.labelSelector;
    this.#log = args.log;
  }

  /** Tells each change of this pod, undefined when it is gone, until the returned function is called. */
  follow(name: string, listener: (pod: Pod | undefined) => void): () => void {
    this.#listeners.set(name, listener);
    if (!this.#isFollowing) void this.#follow();
    return () => this.#listeners.delete(name);
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #follow(): Promise<void> {
    this.#isFollowing = true;
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      try {
        await this.#listAndWatch(signal);
      } catch (error) {
        if (signal.aborted) return;
        // 410 means that too much has changed since: everything is listed again.
        if (!(error instanceof KubernetesError && error.status === 410)) {
          this.#log.warn({ error: String(error) }, "pods are not seen");
        }
        await sleep(PAUSE_MILLISECONDS, undefined, { signal }).catch(() => {}); // Stopped while it waited.
      }
    }
  }

  async #listAndWatch(signal: AbortSignal): Promise<void> {
    const known = [...this.#listeners.keys()];
    const { items, metadata } = await this.#api.list(this.#labelSelector);
    const pods = new Map(items.map((pod) => [pod.metadata.name, pod]));
    for (const pod of items) this.#tell(pod.metadata.name, pod);
    for (const name of known) if (!pods.has(name)) this.#tell(name, undefined);
    let { resourceVersion } = metadata;
    while (!signal.aborted) {
      await this.#api.watch({
        ...{ labelSelector: this.#labelSelector, resourceVersion, signal },
        onEvent: ({ type, pod }) => {
          resourceVersion = pod.metadata.resourceVersion;
          this.#tell(pod.metadata.name, type === "DELETED" ? undefined : pod);
        },
      });
    }
  }

  #tell(name: string, pod: Pod | undefined): void {
    this.#listeners.get(name)?.(pod);
  }
}
