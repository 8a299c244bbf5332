/**
 * Bounded: many pieces of work, a few at a time. Takes functions; touches nothing itself.
 */

/** Runs `work` on every item, `limit` at a time. The first that throws aborts the others, which are waited for. */
export async function forEach<T>(
  items: readonly T[],
  limit: number,
  abort: AbortController,
  work: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < items.length && !abort.signal.aborted) {
      const item = items[next] as T;
      next += 1;
      await work(item);
    }
  };
  const failures: unknown[] = [];
  await Promise.all(
    Array.from({ length: Math.min(limit, items.length) }, () =>
      worker().catch((error: unknown) => {
        failures.push(error);
        abort.abort(error);
      }),
    ),
  );
  if (failures.length > 0) throw failures[0];
}

/** Writes under way: the next attempt starts while a slow disk takes the last one, but memory stays bounded. */
export class Writes {
  private readonly underway = new Set<Promise<void>>();
  private readonly limit: number;
  private readonly abort: AbortController;
  private failure: { error: unknown } | null = null;

  constructor(limit: number, abort: AbortController) {
    this.limit = limit;
    this.abort = abort;
  }

  /** Starts a write; waits only while too many are under way. A failed one aborts the evaluation. */
  async start(write: () => Promise<void>): Promise<void> {
    const one = write().catch((error: unknown) => {
      this.failure ??= { error };
      this.abort.abort(error);
    });
    this.underway.add(one);
    one.finally(() => this.underway.delete(one));
    if (this.underway.size >= this.limit) await Promise.race(this.underway);
  }

  /** Waits for all of them; throws what the first failed one threw. */
  async end(): Promise<void> {
    await Promise.all(this.underway);
    if (this.failure !== null) throw this.failure.error;
  }
}
