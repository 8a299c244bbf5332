/** The text that Prometheus reads. */
import { expect, it } from "vitest";
import { Metrics } from "./metrics.ts";

it("tells attempts, failures and start times in Prometheus' text format", () => {
  const metrics = new Metrics();
  metrics.attemptCreated();
  metrics.attemptCreated();
  metrics.attemptEnded("graded");
  metrics.rolloutEnded("masked");
  metrics.infrastructureFailure("sandbox-lost");
  metrics.infrastructureFailure("sandbox-lost");
  metrics.infrastructureFailure("grader-failed");
  metrics.sandboxStarted("attempt", 0.2);
  metrics.sandboxStarted("attempt", 400);
  const lines = metrics.render({ attempts: 1, places: 16 }).split("\n");
  expect(lines.at(-1)).toBe("");
  expect(lines.filter((line) => !line.startsWith("#"))).toEqual([
    "uplift_environments_attempts_live 1",
    "uplift_environments_attempts_places 16",
    "uplift_environments_attempts_total 2",
    'uplift_environments_attempts_ended_total{outcome="graded"} 1',
    'uplift_environments_attempts_ended_total{outcome="ended"} 0',
    'uplift_environments_attempts_ended_total{outcome="expired"} 0',
    'uplift_environments_attempts_ended_total{outcome="lost"} 0',
    'uplift_environments_gym_rollouts_total{outcome="passed"} 0',
    'uplift_environments_gym_rollouts_total{outcome="failed"} 0',
    'uplift_environments_gym_rollouts_total{outcome="masked"} 1',
    'uplift_environments_infrastructure_failures_total{code="grader-failed"} 1',
    'uplift_environments_infrastructure_failures_total{code="sandbox-lost"} 2',
    'uplift_environments_sandbox_start_seconds_bucket{purpose="attempt",le="0.1"} 0',
    ...["0.25", "0.5", "1", "2.5", "5", "10", "30", "60", "120", "300"].map(
      (bound) => `uplift_environments_sandbox_start_seconds_bucket{purpose="attempt",le="${bound}"} 1`,
    ),
    'uplift_environments_sandbox_start_seconds_bucket{purpose="attempt",le="+Inf"} 2',
    'uplift_environments_sandbox_start_seconds_sum{purpose="attempt"} 400.2',
    'uplift_environments_sandbox_start_seconds_count{purpose="attempt"} 2',
    "",
  ]);
  for (const name of lines.flatMap((line) => /^# TYPE (\S+)/.exec(line)?.[1] ?? [])) {
    expect(lines.some((line) => line.startsWith(`# HELP ${name} `))).toBe(true);
  }
});
