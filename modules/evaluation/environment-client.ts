/**
 * Environment client: schemas/environment.ts from the harness's side.
 * Takes an address; reaches only that. Whatever keeps an attempt from being played and graded is an
 * InfrastructureFailure; a full service is waited for.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { Digest } from "../../schemas/digest.ts";
import { Attempt, type CallTool, type CreateAttempt, Grade, Health, ToolResult } from "../../schemas/environment.ts";
import { ErrorBody, UserError } from "../../schemas/error.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { InfrastructureFailure } from "./failures.ts";
import { type Answer, jsonClient } from "./http.ts";

/** How long a full service is waited for before it counts as broken. */
const FULL_SECONDS = 120;

/** What the harness asks of the environment service. */
export interface EnvironmentClient {
  health(signal?: AbortSignal): Promise<Health>;
  /** Hands over the task set; the service refuses one whose digest differs. */
  putTaskSet(digest: Digest, taskSet: TaskSet, signal?: AbortSignal): Promise<void>;
  create(attempt: CreateAttempt, signal?: AbortSignal): Promise<Attempt>;
  call(id: string, call: CallTool, signal?: AbortSignal): Promise<ToolResult>;
  grade(id: string, signal?: AbortSignal): Promise<Grade>;
  /** Ends an attempt that will not be graded; one that is gone is fine. */
  end(id: string): Promise<void>;
  close(): Promise<void>;
}

/** A client of one environment service. */
export function environmentClient(url: string, timeoutSeconds: number): EnvironmentClient {
  const client = jsonClient("environment", url, { timeoutSeconds });
  const path = (id: string) => `/v1/attempts/${encodeURIComponent(id)}`;
  return {
    health: async (signal) => read(Health, await client.send("GET", "/health", undefined, signal)),
    async putTaskSet(digest, taskSet, signal) {
      const answer = await client.send("PUT", `/v1/task-sets/${digest}`, taskSet, signal);
      if (answer.status < 300) return;
      if (answer.status >= 500) throw failure(answer);
      throw new UserError({
        code: "task-set-refused",
        path: digest,
        asked: "the environment service was to take this task set",
        found: failure(answer).message,
        allowed: "a task set of a family that the service knows, under its own digest",
        todo: "start the environment service from the same version of the code",
      });
    },
    async create(attempt, signal) {
      const deadline = performance.now() + FULL_SECONDS * 1000;
      for (;;) {
        const answer = await client.send("POST", "/v1/attempts", attempt, signal);
        // Full is neither the policy's fault nor a defect: other attempts will end.
        if (answer.status !== 429 || performance.now() > deadline) return read(Attempt, answer);
        await sleep(200, undefined, { signal });
      }
    },
    call: async (id, call, signal) =>
      read(ToolResult, await client.send("POST", `${path(id)}/tool-calls`, call, signal)),
    grade: async (id, signal) => read(Grade, await client.send("POST", `${path(id)}/grade`, {}, signal)),
    async end(id) {
      try {
        await client.send("DELETE", path(id));
      } catch (error) {
        // The service ends it by itself at its expiry; why the attempt failed is known already.
        if (!(error instanceof InfrastructureFailure)) throw error;
      }
    },
    close: () => client.close(),
  };
}

function read<T>(schema: z.ZodType<T>, answer: Answer): T {
  if (answer.status >= 300) throw failure(answer);
  const parsed = schema.safeParse(answer.json);
  if (parsed.success) return parsed.data;
  throw new InfrastructureFailure("environment-answer", z.prettifyError(parsed.error).replaceAll("\n", " "));
}

function failure(answer: Answer): InfrastructureFailure {
  const body = ErrorBody.safeParse(answer.json);
  if (body.success)
    return new InfrastructureFailure(
      `environment-${body.data.error.code}`,
      `${answer.status}: ${body.data.error.message}`,
    );
  return new InfrastructureFailure(`environment-${answer.status}`, `${answer.status}: ${answer.text.slice(0, 500)}`);
}
