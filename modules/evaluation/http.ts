/**
 * HTTP: one JSON request → status and body, over kept-alive connections.
 * Takes a base address; reaches only that. Lost connections and timeouts are InfrastructureFailures.
 */
import { Agent, request } from "undici";
import { InfrastructureFailure } from "./failures.ts";

/** An answer of any status; `json` is undefined where the body is not JSON. */
export interface Answer {
  status: number;
  text: string;
  json: unknown;
}

/** A client of one service. */
export interface JsonClient {
  send(method: "GET" | "PUT" | "POST" | "DELETE", path: string, body?: unknown, signal?: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

/** `who` names the service in failure codes: "endpoint", "environment". */
export function jsonClient(
  who: string,
  base: string,
  options: { timeoutSeconds: number; apiKey?: string },
): JsonClient {
  const timeout = options.timeoutSeconds * 1000;
  const agent = new Agent({
    connectTimeout: 10_000,
    headersTimeout: timeout,
    bodyTimeout: timeout,
    keepAliveTimeout: 4_000,
  });
  const root = base.replace(/\/+$/, "");
  return {
    async send(method, path, body, signal) {
      signal?.throwIfAborted();
      try {
        const response = await request(`${root}${path}`, {
          method,
          dispatcher: agent,
          signal,
          headers: {
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
          },
          body: body === undefined ? null : JSON.stringify(body),
        });
        const text = await response.body.text();
        return { status: response.statusCode, text, json: parse(text) };
      } catch (error) {
        signal?.throwIfAborted();
        const code = codeOf(error);
        const slow = code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT";
        const what = slow ? `no answer within ${options.timeoutSeconds} s` : code;
        throw new InfrastructureFailure(
          slow ? `${who}-timeout` : `${who}-unreachable`,
          `${method} ${root}${path}: ${what}`,
        );
      }
    },
    close: () => agent.destroy(),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not every answer has a JSON body; whoever needs one checks it against a schema.
    return undefined;
  }
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  return "code" in error && typeof error.code === "string" ? error.code : error.message;
}
