/**
 * Environment: the HTTP contract between whoever acts on a task (trainer, harness, expert) and the environment
 * service. Errors have `ErrorBody`; a 5xx with `infrastructure: true` is retried and never counted as an answer.
 *
 *   GET    /health                         → Health
 *   PUT    /v1/task-sets/{digest}          TaskSet → 204 (422 if its digest or its family's differs; idempotent)
 *   GET    /v1/families/{name}             → TaskFamily
 *   POST   /v1/attempts                    CreateAttempt → 201 Attempt   (409 if the id is in use, 429 when full)
 *   POST   /v1/attempts/{id}/tool-calls    CallTool → ToolResult         (404 unknown, 410 ended)
 *   POST   /v1/attempts/{id}/grade         → Grade       (ends the attempt; a second call gives the same grade)
 *   DELETE /v1/attempts/{id}               → 204         (ends it ungraded)
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { Message, Tool } from "./message.ts";
import { text } from "./text.ts";

export const Health = z.object({
  status: z.literal("ok"),
  version: z.string(),
  liveAttempts: z.number().int(),
  /** Digest of everything that decides what a tool or grader does: every family's files and the service's own code. */
  environmentsDigest: Digest,
  /** The same of each family alone, by its name: that family's files and the service's own code. */
  families: z.record(z.string(), Digest),
});
export type Health = z.infer<typeof Health>;

export const CreateAttempt = z.object({
  taskSet: Digest,
  taskId: z.string(),
  /** Chosen by the caller, so that a retried request cannot make a second sandbox. */
  id: text(/^[A-Za-z0-9._-]{1,120}$/, "at most 120 letters, digits, dots, dashes and underscores"),
});
export type CreateAttempt = z.infer<typeof CreateAttempt>;

export const Attempt = z.object({
  id: z.string(),
  taskId: z.string(),
  messages: z.array(Message),
  tools: z.array(Tool),
  /** When the service ends the attempt by itself. */
  expiresAt: z.iso.datetime(),
});
export type Attempt = z.infer<typeof Attempt>;

/** `arguments` is the text the model wrote; the service parses it, so that one place decides what is malformed. */
export const CallTool = z.object({ name: z.string(), arguments: z.string() });
export type CallTool = z.infer<typeof CallTool>;

export const ToolResult = z.object({
  /** What the model sees. A refused call is an answer too: "error: …". */
  content: z.string(),
  status: z.enum(["ok", "tool-error", "unknown-tool", "malformed-arguments", "timeout"]),
});
export type ToolResult = z.infer<typeof ToolResult>;

export const Grade = z.object({
  passed: z.boolean(),
  /** 1 when passed, else 0. */
  reward: z.number(),
  reasons: z.array(z.string()),
  violations: z.array(z.string()),
});
export type Grade = z.infer<typeof Grade>;
