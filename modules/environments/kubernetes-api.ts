/**
 * Kubernetes API: a server and a service account → requests for the pods of one namespace, and commands in them.
 * Comes in: address, certificate, token. Goes out: parsed answers, or a KubernetesError with the server's own words. Reaches
 * only that server.
 *
 * Not @kubernetes/client-node: its exec says neither that a connection broke nor whether one is still alive, and an attempt
 * lives as long as one exec. See exec-connection.ts.
 */
import { Agent, request } from "undici";
import { z } from "zod";

/** Where the API is and who asks. */
export interface KubernetesAccess {
  /** https://10.0.0.1:443 */
  readonly url: string;
  /** The server's certificate authority, PEM. */
  readonly certificateAuthority: string;
  /** Asked before each request: the token of a service account is replaced about every hour. */
  readonly token: () => Promise<string>;
  readonly namespace: string;
}

/** What we read of a pod. */
export const Pod = z.object({
  metadata: z.object({
    name: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
    resourceVersion: z.string().default(""),
    deletionTimestamp: z.string().optional(),
  }),
  status: z
    .object({
      phase: z.string().default("Pending"),
      reason: z.string().optional(),
      message: z.string().optional(),
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().optional(),
            message: z.string().optional(),
          }),
        )
        .default([]),
      containerStatuses: z
        .array(
          z.object({
            state: z
              .object({
                waiting: z.object({ reason: z.string().optional(), message: z.string().optional() }).optional(),
                terminated: z.object({ reason: z.string().optional(), exitCode: z.number().optional() }).optional(),
              })
              .default({}),
          }),
        )
        .default([]),
    })
    .prefault({}),
});
export type Pod = z.infer<typeof Pod>;

const PodList = z.object({ metadata: z.object({ resourceVersion: z.string().default("") }), items: z.array(Pod) });
const WatchEvent = z.object({ type: z.string(), object: z.unknown() });
const Status = z.object({ message: z.string().optional(), reason: z.string().optional() });

/** One change of a pod, as a watch tells it. */
export interface PodEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly pod: Pod;
}

/** The API refused, or was not reached: then `status` is 0. */
export class KubernetesError extends Error {
  override readonly name = "KubernetesError";
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }

  /** Whether the same request may succeed in a moment. A quota is full only until another pod ends. */
  get passing(): boolean {
    const { status } = this;
    return (
      status === 0 || status === 429 || status >= 500 || (status === 403 && this.message.includes("exceeded quota"))
    );
  }
}

const ANSWER_MILLISECONDS = 15_000;
/** The server ends a watch by itself after this long; silence that is longer is a dead connection. */
const WATCH_SECONDS = 240;

/** Requests of one service account. */
export class KubernetesApi {
  readonly access: KubernetesAccess;
  readonly dispatcher: Agent;

  constructor(access: KubernetesAccess) {
    this.access = access;
    this.dispatcher = new Agent({ connect: { ca: access.certificateAuthority, timeout: 10_000 } });
  }

