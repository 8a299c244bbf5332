/**
 * HTTP environment: the environment service's address and a task set → an EnvironmentClient.
 * Speaks schemas/environment.ts. Retries what is the infrastructure's fault, a bounded number of times with growing
 * pauses; parses every answer. Reaches the network, nothing else.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, type Dispatcher, request } from "undici";
import type { z } from "zod";
import type { Digest } from "../../schemas/digest.ts";
import { Attempt, Grade, ToolResult } from "../../schemas/environment.ts";
import { ErrorBody, UserError } from "../../schemas/error.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { type EnvironmentClient, InfrastructureError } from "./environment-client.ts";
import { taskSetDigest } from "./task-set.ts";

/** How to reach the service; the defaults suit a service that may be restarted in between. */
export interface HttpEnvironmentOptions {
  /** The service's address, without /v1. */
  url: string;
  taskSet: TaskSet;
  /** Tries of one request, the first included. */
  tries?: number;
  /** Pause after the first failed try, milliseconds; doubles each time. */
  firstPauseMilliseconds?: number;
  /** A pause is at most this long, milliseconds. */
  maxPauseMilliseconds?: number;
  /** A request without an answer after this many milliseconds has failed. */
  timeoutMilliseconds?: number;
}

/** A client with its connections; `close` lets the process end. */
export interface HttpEnvironment extends EnvironmentClient {
  readonly taskSet: Digest;
  close(): Promise<void>;
}

/** What may be done again without doing it twice. */
type Repeatable = "always" | "if-not-sent";

