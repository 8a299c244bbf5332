/**
 * Pod driver: sandboxes as pods, one each, in a namespace that holds nothing else.
 * Comes in: settings, the API, purpose, limits, files. Goes out: channels to executors. Makes, watches and deletes pods.
 *
 * A pod whose service is gone reads the end of its input and ends; what is left of it, or of a deletion that failed while the API
 * was away, is deleted by the next sweep of this service or the next one of its name, at the latest by the pod's own deadline.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { UserError } from "../../schemas/error.ts";
import type { TaskFamily } from "../../schemas/task.ts";
import { ExecConnection } from "./exec-connection.ts";
import { type KubernetesApi, KubernetesError, type Pod } from "./kubernetes-api.ts";
import { PodChannel } from "./pod-channel.ts";
import { memoryNeededMib, type PodSettings, PROCESS_LABEL, SERVICE_LABEL, sandboxPod } from "./pod-manifest.ts";
import { type PodState, stateOf } from "./pod-state.ts";
import { PodWatch } from "./pod-watch.ts";
import type { SandboxFiles } from "./python-file.ts";
import { type SandboxChannel, SandboxLost } from "./sandbox.ts";
import type { SandboxDriver, SandboxRequest } from "./sandbox-driver.ts";
import { environmentOf, type SandboxPurpose } from "./sandbox-profile.ts";

const PYTHON = "/usr/bin/python3";
const SWEEP_MILLISECONDS = 30_000;
/** A watch may miss something; then the pod is asked for. */
const LOOK_MILLISECONDS = 5000;
const RETRY_MILLISECONDS = 1000;
const REMOVE_TRIES = 3;
/** What payload/receive.py says of a pod that reaches the API. */
const NETWORK_OPEN = "the network is open";

/** Makes sandboxes in one namespace of a cluster. */
export class PodDriver implements SandboxDriver {
  /** Each is a pod that waits, mostly for others: it costs this process little, and an autoscaler must see them all. */
  readonly startsAtOnce = 64;
  readonly limitsProcesses = true;
  readonly #api: KubernetesApi;
  readonly #settings: PodSettings;
  readonly #log: Logger;
  readonly #receive: string;
  readonly #watch: PodWatch;
  readonly #process = randomBytes(6).toString("hex");
  /** Pods that are wanted, by name, from before they are made. */
  readonly #mine = new Set<string>();
  readonly #closing = new AbortController();
  readonly #sweeper: NodeJS.Timeout;

