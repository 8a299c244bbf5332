/**
 * Dashboard: one Grafana page of a platform as data: GPU use, Slurm's queue, environments, endpoints. In: nothing. Out: the JSON that
 * Grafana's sidecar reads from a ConfigMap with the label grafana_dashboard.
 */
import type { ConfigMap } from "kubernetes-types/core/v1.js";
import { labels, type Manifest, NAMESPACES } from "../../../schemas/manifest.ts";
import { METRICS as m } from "./metrics.ts";

/** Units as Grafana names them. */
type Unit = "percent" | "percentunit" | "short" | "decmbytes" | "watt" | "celsius" | "s" | "reqps";

interface Query {
  readonly expression: string;
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  /** What to look for. */
  readonly description: string;
  readonly unit: Unit;
  readonly queries: readonly Query[];
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const query = (expression: string, legend: string): Query => ({ expression, legend });
const quantile = (share: number, bucket: string, by: string) =>
  `histogram_quantile(${share}, sum by (le, ${by}) (rate(${bucket}[5m])))`;

/** The page, as text would tell it. */
export const ROWS: readonly Row[] = [
  {
    title: "Runs",
    panels: [
      {
        title: "Runs by state",
        description: "Of the controller's database.",
        unit: "short",
        queries: [query(`sum by (state) (${m.runs})`, "{{state}}")],
      },
      {
        title: "Steps that have not started",
        description: "Of runs that go on.",
        unit: "short",
        queries: [query(`sum(${m.stepsWaiting})`, "waiting")],
      },
      {
        title: "Endpoints by state",
        description: "Expired ones hold no GPUs and are about to be removed.",
        unit: "short",
        queries: [query(`sum by (state) (${m.endpoints})`, "{{state}}")],
      },
    ],
  },
  {
    title: "GPUs",
    panels: [
      {
        title: "GPU use by node",
        description: "A node of a running job near 0 waits: for data, a collective, a checkpoint.",
        unit: "percent",
        queries: [query(`avg by (Hostname) (${m.gpuUtilization})`, "{{Hostname}}")],
      },
      {
        title: "Tensor cores active",
        description: "The share of cycles that compute matrices; the use above counts any kernel.",
        unit: "percentunit",
        queries: [query(`avg by (Hostname) (${m.tensorActive})`, "{{Hostname}}")],
      },
      {
        title: "GPU memory used",
        description: "The fullest GPU of each node; the plan's fit says what was expected.",
        unit: "percentunit",
        queries: [
          query(`max by (Hostname) (${m.gpuMemoryUsed} / (${m.gpuMemoryUsed} + ${m.gpuMemoryFree}))`, "{{Hostname}}"),
        ],
      },
      {
        title: "Power",
        description: "Of all GPUs of a node.",
        unit: "watt",
        queries: [query(`sum by (Hostname) (${m.gpuPower})`, "{{Hostname}}")],
      },
      {
        title: "Hottest GPU",
        description: "Of each node.",
        unit: "celsius",
        queries: [query(`max by (Hostname) (${m.gpuTemperature})`, "{{Hostname}}")],
      },
      {
        title: "Last XID error",
        description:
          "0: none since the driver was loaded. Others are NVIDIA's numbers; 13, 31 and 43 are the program's, 48, 79, 94, 95 the GPU's.",
        unit: "short",
        queries: [query(`max by (Hostname, gpu) (${m.gpuXid}) > 0`, "{{Hostname}} GPU {{gpu}}")],
      },
    ],
  },
  {
    title: "Queue",
    panels: [
      {
        title: "Slurm jobs",
        description: "Pending jobs with idle nodes: see the reason with squeue.",
        unit: "short",
        queries: [query(`sum(${m.jobsRunning})`, "running"), query(`sum(${m.jobsPending})`, "pending")],
      },
      {
        title: "Pending by partition",
        description: "",
        unit: "short",
        queries: [query(`sum by (partition) (${m.partitionJobsPending})`, "{{partition}}")],
      },
      {
        title: "Slurm nodes",
        description: "Drained and down nodes are paid for and run nothing: sinfo -R says why.",
        unit: "short",
        queries: [
          query(`sum(${m.nodesAllocated})`, "allocated"),
          query(`sum(${m.nodesIdle})`, "idle"),
          query(`sum(${m.nodesDrained})`, "drained"),
          query(`sum(${m.nodesDown})`, "down"),
        ],
      },
    ],
  },
  {
    title: "Environments",
    panels: [
      {
        title: "Attempts",
        description: "At the limit, further ones wait.",
        unit: "short",
        queries: [query(`sum(${m.attemptsLive})`, "live"), query(`sum(${m.attemptsPlaces})`, "limit")],
      },
      {
        title: "Attempts ended",
        description: "Lost ones count for no model and are tried again.",
        unit: "reqps",
        queries: [query(`sum by (outcome) (rate(${m.attemptsEnded}[5m]))`, "{{outcome}}")],
      },
      {
        title: "Infrastructure failures",
        description: "By code (docs/errors.md).",
        unit: "reqps",
        queries: [query(`sum by (code) (rate(${m.environmentFailures}[5m]))`, "{{code}}")],
      },
      {
        title: "Start of a sandbox, p95",
        description: "Minutes mean that nodes are being made.",
        unit: "s",
        queries: [query(quantile(0.95, m.sandboxStart, "purpose"), "{{purpose}}")],
      },
    ],
  },
  {
    title: "Endpoints",
    panels: [
      {
        title: "Requests",
        description: "",
        unit: "short",
        queries: [
          query(`sum by (model_name) (${m.requestsRunning})`, "{{model_name}} running"),
          query(`sum by (model_name) (${m.requestsWaiting})`, "{{model_name}} waiting"),
        ],
      },
      {
        title: "KV cache used",
        description: "Near 100 % requests wait or are preempted: the plan's concurrency is more than fits.",
        unit: "percentunit",
        queries: [query(`max by (model_name) (${m.kvCacheUsed})`, "{{model_name}}")],
      },
      {
        title: "Tokens a second",
        description: "",
        unit: "short",
        queries: [
          query(`sum by (model_name) (rate(${m.promptTokens}[5m]))`, "{{model_name}} prompt"),
          query(`sum by (model_name) (rate(${m.generatedTokens}[5m]))`, "{{model_name}} generated"),
        ],
      },
      {
        title: "Time to first token, p95",
        description: "",
        unit: "s",
        queries: [query(quantile(0.95, m.firstToken, "model_name"), "{{model_name}}")],
      },
      {
        title: "Preemptions",
        description: "A preempted request is computed anew.",
        unit: "reqps",
        queries: [query(`sum by (model_name) (rate(${m.preemptions}[5m]))`, "{{model_name}}")],
      },
    ],
  },
];

/** Grafana divides a page into 24 columns. */
const WIDTH = 8;
const COLUMNS = 24 / WIDTH;
const HEIGHT = 8;
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable
const DATASOURCE = { type: "prometheus", uid: "${datasource}" };

/** Grafana's model of the page. */
export function grafanaDashboard(rows: readonly Row[]): Record<string, unknown> {
  const panels: Record<string, unknown>[] = [];
  let y = 0;
  for (const row of rows) {
    const id = panels.length + 1;
    panels.push({ id, type: "row", title: row.title, collapsed: false, gridPos: { x: 0, y, w: 24, h: 1 }, panels: [] });
    for (const [index, panel] of row.panels.entries()) {
      const x = (index % COLUMNS) * WIDTH;
      const top = y + 1 + Math.floor(index / COLUMNS) * HEIGHT;
      panels.push(timeSeries(panel, id + index + 1, { x, y: top, w: WIDTH, h: HEIGHT }));
    }
    y += 1 + Math.ceil(row.panels.length / COLUMNS) * HEIGHT;
  }
  return {
    ...{ uid: "uplift", title: "Uplift", tags: ["uplift"], schemaVersion: 39, version: 1, editable: false, panels },
    ...{ time: { from: "now-6h", to: "now" }, refresh: "30s", timezone: "utc", graphTooltip: 1 },
    templating: { list: [{ name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus" }] },
  };
}

function timeSeries({ title, description, unit, queries }: Panel, id: number, gridPos: Record<string, number>) {
  return {
    ...{ id, type: "timeseries", title, description, datasource: DATASOURCE, gridPos },
    fieldConfig: { defaults: { unit, min: 0, custom: { fillOpacity: 10 } }, overrides: [] },
    options: { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: queries.map(({ expression, legend }, index) => ({
      ...{ refId: String.fromCharCode(65 + index), datasource: DATASOURCE, expr: expression, legendFormat: legend },
    })),
  };
}

/** The dashboard where Grafana's sidecar finds it (it looks in all namespaces when searchNamespace is ALL). */
export function dashboardManifest() {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      name: "grafana-dashboard-uplift",
      namespace: NAMESPACES.platform,
      labels: { ...labels("observability"), grafana_dashboard: "1" },
      annotations: { grafana_folder: "Uplift" },
    },
    data: { "uplift.json": `${JSON.stringify(grafanaDashboard(ROWS), null, 2)}\n` },
  } satisfies ConfigMap & Manifest;
}
