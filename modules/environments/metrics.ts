/**
 * Metrics: what the service counts → Prometheus text. Comes in: events. Goes out: one text. Pure but for its counts.
 */
import type { RolloutOutcome } from "./gym-protocol.ts";
import type { SandboxPurpose } from "./sandbox-profile.ts";
import type { ServiceErrorCode } from "./service-error.ts";

/** How an attempt can end. */
export type AttemptOutcome = "graded" | "ended" | "expired" | "lost";

/** Upper bounds, seconds: a process takes 0.1, a pod some 2, one that waits for a new node minutes. */
const START_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

interface Histogram {
  readonly counts: number[];
  sum: number;
  total: number;
}

/** The counts of one service since its start. */
export class Metrics {
  readonly #outcomes: Record<AttemptOutcome, number> = { graded: 0, ended: 0, expired: 0, lost: 0 };
  readonly #rollouts: Record<RolloutOutcome, number> = { passed: 0, failed: 0, masked: 0 };
  readonly #failures = new Map<ServiceErrorCode, number>();
  readonly #starts = new Map<SandboxPurpose, Histogram>();
  #created = 0;

  attemptCreated(): void {
    this.#created += 1;
  }

  attemptEnded(outcome: AttemptOutcome): void {
    this.#outcomes[outcome] += 1;
  }

  /** Of NeMo Gym's; an attempt too, so counted there as well. */
  rolloutEnded(outcome: RolloutOutcome): void {
    this.#rollouts[outcome] += 1;
  }

  /** An answer with `infrastructure: true`, or a rollout masked for it. */
  infrastructureFailure(code: ServiceErrorCode): void {
    this.#failures.set(code, (this.#failures.get(code) ?? 0) + 1);
  }

  /** From the wish for a sandbox to its repository being unpacked. */
  sandboxStarted(purpose: SandboxPurpose, seconds: number): void {
    const histogram = this.#starts.get(purpose) ?? { counts: START_BUCKETS.map(() => 0), sum: 0, total: 0 };
    this.#starts.set(purpose, histogram);
    for (const [index, bound] of START_BUCKETS.entries()) {
      if (seconds <= bound) histogram.counts[index] = (histogram.counts[index] ?? 0) + 1;
    }
    histogram.sum += seconds;
    histogram.total += 1;
  }

  /** In the text format 0.0.4, which every Prometheus reads. */
  render(live: { attempts: number; places: number }): string {
    const name = "uplift_environments";
    const lines = [
      ...gauge(`${name}_attempts_live`, "Attempts that hold a sandbox, or a place for one.", live.attempts),
      ...gauge(`${name}_attempts_places`, "Attempts that may live at once.", live.places),
      ...counter(`${name}_attempts_total`, "Attempts started.", [["", this.#created]]),
      ...counter(
        `${name}_attempts_ended_total`,
        "Attempts that are over, by how they ended.",
        Object.entries(this.#outcomes).map(([outcome, count]) => [`{outcome="${outcome}"}`, count]),
      ),
      ...counter(
        `${name}_gym_rollouts_total`,
        "Rollouts of NeMo Gym that were verified, each once; masked: no grade could be had, so nothing is learnt from it.",
        Object.entries(this.#rollouts).map(([outcome, count]) => [`{outcome="${outcome}"}`, count]),
      ),
      ...counter(
        `${name}_infrastructure_failures_total`,
        "Answers that say to try again and are never counted against a model, by code.",
        [...this.#failures].sort(([a], [b]) => (a < b ? -1 : 1)).map(([code, count]) => [`{code="${code}"}`, count]),
      ),
      `# HELP ${name}_sandbox_start_seconds From the wish for a sandbox to its being ready.`,
      `# TYPE ${name}_sandbox_start_seconds histogram`,
      ...[...this.#starts].flatMap(([purpose, histogram]) =>
        histogramLines(`${name}_sandbox_start_seconds`, `purpose="${purpose}"`, histogram),
      ),
    ];
    return `${lines.join("\n")}\n`;
  }
}

function gauge(name: string, help: string, value: number): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, `${name} ${value}`];
}

function counter(name: string, help: string, series: readonly (readonly [string, number])[]): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} counter`, ...series.map(([of, value]) => `${name}${of} ${value}`)];
}

function histogramLines(name: string, label: string, { counts, sum, total }: Histogram): string[] {
  return [
    ...START_BUCKETS.map((bound, index) => `${name}_bucket{${label},le="${bound}"} ${counts[index]}`),
    `${name}_bucket{${label},le="+Inf"} ${total}`,
    `${name}_sum{${label}} ${sum}`,
    `${name}_count{${label}} ${total}`,
  ];
}
