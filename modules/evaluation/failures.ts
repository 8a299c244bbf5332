/**
 * Failures: what an HTTP call of an evaluation can end in besides an answer. Pure.
 * `InfrastructureFailure` is nobody's answer: the attempt starts again. A UserError ends the evaluation. Everything
 * else a model brings about is graded.
 */

/** The endpoint or the environment broke; `code` is stable, e.g. "endpoint-unreachable", "environment-500". */
export class InfrastructureFailure extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "InfrastructureFailure";
    this.code = code;
  }
}

/** The endpoint refuses this conversation and would refuse it again: too long, or not renderable. */
export class ConversationRefused extends Error {
  readonly reason: "context-overflow" | "refused";

  constructor(reason: "context-overflow" | "refused", message: string) {
    super(message);
    this.name = "ConversationRefused";
    this.reason = reason;
  }
}