  /** Answers the pod as it was made. */
  async create(pod: unknown): Promise<Pod> {
    return Pod.parse(await this.#send("POST", "", pod));
  }

  /** Ends it at once, without waiting for its processes; one that is not there is gone. */
  async delete(name: string): Promise<void> {
    const now = { kind: "DeleteOptions", apiVersion: "v1", gracePeriodSeconds: 0, propagationPolicy: "Background" };
    try {
      await this.#send("DELETE", `/${name}`, now);
    } catch (error) {
      if (!(error instanceof KubernetesError && error.status === 404)) throw error;
    }
  }

  /** Undefined when there is none of this name. */
  async get(name: string): Promise<Pod | undefined> {
    try {
      return Pod.parse(await this.#send("GET", `/${name}`));
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 404) return undefined;
      throw error;
    }
  }

  async list(labelSelector: string): Promise<z.infer<typeof PodList>> {
    return PodList.parse(await this.#send("GET", `?${new URLSearchParams({ labelSelector })}`));
  }

  /** Tells every change since that version; returns when the server ends it, throws 410 when the version is too old. */
  async watch(args: {
    labelSelector: string;
    resourceVersion: string;
    signal: AbortSignal;
    onEvent: (event: PodEvent) => void;
  }): Promise<void> {
    const { labelSelector, resourceVersion, signal } = args;
    const query = new URLSearchParams({
      ...{ watch: "true", allowWatchBookmarks: "true", timeoutSeconds: `${WATCH_SECONDS}` },
      ...{ labelSelector, resourceVersion },
    });
    const answer = await this.#request("GET", `?${query}`, undefined, signal, (WATCH_SECONDS + 30) * 1000);
    if (answer.statusCode !== 200) throw await refusal(answer.statusCode, answer.body);
    let rest = "";
    try {
      for await (const piece of answer.body.setEncoding("utf8")) {
        const lines = (rest + String(piece)).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (line !== "") tell(line, args.onEvent);
      }
    } catch (error) {
      if (error instanceof KubernetesError) throw error;
      throw unreached(error);
    }
  }

  /** The address a WebSocket of this command is opened at. */
  execUrl(pod: string, container: string, command: readonly string[]): string {
    const query = new URLSearchParams({ container, stdin: "true", stdout: "true", stderr: "true", tty: "false" });
    for (const word of command) query.append("command", word);
    return `${this.access.url.replace(/^http/, "ws")}${this.#path(`/${pod}/exec?${query}`)}`;
  }

  /** Why a command is refused, in the server's words: a WebSocket that fails tells nobody. */
  async whyNoExec(pod: string, container: string, command: readonly string[]): Promise<string> {
    const { search } = new URL(this.execUrl(pod, container, command));
    try {
      await this.#send("GET", `/${pod}/exec${search}`);
      return "the Kubernetes API opens no WebSocket";
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  #path(rest: string): string {
    return `/api/v1/namespaces/${this.access.namespace}/pods${rest}`;
  }

  async #send(method: "GET" | "POST" | "DELETE", path: string, body?: unknown): Promise<unknown> {
    const signal = AbortSignal.timeout(ANSWER_MILLISECONDS);
    const answer = await this.#request(method, path, body, signal, ANSWER_MILLISECONDS);
    if (answer.statusCode >= 300) throw await refusal(answer.statusCode, answer.body);
    try {
      return await answer.body.json();
    } catch (error) {
      throw unreached(error);
    }
  }

  async #request(method: "GET" | "POST" | "DELETE", path: string, body: unknown, signal: AbortSignal, silence: number) {
    const authorization = `Bearer ${await this.access.token()}`;
    try {
      return await request(`${this.access.url}${this.#path(path)}`, {
        method,
        dispatcher: this.dispatcher,
        signal,
        headersTimeout: ANSWER_MILLISECONDS,
        bodyTimeout: silence,
        headers: { authorization, accept: "application/json", "content-type": "application/json" },
        body: body === undefined ? null : JSON.stringify(body),
      });
    } catch (error) {
      throw unreached(error);
    }
  }
}

function tell(line: string, onEvent: (event: PodEvent) => void): void {
  const { type, object } = WatchEvent.parse(JSON.parse(line));
  if (type === "BOOKMARK") return; // Only says that all before it has been told.
  if (type === "ERROR") {
    const { code = 410, message = "the watch failed" } = object as { code?: number; message?: string };
    throw new KubernetesError(code, message);
  }
  if (type === "ADDED" || type === "MODIFIED" || type === "DELETED") onEvent({ type, pod: Pod.parse(object) });
}

async function refusal(status: number, body: { text(): Promise<string> }): Promise<KubernetesError> {
  const text = await body.text();
  let words = text.slice(0, 500);
  try {
    words = Status.parse(JSON.parse(text)).message ?? words;
  } catch {
    // Not a Status: a proxy on the way answered. Its text is what there is to say.
  }
  return new KubernetesError(status, `the Kubernetes API answered ${status}: ${words}`);
}

function unreached(error: unknown): KubernetesError {
  const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
  return new KubernetesError(0, `the Kubernetes API was not reached: ${code}`, { cause: error });
}
