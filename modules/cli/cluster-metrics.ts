/**
 * Cluster metrics: what the controller knows → Prometheus' text format (version 0.0.4). A part that cannot be read is missing
 * from the answer and counted in uplift_metrics_errors, so that one outage does not hide the rest.
 */
import type { ClusterEndpoint } from "../../schemas/endpoint.ts";
import type { Leaderboard } from "../../schemas/leaderboard.ts";
import { RunState } from "../../schemas/run.ts";

/** Where the numbers come from. */
export interface MetricSources {
  runs(): Promise<{ runs: Partial<Record<RunState, number>>; waitingSteps: number }>;
  leaderboard(): Promise<Leaderboard>;
  endpoints(): Promise<readonly { readonly state: string }[]>;
  environmentsUp(): Promise<boolean>;
  /** Since the process started. */
  readonly pruned: { ended: number; failures: number };
}

interface Metric {
  readonly name: string;
  readonly type: "gauge" | "counter";
  readonly help: string;
  /** Of one label, or of none (""). */
  readonly values: Readonly<Record<string, number>>;
  readonly label?: string;
}

const ENDPOINT_STATES = ["starting", "ready", "expired", "failed"] as const satisfies ClusterEndpoint["state"][];

/** The text of /metrics. */
export async function metricsText(sources: MetricSources): Promise<string> {
  const parts = { runs: runMetrics, leaderboard: evaluationMetrics, endpoints: endpointMetrics, environments };
  const settled = await Promise.all(
    Object.entries(parts).map(async ([part, read]) => ({
      part,
      metrics: await read(sources).catch(() => null),
    })),
  );
  const errors = Object.fromEntries(settled.map(({ part, metrics }) => [part, metrics === null ? 1 : 0]));
  const { ended, failures } = sources.pruned;
  const own: Metric[] = [
    counter("uplift_endpoints_ended_total", "Endpoints ended because their time was over.", ended),
    counter("uplift_endpoint_end_failures_total", "Looks for expired endpoints that failed.", failures),
    {
      ...{ name: "uplift_metrics_errors", type: "gauge", help: "1 for a part that could not be read now." },
      ...{ label: "part", values: errors },
    },
  ];
  return [...settled.flatMap(({ metrics }) => metrics ?? []), ...own].map(textOf).join("");
}

async function runMetrics(sources: MetricSources): Promise<Metric[]> {
  const { runs, waitingSteps } = await sources.runs();
  const values = Object.fromEntries(RunState.options.map((state) => [state, runs[state] ?? 0]));
  return [
    { name: "uplift_runs", type: "gauge", help: "Runs by state.", label: "state", values },
    gauge("uplift_steps_waiting", "Steps of running runs that have not started.", waitingSteps),
  ];
}

async function evaluationMetrics(sources: MetricSources): Promise<Metric[]> {
  const rows = (await sources.leaderboard()).boards.flatMap((board) => board.rows);
  const sum = (of: "attempts" | "infrastructureFailures" | "infrastructureRetries") =>
    rows.reduce((total, row) => total + row[of], 0);
  return [
    counter("uplift_evaluations_total", "Published evaluations.", rows.length),
    counter("uplift_evaluation_attempts_total", "Attempts of published evaluations.", sum("attempts")),
    counter(
      "uplift_evaluation_infrastructure_failures_total",
      "Attempts of published evaluations that the infrastructure broke.",
      sum("infrastructureFailures"),
    ),
    counter(
      "uplift_evaluation_infrastructure_retries_total",
      "Times an attempt was begun again because the infrastructure broke it.",
      sum("infrastructureRetries"),
    ),
  ];
}

async function endpointMetrics(sources: MetricSources): Promise<Metric[]> {
  const endpoints = await sources.endpoints();
  const values = Object.fromEntries(
    ENDPOINT_STATES.map((state) => [state, endpoints.filter((endpoint) => endpoint.state === state).length]),
  );
  return [{ name: "uplift_endpoints", type: "gauge", help: "Endpoints by state.", label: "state", values }];
}

async function environments(sources: MetricSources): Promise<Metric[]> {
  const up = (await sources.environmentsUp()) ? 1 : 0;
  return [gauge("uplift_environments_up", "1 where the environment service answers.", up)];
}

const gauge = (name: string, help: string, value: number): Metric => ({
  name,
  help,
  type: "gauge",
  values: { "": value },
});
const counter = (name: string, help: string, value: number): Metric => ({
  ...gauge(name, help, value),
  type: "counter",
});

function textOf({ name, help, type, label, values }: Metric): string {
  const lines = Object.entries(values).map(([value, number]) =>
    label === undefined ? `${name} ${number}` : `${name}{${label}="${value}"} ${number}`,
  );
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n");
}
