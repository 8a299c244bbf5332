/**
 * Kubernetes as preflight sees it: paths of the API → JSON. A refused or failed request throws CannotCheck with the right
 * that is missing. Reads the network and a kubeconfig; writes nothing (access reviews are questions, nothing is stored).
 */
import { setMaxListeners } from "node:events";
import { request as httpRequest } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { CannotCheck } from "../check.ts";
import { isNetworkFailure } from "../network.ts";

/** Answers with labels and annotations, and nothing else of the object: for Secrets, whose values are nobody's business here. */
export const METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

const ANSWER_MS = 8000;
const PAGE = 500;

/** An answer of the API. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** One request; any status is an answer. Rejects where nobody answers. */
export type Transport = (method: "GET" | "POST", path: string, body?: unknown, accept?: string) => Promise<Answer>;

export interface KubernetesApi {
  /** The object at a path; null where there is none. */
  get<T>(path: string, accept?: string): Promise<T | null>;
  /** All items of a list, page after page; null where the API has no such kind. */
  list<T>(path: string): Promise<readonly T[] | null>;
  create<T>(path: string, body: unknown): Promise<T>;
  close(): void;
}

/** The API behind a transport. */
export function kubernetesApi(transport: Transport, close: () => void = () => {}): KubernetesApi {
  const ask = async (method: "GET" | "POST", path: string, body?: unknown, accept?: string): Promise<Answer> => {
    const answer = await transport(method, path, body, accept).catch((failure: unknown) => {
      throw cannotReach(failure);
    });
    if (answer.status < 300 || (method === "GET" && answer.status === 404)) return answer;
    throw refused(method, path, answer);
  };
  const get = async <T>(path: string, accept?: string): Promise<T | null> => {
    const { status, body } = await ask("GET", path, undefined, accept);
    return status === 404 ? null : (body as T);
  };
  return {
    get,
    list: async <T>(path: string) => {
      const found: T[] = [];
      let next = "";
      do {
        const from = next === "" ? "" : `&continue=${encodeURIComponent(next)}`;
        const also = path.includes("?") ? "&" : "?";
        const page = await get<{ items?: T[]; metadata?: { continue?: string } }>(`${path}${also}limit=${PAGE}${from}`);
        if (page === null) return null;
        found.push(...(page.items ?? []));
        next = page.metadata?.continue ?? "";
      } while (next !== "");
      return found;
    },
    create: async <T>(path: string, body: unknown) => (await ask("POST", path, body)).body as T,
    close,
  };
}

function cannotReach(failure: unknown): CannotCheck {
  if (failure instanceof CannotCheck) return failure;
  const message = failure instanceof Error ? failure.message.split("\n")[0] : String(failure);
  if (isNetworkFailure(failure))
    return new CannotCheck("the Kubernetes API cannot be reached", "run preflight where the cluster can be reached");
  return new CannotCheck(
    `no credentials for the cluster: ${message}`,
    "see whether `kubectl get nodes` works with the same context",
  );
}

function refused(method: string, path: string, { status, body }: Answer): CannotCheck {
  const [where = ""] = path.split("?");
  if (status === 401)
    return new CannotCheck("the Kubernetes API does not take the credentials", "log in to the cluster again");
  if (status === 403)
    return new CannotCheck(
      `the context's user may not ${method === "GET" ? "read" : "create"} ${where}`,
      `allow it by RBAC: ${method === "GET" ? "get and list" : "create"} of ${resourceOf(where)}`,
    );
  const message = typeof body === "object" && body !== null && "message" in body ? String(body.message) : "";
  return new CannotCheck(
    `${method} ${where} answers ${status} ${message}`.trim(),
    "try again, or see kubectl's answer",
  );
}

/** "/apis/apps/v1/namespaces/x/deployments/y" → "deployments". */
function resourceOf(path: string): string {
  const parts = path.split("/").filter(Boolean);
  const after = parts.slice(parts[0] === "api" ? 2 : 3);
  return (after[0] === "namespaces" && after.length > 2 ? after[2] : after[0]) ?? path;
}

