/**
 * Environment client: the few calls an acting policy makes, and how they fail.
 * An interface over schemas/environment.ts, bound to one task set; http-environment.ts is the real one. Pure types.
 */
import type { Attempt, CallTool, Grade, ToolResult } from "../../schemas/environment.ts";

/** One environment service with one task set. Every call may throw an InfrastructureError. */
export interface EnvironmentClient {
  /** Starts an attempt; `id` is the caller's and new for each try. */
  createAttempt(request: { taskId: string; id: string }): Promise<Attempt>;
  /** One tool call; never sent twice unless it certainly did not arrive. */
  callTool(attemptId: string, call: CallTool): Promise<ToolResult>;
  /** Ends the attempt and grades what it left. */
  grade(attemptId: string): Promise<Grade>;
  /** Ends the attempt ungraded; nothing happens if it has ended. */
  end(attemptId: string): Promise<void>;
}

/**
 * The environment's fault, not the policy's. `unreachable` means that the service as a whole does not answer: there is
 * no point in going on with another attempt.
 */
export class InfrastructureError extends Error {
  readonly code: string;
  readonly unreachable: boolean;

  constructor(code: string, message: string, options: { unreachable?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "InfrastructureError";
    this.code = code;
    this.unreachable = options.unreachable ?? false;
  }
}