  private constructor(args: { api: KubernetesApi; settings: PodSettings; log: Logger; receive: string }) {
    this.#api = args.api;
    this.#settings = args.settings;
    this.#log = args.log;
    this.#receive = args.receive;
    this.#watch = new PodWatch({ api: args.api, labelSelector: this.#selector, log: args.log });
    this.#sweeper = setInterval(() => {
      this.#sweep().catch((error: unknown) => args.log.warn({ error: String(error) }, "pods are not swept"));
    }, SWEEP_MILLISECONDS);
    this.#sweeper.unref();
  }

  static async open(args: { api: KubernetesApi; settings: PodSettings; log: Logger }): Promise<PodDriver> {
    const receive = await readFile(new URL("payload/receive.py", import.meta.url), "utf8");
    return new PodDriver({ ...args, receive });
  }

  async open(request: SandboxRequest): Promise<SandboxChannel> {
    const name = `${request.purpose}-${randomBytes(8).toString("hex")}`;
    this.#mine.add(name);
    try {
      await this.#bringUp(name, request);
      return await this.#enter(name, request);
    } catch (error) {
      await this.#remove(name);
      if (error instanceof SandboxLost) throw error;
      throw new SandboxLost(`a sandbox could not be started: ${wordsOf(error)}`, { cause: error });
    }
  }

  async endOrphans(): Promise<number> {
    try {
      return await this.#sweep();
    } catch (error) {
      if (error instanceof KubernetesError) throw this.refused(error.message);
      throw error;
    }
  }

  /** Throws a UserError where a pod of the settings is too small for a family. */
  accept({ name, limits }: Pick<TaskFamily, "name" | "limits">): void {
    const needed = memoryNeededMib(limits);
    if (needed <= this.#settings.memoryMib) return;
    throw new UserError({
      code: "sandbox-too-small",
      path: "platform.sandboxes.memoryMib",
      asked: `task family ${name} needs ${needed} MiB a sandbox: its limits, its disk and the executor`,
      found: `a sandbox has ${this.#settings.memoryMib} MiB`,
      allowed: `${needed} MiB or more`,
      todo: "raise platform.sandboxes.memoryMib in the target file, or lower the family's limits",
    });
  }

  refused(words: string): UserError {
    const { namespace, runtimeClass, image } = this.#settings;
    if (words.includes(NETWORK_OPEN)) return networkOpen(namespace);
    return new UserError({
      code: "sandbox-pod-refused",
      path: "environments",
      asked: `every attempt runs in a pod of its own: namespace ${namespace}, RuntimeClass ${runtimeClass}, image ${image}`,
      found: `a first one did not start: ${words.trim().slice(-900)}`,
      allowed: "a cluster whose sandbox nodes run that image in that RuntimeClass, with user and PID namespaces inside",
      todo: `look with: kubectl -n ${namespace} get events, and kubectl get runtimeclass ${runtimeClass}; then see docs/environments.md`,
    });
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    this.#closing.abort();
    this.#watch.stop();
  }

  get #selector(): string {
    return `${SERVICE_LABEL}=${this.#settings.service}`;
  }

  /** Makes the pod and waits until it runs. */
  async #bringUp(name: string, request: SandboxRequest): Promise<void> {
    const { startSeconds } = this.#settings;
    const deadline = performance.now() + startSeconds * 1000;
    const { purpose, limits, attempt } = request;
    const body = sandboxPod({ settings: this.#settings, name, process: this.#process, attempt, purpose, limits });
    await this.#create(body, deadline);
    let wake: () => void = () => {};
    const unfollow = this.#watch.follow(name, () => wake());
    try {
      for (;;) {
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        const state = await this.#look(name);
        if (state.kind === "up") return;
        if (state.kind === "over") throw new SandboxLost(`a sandbox could not be started: ${state.why}`);
        const left = deadline - performance.now();
        if (left <= 0) throw new SandboxLost(`a sandbox did not start within ${startSeconds} s: ${state.why}`);
        await this.#pause(Math.min(left, LOOK_MILLISECONDS), woken);
      }
    } finally {
      unfollow();
    }
  }

  /** A refusal that passes (a full quota, an API that is away) is asked again until the time is up. */
  async #create(body: { metadata: { name: string } }, deadline: number): Promise<void> {
    for (;;) {
      try {
        await this.#api.create(body);
        return;
      } catch (error) {
        if (!(error instanceof KubernetesError)) throw error;
        if (error.status === 409) return; // Ours, from a try whose answer was lost: nobody else makes this name.
        if (!error.passing || performance.now() >= deadline) throw error;
      }
      await this.#pause(RETRY_MILLISECONDS);
    }
  }

  async #look(name: string): Promise<PodState> {
    try {
      return stateOf(await this.#api.get(name));
    } catch (error) {
      if (error instanceof KubernetesError && error.passing) return { kind: "coming", why: error.message };
      throw error;
    }
  }

  /** Hands the files in, and leaves the executor at the other end. */
  async #enter(name: string, { purpose, files }: SandboxRequest): Promise<SandboxChannel> {
    const { hostname, port } = new URL(this.#api.access.url);
    const unreachable = [hostname.replace(/^\[|\]$/g, ""), port === "" ? 443 : Number(port)] as const;
    const sent = await packFiles(files, purpose, unreachable);
    const exec = await this.#exec(name, [PYTHON, "-I", "-S", "-E", "-B", "-c", this.#receive]);
    let unfollow = (): unknown => undefined;
    const channel = new PodChannel({
      exec,
      look: () => this.#api.get(name),
      remove: () => {
        unfollow();
        return this.#remove(name);
      },
    });
    // What the watch tells can be older than what we know: only the API itself says that a pod is gone.
    unfollow = this.#watch.follow(name, (pod: Pod | undefined) => {
      if (pod !== undefined) channel.changed(pod);
      else
        void this.#api.get(name).then(
          (now) => channel.changed(now),
          () => {},
        ); // Away: the next change is told again.
    });
    exec.write(sent);
    return channel;
  }

  /** Just after its start a pod may not take commands yet. */
  async #exec(name: string, command: readonly string[]): Promise<ExecConnection> {
    for (let tries = 1; ; tries++) {
      try {
        return await ExecConnection.open(this.#api, name, command);
      } catch (error) {
        const state = await this.#look(name);
        if (state.kind === "over") throw new SandboxLost(`a sandbox could not be started: ${state.why}`);
        if (tries < 3) await this.#pause(RETRY_MILLISECONDS);
        else throw new KubernetesError(0, `${wordsOf(error)}; ${await this.#api.whyNoExec(name, "sandbox", command)}`);
      }
    }
  }

  /** Never fails: what cannot be deleted now is deleted by a sweep. */
  async #remove(name: string): Promise<void> {
    this.#mine.delete(name);
    for (let tries = 1; ; tries++) {
      try {
        await this.#api.delete(name);
        return;
      } catch (error) {
        if (tries === REMOVE_TRIES || !(error instanceof KubernetesError && error.passing)) {
          this.#log.warn({ pod: name, error: wordsOf(error) }, "a pod was not deleted, a sweep will");
          return;
        }
      }
      await sleep(RETRY_MILLISECONDS / 2);
    }
  }

  /** Deletes the pods of this service's name that nobody here wants; says how many. */
  async #sweep(): Promise<number> {
    const { items } = await this.#api.list(this.#selector);
    const orphans = items.filter(
      ({ metadata }) => metadata.labels[PROCESS_LABEL] !== this.#process || !this.#mine.has(metadata.name),
    );
    await Promise.all(orphans.map(({ metadata }) => this.#remove(metadata.name)));
    return orphans.length;
  }

  /** Waits, but no longer than the service lives. */
  async #pause(milliseconds: number, woken?: Promise<void>): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) throw new SandboxLost("the service is stopping");
    const over = new AbortController();
    const timer = sleep(milliseconds, undefined, { signal: AbortSignal.any([signal, over.signal]) }).catch(() => {}); // Woken or stopped.
    await (woken === undefined ? timer : Promise.race([timer, woken]));
    over.abort();
    if (signal.aborted) throw new SandboxLost("the service is stopping");
  }
}

/** What payload/receive.py reads. The pod's Python may be another version than ours: only source files. */
async function packFiles(
  files: SandboxFiles,
  purpose: SandboxPurpose,
  unreachable: readonly [string, number],
): Promise<Buffer> {
  const sources = Object.entries(files).filter(([path]) => !path.endsWith(".pyc"));
  const contents = await Promise.all(sources.map(([, file]) => readFile(file)));
  const header = Buffer.from(
    JSON.stringify({
      files: sources.map(([path], index) => [path, contents[index]?.length]),
      environment: Object.fromEntries(environmentOf(purpose)),
      unreachable,
    }),
  );
  return Buffer.concat([Buffer.from(`${String(header.length).padStart(8, "0")}\n`), header, ...contents]);
}

function networkOpen(namespace: string): UserError {
  return new UserError({
    code: "sandbox-network-open",
    path: "environments",
    asked: "a sandbox reaches nothing: no network, not even the Kubernetes API",
    found: `a pod in ${namespace} connected to the Kubernetes API, although a NetworkPolicy denies it`,
    allowed: "a cluster whose network plugin enforces NetworkPolicies",
    todo: "use one: Cilium, Calico, on EKS vpc-cni with enableNetworkPolicy",
  });
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
