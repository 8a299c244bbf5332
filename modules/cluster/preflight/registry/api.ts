/**
 * Registry: an image → the digest it has today, by the OCI distribution API: HEAD of the manifest, with an anonymous token
 * where the registry asks for one; a chart of a web server → whether it is there. Reads the network. Nothing is pulled: a HEAD counts against no pull limit.
 */
import { setMaxListeners } from "node:events";
import { CannotCheck } from "../check.ts";
import { isNetworkFailure } from "../network.ts";
import { type ImageReference, parseImage } from "./reference.ts";

const ANSWER_MS = 6000;
/** Indexes first: an image of several machines is named by its index. */
const MANIFESTS = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

export interface RegistryApi {
  /** The digest of what the image's tag or digest names; null where the registry has none. */
  digestOf(image: string): Promise<string | null>;
  /** Whether a web address answers, e.g. of a packed chart. */
  isAt(url: string): Promise<boolean>;
  close(): void;
}

/** Real registries, as anybody. */
export function connectRegistries(): RegistryApi {
  const stopped = new AbortController();
  // Every request under way listens.
  setMaxListeners(0, stopped.signal);
  const send = (url: URL | string, init: RequestInit) =>
    fetch(url, { ...init, signal: AbortSignal.any([stopped.signal, AbortSignal.timeout(ANSWER_MS)]) });
  /** One token a registry and repository, however many tags are asked for. */
  const tokens = new Map<string, Promise<string>>();
  return {
    async digestOf(image) {
      const reference = parseImage(image);
      try {
        return await digestOf(image, reference, send, tokens);
      } catch (failure) {
        if (failure instanceof CannotCheck || !isNetworkFailure(failure)) throw failure;
        throw new CannotCheck(
          `the registry ${reference.host} cannot be reached`,
          "run preflight where the registry can be reached; the nodes have to reach it too",
        );
      }
    },
    async isAt(url) {
      const { host } = new URL(url);
      try {
        const { ok, status } = await send(url, { method: "HEAD" });
        if (ok || status === 404) return ok;
        throw new CannotCheck(`${host} answers ${status}`, "run preflight again in some minutes");
      } catch (failure) {
        if (failure instanceof CannotCheck || !isNetworkFailure(failure)) throw failure;
        throw new CannotCheck(
          `${host} cannot be reached`,
          "run preflight where it can be; `up` reads the chart from it",
        );
      }
    },
    close: () => stopped.abort(),
  };
}

type Send = (url: URL | string, init: RequestInit) => Promise<Response>;

async function digestOf(image: string, reference: ImageReference, send: Send, tokens: Map<string, Promise<string>>) {
  const { host, repository, tag, digest } = reference;
  const loopback = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(host);
  const url = `${loopback ? "http" : "https"}://${host}/v2/${repository}/manifests/${digest ?? tag ?? "latest"}`;
  const head = (token?: string) =>
    send(url, {
      method: "HEAD",
      headers: { accept: MANIFESTS, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    });
  let answer = await head();
  if (answer.status === 401) {
    const challenge = answer.headers.get("www-authenticate") ?? "";
    const key = `${host}/${repository}`;
    const token = tokens.get(key) ?? anonymousToken(challenge, image, reference, send);
    tokens.set(key, token);
    answer = await head(await token);
  }
  if (answer.status === 404) return null;
  if (answer.status === 401 || answer.status === 403) throw wantsLogin(image, reference);
  if (answer.status === 429)
    throw new CannotCheck(`${host} answers too many requests of this machine`, "run preflight again in some minutes");
  if (!answer.ok)
    throw new CannotCheck(`${host} answers ${answer.status}`, "run preflight again; see the registry's status page");
  const found = answer.headers.get("docker-content-digest") ?? digest;
  if (found === null)
    throw new CannotCheck(`${host} names no digest`, `docker buildx imagetools inspect ${host}/${repository}:${tag}`);
  return found;
}

/** The token that anybody gets for reading, from where the challenge says: Bearer realm="…",service="…",scope="…". */
async function anonymousToken(
  challenge: string,
  image: string,
  reference: ImageReference,
  send: Send,
): Promise<string> {
  const fields = Object.fromEntries(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
  );
  if (!/^bearer /i.test(challenge) || !fields.realm) throw wantsLogin(image, reference);
  const url = new URL(fields.realm);
  if (fields.service) url.searchParams.set("service", fields.service);
  url.searchParams.set("scope", fields.scope ?? `repository:${reference.repository}:pull`);
  const answer = await send(url, { headers: { accept: "application/json" } });
  if (!answer.ok) throw wantsLogin(image, reference);
  const body = (await answer.json()) as { token?: string; access_token?: string };
  const token = body.token ?? body.access_token;
  if (!token) throw wantsLogin(image, reference);
  return token;
}

/** Credentials of registries are docker's business: what to ask with them, and what the answer has to be. */
function wantsLogin(image: string, { host, repository, digest }: ImageReference): CannotCheck {
  const region = /\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/.exec(host)?.[1];
  const login = region
    ? `aws ecr get-login-password --region ${region} | docker login --username AWS --password-stdin ${host}`
    : `docker login ${host}`;
  const answer = digest ? "it has to answer with this digest" : "write the digest that it shows into the target";
  return new CannotCheck(
    `${host} shows ${repository} to no anonymous reader: it is private, or not there`,
    `${login}; docker buildx imagetools inspect ${image}: ${answer}. The nodes need a pull secret, or a role that may read it`,
  );
}
