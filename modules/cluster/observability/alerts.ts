/**
 * Alerts: the few things somebody has to be told of, each with what to do. Out: a PrometheusRule. In every text, `$labels`
 * is Prometheus' own.
 */
import { labels, type Manifest, NAMESPACES } from "../../../schemas/manifest.ts";
import { METRICS as m } from "./metrics.ts";

interface Alert {
  readonly alert: string;
  readonly expr: string;
  /** How long it has to be so. */
  readonly for: string;
  readonly severity: "warning" | "critical";
  readonly summary: string;
  readonly todo: string;
}

const UPLIFT = `namespace="${NAMESPACES.platform}"`;

export const ALERTS: readonly Alert[] = [
  {
    alert: "UpliftControllerDown",
    expr: `absent(${m.up}{${UPLIFT}, service="controller"} == 1)`,
    ...{ for: "5m", severity: "critical" },
    summary:
      "The controller does not answer: no dashboard, no leaderboard, and endpoints whose time is over hold their objects.",
    todo: "kubectl -n uplift describe pod -l app.kubernetes.io/name=controller",
  },
  {
    alert: "UpliftEnvironmentsDown",
    expr: `absent(${m.up}{${UPLIFT}, service="environments"} == 1)`,
    ...{ for: "5m", severity: "critical" },
    summary: "The environment service does not answer: rollouts and evaluations wait.",
    todo: "kubectl -n uplift describe pod -l app.kubernetes.io/name=environments",
  },
  {
    alert: "UpliftEnvironmentFailures",
    expr: `sum by (code) (increase(${m.environmentFailures}[15m])) > 20`,
    ...{ for: "15m", severity: "warning" },
    summary: "Environments fail again and again with {{ $labels.code }}: attempts are repeated and cost GPU time.",
    todo: "docs/errors.md has the code; kubectl -n uplift-sandboxes get events",
  },
  {
    alert: "UpliftNodesOut",
    expr: `sum(${m.nodesDrained}) + sum(${m.nodesDown}) > 0`,
    ...{ for: "15m", severity: "warning" },
    summary: "{{ $value }} GPU nodes are paid for and take no job.",
    todo: "kubectl -n slurm exec deploy/slurm-login -- sinfo -R",
  },
  {
    alert: "UpliftJobsWaitBesideIdleNodes",
    expr: `sum(${m.jobsPending}) > 0 and sum(${m.nodesIdle}) > 0`,
    ...{ for: "1h", severity: "warning" },
    summary: "Jobs have been pending for an hour while nodes are idle.",
    todo: "kubectl -n slurm exec deploy/slurm-login -- squeue --start --format='%i %r'",
  },
  {
    alert: "UpliftGpuBroken",
    expr: `max by (Hostname, gpu) (${m.gpuXid} == 48 or ${m.gpuXid} == 79 or ${m.gpuXid} == 94 or ${m.gpuXid} == 95) or max by (Hostname, gpu) (${m.gpuRowRemapFailure}) > 0`,
    ...{ for: "1m", severity: "critical" },
    summary: "GPU {{ $labels.gpu }} of {{ $labels.Hostname }} reports a fault of its own.",
    todo: "drain the node in Slurm, then replace it (docs/day-two.md)",
  },
  {
    alert: "UpliftEndpointsOutliveTheirEnd",
    expr: `increase(${m.endpointEndFailures}[30m]) > 10 or sum(${m.endpoints}{state="expired"}) > 0`,
    ...{ for: "30m", severity: "warning" },
    summary: "Endpoints whose time is over are still there.",
    todo: "uplift endpoints prune; kubectl -n uplift logs deploy/controller says why the controller could not",
  },
  {
    alert: "UpliftEndpointFull",
    expr: `max by (model_name) (${m.kvCacheUsed}) > 0.95 and sum by (model_name) (${m.requestsWaiting}) > 0`,
    ...{ for: "30m", severity: "warning" },
    summary: "{{ $labels.model_name }} has had no room for more requests for half an hour.",
    todo: "lower the evaluation's concurrency, or serve it with more GPUs",
  },
];

/** The Prometheus operator's kind; kubernetes-types does not have it. */
export interface PrometheusRule extends Manifest {
  readonly spec: { readonly groups: readonly { readonly name: string; readonly rules: readonly object[] }[] };
}

export function alertRules(): PrometheusRule {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    metadata: { name: "uplift", namespace: NAMESPACES.platform, labels: labels("observability") },
    spec: {
      groups: [
        {
          name: "uplift",
          rules: ALERTS.map(({ alert, expr, severity, summary, todo, ...rest }) => ({
            ...{ alert, expr, for: rest.for, labels: { severity }, annotations: { summary, todo } },
          })),
        },
      ],
    },
  };
}
