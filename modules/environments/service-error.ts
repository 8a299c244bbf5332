/**
 * ServiceError: what the environment service refuses or fails at → HTTP status and `ErrorBody`.
 * Comes in: a code. Goes out: an error that `app.ts` answers with. Pure.
 */

/**
 * Every code this service answers with: its status, and whether the same request may succeed later. A 404 or 410 for
 * an attempt means that it is gone for good: it never counts as an answer either, but needs a new attempt.
 */
const TABLE = {
  "bad-request": [400, false],
  "attempt-unknown": [404, false],
  "attempt-in-use": [409, false],
  "attempt-graded": [409, false],
  "attempt-ended": [410, false],
  "attempt-expired": [410, false],
  "attempts-full": [429, true],
  "family-differs": [422, false],
  "family-unknown": [404, false],
  "family-version": [422, false],
  "repository-invalid": [422, false],
  "route-unknown": [404, false],
  "session-missing": [400, false],
  "session-other-task": [409, false],
  "task-set-digest": [422, false],
  "task-set-invalid": [422, false],
  "task-set-unknown": [404, false],
  "task-unknown": [404, false],
  "grader-failed": [503, true],
  "sandbox-failed": [503, true],
  "sandbox-lost": [503, true],
  "service-stopping": [503, true],
  "session-no-place": [503, true],
  defect: [500, true],
} as const satisfies Record<string, readonly [number, boolean]>;

/** A stable name of one kind of refusal or failure. */
export type ServiceErrorCode = keyof typeof TABLE;

/** A refusal or failure on its way to an HTTP answer. */
export class ServiceError extends Error {
  readonly code: ServiceErrorCode;

  constructor(code: ServiceErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ServiceError";
    this.code = code;
  }

  get status(): (typeof TABLE)[ServiceErrorCode][0] {
    return TABLE[this.code][0];
  }

  /** True: not the policy's fault, worth trying again, never counted as an answer. */
  get infrastructure(): boolean {
    return TABLE[this.code][1];
  }
}
