import { describe, expect, test } from "vitest";
import { type PlatformTarget, Target } from "../../../schemas/target.ts";
import ownCluster from "../../../stacks/targets/kubernetes.ts";
import { ALERTS } from "./alerts.ts";
import { grafanaDashboard, ROWS } from "./dashboard.ts";
import { observabilityManifests } from "./index.ts";
import { METRICS } from "./metrics.ts";

const without = Target.parse(ownCluster) as PlatformTarget & { kind: "kubernetes" };
const target = { ...without, platform: { ...without.platform, prometheus: true } };
const expressions = [
  ...ROWS.flatMap(({ panels }) => panels.flatMap(({ queries }) => queries.map(({ expression }) => expression))),
  ...ALERTS.map(({ expr }) => expr),
];

test("a cluster without the Prometheus operator gets none of its kinds", () => {
  expect(observabilityManifests({ target: without })).toEqual([]);
  expect(
    observabilityManifests({ target }).map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`),
  ).toEqual([
    "ServiceMonitor uplift/controller",
    "ServiceMonitor uplift/environments",
    "ServiceMonitor uplift-system/dcgm-exporter",
    "PrometheusRule uplift/uplift",
    "ConfigMap uplift/grafana-dashboard-uplift",
  ]);
});

test("who runs DCGM already has its own monitor", () => {
  const installed = { ...target.platform.installed, dcgm: true };
  const theirs = { ...target, platform: { ...target.platform, installed } };
  expect(observabilityManifests({ target: theirs }).map(({ metadata }) => metadata.name)).not.toContain(
    "dcgm-exporter",
  );
});

describe("metric names", () => {
  test("are read out of expressions: no function, label, text or range is one", () => {
    expect(
      metricsOf('sum by (le, a) (rate(vllm:x_bucket{b="c", d!="e"}[5m])) / on (f) g > 0 and absent(up == 1)'),
    ).toEqual(["vllm:x_bucket", "g", "up"]);
  });

  test("of dashboard and alerts are all in the one table, and every name there is asked for", () => {
    const asked = new Set(expressions.flatMap(metricsOf));
    expect([...asked].filter((name) => !(Object.values(METRICS) as string[]).includes(name))).toEqual([]);
    const unused = Object.values(METRICS).filter((name) => !asked.has(name));
    expect(unused).toEqual([]);
  });
});

test("brackets of every expression are closed", () => {
  for (const expression of expressions)
    for (const [open, close] of ["()", "[]", "{}"].map((pair) => [...pair]))
      expect([expression, expression.split(open as string).length]).toEqual([
        expression,
        expression.split(close as string).length,
      ]);
});

describe("the dashboard", () => {
  // biome-ignore lint/suspicious/noExplicitAny: Grafana's model
  const page = grafanaDashboard(ROWS) as any;

  test("has panels that do not lie on each other and stay on the page, ids that are unique", () => {
    const cells = new Set<string>();
    for (const {
      gridPos: { x, y, w, h },
    } of page.panels) {
      expect(x + w).toBeLessThanOrEqual(24);
      for (let column = x; column < x + w; column++)
        for (let line = y; line < y + h; line++) {
          expect(cells.has(`${column},${line}`)).toBe(false);
          cells.add(`${column},${line}`);
        }
    }
    expect(new Set(page.panels.map(({ id }: { id: number }) => id)).size).toBe(page.panels.length);
  });

  test("asks the Prometheus that the reader chooses", () => {
    expect(page.templating.list).toMatchObject([{ name: "datasource", type: "datasource", query: "prometheus" }]);
    for (const { type, datasource } of page.panels)
      if (type !== "row") expect(datasource).toEqual({ type: "prometheus", uid: `\${${"datasource"}}` });
  });

  test("is found by Grafana's sidecar", () => {
    // biome-ignore lint/suspicious/noExplicitAny: fields of one kind
    const config = observabilityManifests({ target }).find(({ kind }) => kind === "ConfigMap") as any;
    expect(config.metadata.labels.grafana_dashboard).toBe("1");
    expect(JSON.parse(config.data["uplift.json"])).toEqual(page);
  });
});

test("every alert says what is wrong and what to do", () => {
  expect(ALERTS.map(({ alert }) => alert)).toEqual([
    "UpliftControllerDown",
    "UpliftEnvironmentsDown",
    "UpliftEnvironmentFailures",
    "UpliftNodesOut",
    "UpliftJobsWaitBesideIdleNodes",
    "UpliftGpuBroken",
    "UpliftEndpointsOutliveTheirEnd",
    "UpliftEndpointFull",
  ]);
  for (const { summary, todo } of ALERTS) expect(summary.length * todo.length).toBeGreaterThan(0);
});

/** Metric names of a PromQL expression: words that are followed by a selector, a range or nothing, and are no function or label. */
function metricsOf(expression: string): string[] {
  const bare = expression
    .replace(/"[^"]*"/g, "")
    .replace(/\{[^}]*\}/g, "")
    .replace(/\[[^\]]*\]/g, "")
    .replace(/\b(by|without|on|ignoring)\s*\([^)]*\)/g, "");
  const words = bare.match(/[a-zA-Z_:][a-zA-Z0-9_:]*(?!\w*\s*\()/g) ?? [];
  return [...new Set(words.filter((word) => !["and", "or", "unless", "bool"].includes(word)))];
}
