/**
 * Turns: many pieces of work → at most so many at a time, in the order they came.
 * Comes in: functions. Goes out: what they return. Pure.
 *
 * Starting and grading are short bursts of processor time with a time limit; sixty at once on two cores would all be
 * slow, and some would run into their limits for no fault of theirs.
 */

/** A queue with a fixed number of places at its front. */
export class Turns {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** Runs the work when its turn has come; the turn ends with it, however it ends. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next(); // The place is handed on, so that nobody who comes just now can take it first.
    }
  }
}
