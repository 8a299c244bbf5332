/**
 * Gym places: attempts that are asked for → attempts, each as soon as a place is free, in the order they came.
 * Comes in: the service's attempts. Goes out: a started attempt, or a ServiceError after a bounded wait.
 *
 * A training step asks for all its rollouts at once, and a refusal of one would fail the step; so here is waited, where
 * `POST /v1/attempts` says 429. Looks for a free place by a timer while somebody waits.
 */
import type { Attempt, CreateAttempt } from "../../schemas/environment.ts";
import type { Attempts } from "./attempts.ts";
import { ServiceError } from "./service-error.ts";

const LOOK_MILLISECONDS = 200;

interface Waiting {
  readonly request: CreateAttempt;
  /** Of performance.now(). */
  readonly deadline: number;
  /** Aborted when whoever asked is gone. */
  readonly signal: AbortSignal;
  resolve(attempt: Promise<Attempt>): void;
  reject(error: ServiceError): void;
}

/** The queue before a service's places. */
export class GymPlaces {
  readonly #attempts: Attempts;
  #queue: Waiting[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor(attempts: Attempts) {
    this.#attempts = attempts;
  }

  /** Starts an attempt when its turn has come. */
  take(request: CreateAttempt, deadline: number, signal: AbortSignal): Promise<Attempt> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ request, deadline, signal, resolve, reject });
      this.#serve();
    });
  }

  #serve(): void {
    this.#queue = this.#queue.filter((waiting) => {
      if (waiting.signal.aborted) waiting.reject(new ServiceError("attempt-ended", "nobody waits for it any more"));
      else if (performance.now() >= waiting.deadline) waiting.reject(this.#noPlace());
      else return true;
      return false;
    });
    while (this.#attempts.count < this.#attempts.places) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      next.resolve(this.#attempts.create(next.request)); // It holds its place from here on.
    }
    if (this.#queue.length === 0) {
      clearInterval(this.#timer ?? undefined);
      this.#timer = null;
    } else {
      this.#timer ??= setInterval(() => this.#serve(), LOOK_MILLISECONDS);
    }
  }

  #noPlace(): ServiceError {
    const { places } = this.#attempts;
    return new ServiceError("session-no-place", `none of the ${places} places for attempts became free in time`);
  }
}
