/**
 * Endpoint: names, keys, readiness and the example a person is shown.
 * Takes a checkpoint's digest or an endpoint's address; writes the API key's file, asks the endpoint over HTTP.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { request } from "undici";
import { z } from "zod";
import { type Digest, shortDigest } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";

/** The name of the stack that serves a checkpoint, e.g. "serving-0123456789ab". */
export function endpointName(checkpoint: Digest): string {
  return `serving-${shortDigest(checkpoint)}`;
}

/** The address clients use as `base_url`. */
export function endpointUrl(address: { host: string; port: number }): string {
  return `http://${address.host}:${address.port}/v1`;
}

/** The key in this file, made on first use; only its owner can read it. */
export async function ensureApiKey(path: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  const key = `uplift-${randomBytes(24).toString("base64url")}`;
  try {
    await writeFile(path, `${key}\n`, { mode: 0o600, flag: "wx" });
    return key;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return (await readFile(path, "utf8")).trim();
  }
}

const Models = z.object({ data: z.array(z.object({ id: z.string() })) });

/** An endpoint to wait for. */
export interface WaitReady {
  url: string;
  apiKey: string;
  model: string;
  timeoutSeconds: number;
  signal?: AbortSignal;
  /** Says why it will never be ready ("its process ended: …"), or null while it may be. */
  ended?: () => Promise<string | null>;
}

/** Waits until the endpoint serves this model to this key; UserError `endpoint-not-ready` when it will not. */
export async function waitReady(endpoint: WaitReady): Promise<void> {
  const deadline = performance.now() + endpoint.timeoutSeconds * 1000;
  let last = "it does not answer";
  while (performance.now() < deadline) {
    endpoint.signal?.throwIfAborted();
    const answer = await askModels(endpoint);
    if (answer === "ready") return;
    last = answer.found;
    if (answer.final) throw notReady(endpoint, last);
    const ended = await endpoint.ended?.();
    if (ended) throw notReady(endpoint, ended);
    await sleep(250, undefined, { signal: endpoint.signal });
  }
  throw notReady(endpoint, `${last} after ${endpoint.timeoutSeconds} seconds`);
}

async function askModels(endpoint: WaitReady): Promise<"ready" | { found: string; final: boolean }> {
  let status: number;
  let body: unknown;
  try {
    const response = await request(`${endpoint.url}/models`, {
      headers: { authorization: `Bearer ${endpoint.apiKey}` },
      headersTimeout: 5_000,
      bodyTimeout: 5_000,
      signal: endpoint.signal,
    });
    status = response.statusCode;
    const text = await response.body.text();
    if (status !== 200) return { found: `it answers ${status}`, final: status === 401 || status === 403 };
    body = JSON.parse(text);
  } catch (error) {
    endpoint.signal?.throwIfAborted();
    // Nothing listens yet, or something that is not our server does: the deadline decides.
    return {
      found: `it does not answer (${error instanceof Error ? error.message || error.name : String(error)})`,
      final: false,
    };
  }
  const models = Models.safeParse(body);
  if (!models.success) return { found: "what listens on its port is not an OpenAI-compatible server", final: true };
  const names = models.data.data.map(({ id }) => id);
  if (names.includes(endpoint.model)) return "ready";
  return { found: `it serves ${names.join(", ") || "nothing"}`, final: true };
}

function notReady(endpoint: WaitReady, found: string): UserError {
  return new UserError({
    code: "endpoint-not-ready",
    path: endpoint.url,
    asked: `the model ${endpoint.model} was to be served here`,
    found,
    allowed: "an endpoint that lists the model for its API key",
    todo: "look at the endpoint's log; if another program has its port, end that or serve on another port",
  });
}

/**
 * Commands that show a person how to use an endpoint; the key stays in its file. Curl reads its header from the pipe: in
 * an argument every user of the machine could see the key in the process list.
 */
export function exampleCall(endpoint: { url: string; model: string; apiKeyPath: string }): string {
  return exampleCallWith({ ...endpoint, keyCommand: `cat ${endpoint.apiKeyPath}` });
}

/** The same for a key that a command prints. */
export function exampleCallWith(endpoint: { url: string; model: string; keyCommand: string }): string {
  const body = JSON.stringify({
    model: endpoint.model,
    messages: [{ role: "user", content: "Set port to 80 in every file." }],
  });
  return [
    `export OPENAI_BASE_URL=${endpoint.url} OPENAI_API_KEY="$(${endpoint.keyCommand})"`,
    `printf 'Authorization: Bearer %s' "$OPENAI_API_KEY" |`,
    `  curl $OPENAI_BASE_URL/chat/completions -H @- -H "Content-Type: application/json" \\`,
    `  -d '${body}'`,
  ].join("\n");
}
