import { expect, test } from "vitest";
import { type MetricSources, metricsText } from "./cluster-metrics.ts";

const sources: MetricSources = {
  runs: async () => ({ runs: { running: 2, failed: 1 }, waitingSteps: 7 }),
  leaderboard: async () => ({ schemaVersion: 1, boards: [] }),
  endpoints: async () => [{ state: "ready" }, { state: "ready" }, { state: "starting" }],
  environmentsUp: async () => true,
  pruned: { ended: 3, failures: 1 },
};

/** Every line that is no comment, as a map. */
const values = (text: string) =>
  Object.fromEntries(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const [name = "", value] = line.split(" ");
        return [name, Number(value)];
      }),
  );

test("metrics are Prometheus' text: help and type before the values of each name, a line's end at the end", async () => {
  const text = await metricsText(sources);
  expect(text).toContain(
    '# HELP uplift_runs Runs by state.\n# TYPE uplift_runs gauge\nuplift_runs{state="running"} 2\nuplift_runs{state="succeeded"} 0\n',
  );
  expect(text.endsWith("\n")).toBe(true);
  for (const line of text.trimEnd().split("\n"))
    expect(line).toMatch(/^(# (HELP|TYPE) uplift_[a-z_]+ .+|uplift_[a-z_]+(\{[a-z]+="[a-z]+"\})? \d+)$/);
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  expect(new Set(names).size).toBe(names.length);
});

test("metrics count runs, the queue, endpoints and what has ended", async () => {
  expect(values(await metricsText(sources))).toMatchObject({
    'uplift_runs{state="running"}': 2,
    'uplift_runs{state="failed"}': 1,
    'uplift_runs{state="cancelled"}': 0,
    uplift_steps_waiting: 7,
    'uplift_endpoints{state="ready"}': 2,
    'uplift_endpoints{state="starting"}': 1,
    'uplift_endpoints{state="expired"}': 0,
    uplift_environments_up: 1,
    uplift_endpoints_ended_total: 3,
    uplift_endpoint_end_failures_total: 1,
    'uplift_metrics_errors{part="endpoints"}': 0,
  });
});

test("a part that cannot be read is counted as such and hides no other", async () => {
  const endpoints = async () => Promise.reject(new Error("no API"));
  const found = values(await metricsText({ ...sources, endpoints }));
  expect(found['uplift_metrics_errors{part="endpoints"}']).toBe(1);
  expect(found['uplift_metrics_errors{part="runs"}']).toBe(0);
  expect(found['uplift_endpoints{state="ready"}']).toBeUndefined();
  expect(found.uplift_steps_waiting).toBe(7);
});
