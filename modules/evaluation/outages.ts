/**
 * Outages: the two services' health → a wait until both answer again, or the end of the evaluation.
 * Takes their addresses; asks GET /health of both, nothing else. A restart of either takes longer than an attempt's
 * retries do: without this wait a short outage would be counted as wrong answers for good.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../../schemas/error.ts";
import { InfrastructureFailure } from "./failures.ts";
import { jsonClient } from "./http.ts";

/** How long a service may be away, seconds: longer than either needs to be started again. */
const OUTAGE_SECONDS = 120;
/** A health check that takes longer has failed. */
const CHECK_SECONDS = 5;
const PAUSE_MILLISECONDS = 1000;

/** Time, as the wait sees it. */
export interface Clock {
  /** Milliseconds since any fixed moment. */
  now(): number;
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

/** A pair of services that may be away for a while. */
export interface Outages {
  /**
   * Returns when both services answer; everyone who waits at the same time waits for the same outage. Throws UserError
   * `evaluation-infrastructure` when one stays away longer than the limit, the abort's reason when aborted.
   */
  over(signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (milliseconds, signal) => sleep(milliseconds, undefined, { signal }),
};

/** Watches one evaluation's endpoint (its address with or without /v1) and environment service. */
export function watchServices(options: {
  evaluation: string;
  endpointUrl: string;
  environmentUrl: string;
  limitSeconds?: number;
  clock?: Clock;
}): Outages {
  const { clock = CLOCK, limitSeconds = OUTAGE_SECONDS } = options;
  const check = { timeoutSeconds: CHECK_SECONDS };
  const services = [
    { who: "endpoint", client: jsonClient("endpoint", options.endpointUrl.replace(/\/v1\/?$/, ""), check) },
    { who: "environment", client: jsonClient("environment", options.environmentUrl, check) },
  ];

  async function firstTrouble(signal?: AbortSignal): Promise<string | null> {
    for (const { who, client } of services) {
      try {
        const { status } = await client.send("GET", "/health", undefined, signal);
        // Whatever says 404 here is up; it only has no health to tell.
        if (status >= 500) return `${who}: GET /health: ${status}`;
      } catch (error) {
        if (!(error instanceof InfrastructureFailure)) throw error;
        return `${error.code}: ${error.message}`;
      }
    }
    return null;
  }

  async function wait(signal?: AbortSignal): Promise<void> {
    const started = clock.now();
    for (;;) {
      const trouble = await firstTrouble(signal);
      if (trouble === null) return;
      if (clock.now() - started >= limitSeconds * 1000) throw away(options.evaluation, limitSeconds, trouble);
      await clock.sleep(PAUSE_MILLISECONDS, signal).catch((error: unknown) => {
        signal?.throwIfAborted();
        throw error;
      });
    }
  }

  let waiting: Promise<void> | null = null;
  return {
    over(signal) {
      waiting ??= wait(signal).finally(() => {
        waiting = null;
      });
      return waiting;
    },
    close: async () => {
      await Promise.all(services.map(({ client }) => client.close()));
    },
  };
}

function away(evaluation: string, limitSeconds: number, trouble: string): UserError {
  return new UserError({
    code: "evaluation-infrastructure",
    path: evaluation,
    asked: "endpoint and environment service were to answer",
    found: `for ${limitSeconds} seconds one of them did not; last ${trouble}`,
    allowed: `an outage of at most ${limitSeconds} seconds, which is waited for`,
    todo: "repair what is named here and start the evaluation again; finished attempts are kept, broken ones are not counted",
  });
}