/** Codes of connections that never came about, so that the request was certainly not carried out. */
const NEVER_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Hands the task set to the service and returns the client; throws an InfrastructureError if it cannot be reached. */
export async function connectHttpEnvironment(options: HttpEnvironmentOptions): Promise<HttpEnvironment> {
  const {
    url,
    taskSet,
    tries = 8,
    firstPauseMilliseconds = 250,
    maxPauseMilliseconds = 10_000,
    timeoutMilliseconds = 120_000,
  } = options;
  const digest = taskSetDigest(taskSet);
  const base = url.replace(/\/+$/, "");
  const agent = new Agent({
    headersTimeout: timeoutMilliseconds,
    bodyTimeout: timeoutMilliseconds,
    connectTimeout: 10_000,
  });

  const once = async (
    method: Dispatcher.HttpMethod,
    path: string,
    body: unknown,
  ): Promise<{ status: number; json: unknown }> => {
    const response = await request(`${base}${path}`, {
      method,
      dispatcher: agent,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await response.body.text();
    return { status: response.statusCode, json: parseJson(text) };
  };

  /** Sends until there is an answer that is not the infrastructure's failure. */
  const send = async (method: Dispatcher.HttpMethod, path: string, body: unknown, repeatable: Repeatable) => {
    let pause = firstPauseMilliseconds;
    for (let attempt = 1; ; attempt += 1) {
      let failure: InfrastructureError;
      let again: boolean;
      try {
        const answer = await once(method, path, body);
        const error = failureOf(answer, `${method} ${path}`);
        if (!error) return answer;
        failure = error;
        // 429 refuses before anything is done; another infrastructure failure may have happened half way.
        again = answer.status === 429 || repeatable === "always";
      } catch (cause) {
        const code = errorCode(cause);
        failure = new InfrastructureError("unreachable", `${method} ${base}${path}: ${code}`, {
          unreachable: true,
          cause,
        });
        again = NEVER_SENT.has(code) || repeatable === "always";
        // A lost connection in the middle of a call that must not be repeated costs this attempt, not the run.
        if (!again) throw new InfrastructureError("connection-lost", failure.message, { cause });
      }
      if (!again || attempt >= tries) throw failure;
      await sleep(pause);
      pause = Math.min(pause * 2, maxPauseMilliseconds);
    }
  };

  const expect = <T>(schema: z.ZodType<T>, answer: { status: number; json: unknown }, what: string): T => {
    const parsed = answer.status < 300 ? schema.safeParse(answer.json) : null;
    if (parsed?.success) return parsed.data;
    throw contractError(answer, what, parsed?.error.message);
  };
  const attemptPath = (id: string): string => `/v1/attempts/${encodeURIComponent(id)}`;

  const put = await send("PUT", `/v1/task-sets/${digest}`, taskSet, "always");
  if (put.status >= 300) throw refusedTaskSet(put, base);

  return {
    taskSet: digest,
    createAttempt: async ({ taskId, id }) => {
      const create = () => send("POST", "/v1/attempts", { taskSet: digest, taskId, id }, "if-not-sent");
      let answer = await create();
      if (answer.status === 404) {
        // A service that was restarted with an empty store has forgotten the task set.
        await send("PUT", `/v1/task-sets/${digest}`, taskSet, "always");
        answer = await create();
      }
      return expect(Attempt, answer, "POST attempt");
    },
    callTool: async (id, call) => {
      const answer = await send("POST", `${attemptPath(id)}/tool-calls`, call, "if-not-sent");
      return expect(ToolResult, lost(answer, id), "POST tool call");
    },
    grade: async (id) => {
      const answer = await send("POST", `${attemptPath(id)}/grade`, undefined, "always");
      return expect(Grade, lost(answer, id), "POST grade");
    },
    end: async (id) => {
      const answer = await send("DELETE", attemptPath(id), undefined, "always");
      if (answer.status >= 300 && answer.status !== 404 && answer.status !== 410)
        throw contractError(answer, "DELETE attempt");
    },
    close: () => agent.close(),
  };
}

/** The service has other families than the task set is of, or another version of them. */
function refusedTaskSet(answer: { status: number; json: unknown }, url: string): Error {
  const body = ErrorBody.safeParse(answer.json);
  if (!body.success) return contractError(answer, "PUT task set");
  return new UserError({
    code: "task-set-refused",
    path: url,
    asked: "the environment service was to serve this task set",
    found: `it refused: ${body.data.error.message} (${body.data.error.code})`,
    allowed: "a task set of a family and version that the service has",
    todo: "generate the task set again, or start the service with that family",
  });
}

/** A 404 or 410 for an attempt we started and did not end: the service lost or reaped it. */
function lost<T extends { status: number }>(answer: T, id: string): T {
  if (answer.status !== 404 && answer.status !== 410) return answer;
  throw new InfrastructureError(
    "attempt-lost",
    `the environment service no longer has the attempt ${id} (${answer.status})`,
  );
}

/** The failure if the answer says that it is the infrastructure's, or that the service is full or behind a gateway. */
function failureOf(answer: { status: number; json: unknown }, what: string): InfrastructureError | null {
  if (answer.status < 300) return null;
  const body = ErrorBody.safeParse(answer.json);
  if (answer.status === 429) return new InfrastructureError("environments-full", `${what}: no sandbox is free`);
  if (body.success && body.data.error.infrastructure)
    return new InfrastructureError(body.data.error.code, body.data.error.message);
  if (answer.status >= 500) {
    const message = body.success ? body.data.error.message : `status ${answer.status}`;
    return new InfrastructureError(body.success ? body.data.error.code : "environment-error", `${what}: ${message}`);
  }
  return null;
}

/** Either side broke the contract: a defect, so no retry and a stack. */
function contractError(answer: { status: number; json: unknown }, what: string, detail = ""): Error {
  const body = ErrorBody.safeParse(answer.json);
  const said = body.success ? `${body.data.error.code}: ${body.data.error.message}` : detail;
  return new Error(
    `${what}: the environment service answered ${answer.status}, which the contract does not allow here. ${said}`,
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // An empty body (204) or a gateway's page: the status decides, and a schema refuses the text where JSON was due.
    return text;
  }
}

function errorCode(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  if (!(error instanceof Error)) throw error;
  if ("code" in error && typeof error.code === "string") return error.code;
  if (error.cause instanceof Error) return errorCode(error.cause);
  throw error;
}
