/**
 * Gym sessions: rollouts of NeMo Gym → attempts of the service, one for each. A session is its attempt's id, so there is nothing
 * to keep but which rollouts were counted.
 * Comes in: an open service. Goes out: what gym-app.ts answers. Starts, grades and ends attempts.
 *
 * Gym's client waits for ever, so all of this ends by itself: waiting for a place by `seedWaitSeconds`, a start, a call and a
 * grading by the family's limits, their repetition by the numbers below.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Attempt } from "../../schemas/environment.ts";
import { GymPlaces } from "./gym-places.ts";
import {
  type GymRow,
  gradedFields,
  maskedFields,
  newSession,
  type RolloutOutcome,
  type VerifyRequest,
} from "./gym-protocol.ts";
import type { EnvironmentService } from "./service.ts";
import { ServiceError, type ServiceErrorCode } from "./service-error.ts";

const TRIES = 3;
const PAUSE_MILLISECONDS = 1000;
const REMEMBERED_ROLLOUTS = 10_000;

/** The rollouts of one service. */
export class GymSessions {
  readonly #service: EnvironmentService;
  readonly #seedWaitSeconds: number;
  readonly #places: GymPlaces;
  /** The latest rollouts that were counted: a repeated /verify is no second one. */
  readonly #counted = new Set<string>();

  constructor(service: EnvironmentService, seedWaitSeconds: number) {
    this.#service = service;
    this.#seedWaitSeconds = seedWaitSeconds;
    this.#places = new GymPlaces(service.attempts);
  }

  /** Starts the attempt of a row; `signal` is aborted when the agent is gone. */
  async seed(row: GymRow, signal: AbortSignal): Promise<Attempt> {
    const request = { taskSet: row.task_set, taskId: row.task_id, id: newSession(row) };
    const deadline = performance.now() + this.#seedWaitSeconds * 1000;
    const attempt = await again("sandbox-failed", () => this.#places.take(request, deadline, signal));
    if (signal.aborted) await this.#service.attempts.end(attempt.id);
    return attempt;
  }

  /** What the model is answered. */
  async call(session: string, name: string, body: string): Promise<string> {
    return (await this.#service.attempts.call(session, { name, arguments: body })).content;
  }

  /** What the rollout's end adds to its row. Never throws: one failed rollout would take its whole training step with it. */
  async verify(session: string, request: VerifyRequest): Promise<Record<string, unknown>> {
    const { attempts, metrics, log } = this.#service;
    try {
      const grade = await again("grader-failed", () => attempts.grade(session));
      this.#count(session, grade.passed ? "passed" : "failed");
      return gradedFields(request, grade);
    } catch (error) {
      const known = error instanceof ServiceError ? error : new ServiceError("defect", String(error));
      if (known.code === "defect") log.error(error, "defect");
      log.warn({ attempt: session, task: request.task_id, code: known.code, why: known.message }, "rollout masked");
      if (known.infrastructure) metrics.infrastructureFailure(known.code);
      this.#count(session, "masked");
      return maskedFields(request, known);
    }
  }

  #count(session: string, outcome: RolloutOutcome): void {
    if (this.#counted.has(session)) return;
    this.#service.metrics.rolloutEnded(outcome);
    this.#counted.add(session);
    const oldest = this.#counted.keys().next().value;
    if (this.#counted.size > REMEMBERED_ROLLOUTS && oldest !== undefined) this.#counted.delete(oldest);
  }
}

/** Up to three times where it fails like this; anything else, and the last time, is the caller's. */
async function again<T>(code: ServiceErrorCode, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === code) || tries >= TRIES) throw error;
    }
    await sleep(PAUSE_MILLISECONDS);
  }
}