/** A kubeconfig's own transport: its certificate, its user's certificate, token or exec plugin. */
export function connectKubernetes(config: KubeConfig): KubernetesApi {
  const stopped = new AbortController();
  // Every request under way listens.
  setMaxListeners(0, stopped.signal);
  const cluster = config.getCurrentCluster();
  // Once for all requests: an exec plugin is a process, and a hundred questions are asked at once.
  let entered: Promise<RequestOptions> | undefined;
  const enter = async () => {
    const options: RequestOptions = { headers: {} };
    await config.applyToHTTPSOptions(options);
    return options;
  };
  const transport: Transport = async (method, path, body, accept = "application/json") => {
    if (cluster === null) throw new CannotCheck("the context names no cluster", "correct the kubeconfig");
    const url = new URL(cluster.server.replace(/\/$/, "") + path);
    entered ??= enter();
    const login = await entered;
    const headers = { ...login.headers, accept, ...(body === undefined ? {} : { "content-type": "application/json" }) };
    const options = { ...login, method, headers, signal: stopped.signal, timeout: ANSWER_MS };
    return send(url, options, body === undefined ? undefined : JSON.stringify(body));
  };
  return kubernetesApi(transport, () => stopped.abort());
}

function send(url: URL, options: RequestOptions, body?: string): Promise<Answer> {
  const secure = url.protocol === "https:";
  const { agent, ...plain } = options;
  return new Promise((resolve, reject) => {
    const request = secure ? httpsRequest(url, { ...plain, agent }) : httpRequest(url, plain);
    request.on("timeout", () => request.destroy(Object.assign(new Error("no answer"), { name: "TimeoutError" })));
    request.on("error", reject);
    request.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: parse(Buffer.concat(chunks)) }));
    });
    request.end(body);
  });
}

/** Text where it is no JSON. */
function parse(bytes: Buffer): unknown {
  const text = bytes.toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** What a machine's kubeconfig has. */
export interface Contexts {
  /** Which file that is: "KUBECONFIG (PATH)", or "~/.kube/config" where KUBECONFIG is not set. */
  readonly place: string;
  readonly names: readonly string[];
  /** The file that cannot be read, and why; null where all can. */
  readonly unreadable: string | null;
}

/** Name that the client library makes up where there is no kubeconfig. */
const MADE_UP = "loaded-context";

/** The kubeconfig of KUBECONFIG or ~/.kube/config, with a context chosen by name; null where it has none of that name. */
export function loadContext(name: string): { config: KubeConfig | null; contexts: Contexts } {
  const config = new KubeConfig();
  const named = process.env.KUBECONFIG;
  const place = named ? `KUBECONFIG (${named})` : "~/.kube/config";
  const none = (unreadable: string | null, names: readonly string[] = []) => ({
    ...{ config: null, contexts: { place, names, unreadable } },
  });
  const files = named ? named.split(delimiter).filter(Boolean) : [join(homedir(), ".kube", "config")];
  try {
    config.loadFromDefault();
  } catch (failure) {
    return none(files.map(whyUnreadable).find((why) => why !== null) ?? String(failure));
  }
  const names = config
    .getContexts()
    .map((context) => context.name)
    .filter((context) => context !== MADE_UP);
  if (names.includes(name)) {
    config.setCurrentContext(name);
    return { config, contexts: { place, names, unreadable: null } };
  }
  // The client takes no kubeconfig at all for one of a cluster on this machine.
  return none(names.length === 0 ? (files.map(whyUnreadable).find((why) => why !== null) ?? null) : null, names);
}

/** "PATH: there is no such file"; null of a file that the client reads. */
function whyUnreadable(file: string): string | null {
  try {
    new KubeConfig().loadFromFile(file);
    return null;
  } catch (failure) {
    const { code, name, reason, message } = failure as Error & { readonly code?: string; readonly reason?: string };
    if (code === "ENOENT") return `${file}: there is no such file`;
    if (code !== undefined) return `${file}: ${message.split("\n")[0]}`;
    if (name === "YAMLException") return `${file} is no YAML: ${reason ?? message.split("\n")[0]}`;
    return `${file} is empty or no kubeconfig`;
  }
}

/** A kubeconfig's text with one context, as that of an EKS cluster. */
export function configOf(text: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromString(text);
  return config;
}
