import { expect, it } from "vitest";
import type { ResourceStep } from "../../stacks/engine-events.ts";
import { duration, ProgressTeller, previewLines, progressLine } from "./progress.ts";

const step = (operation: string, part: string, name: string, changed: string[] = []): ResourceStep => ({
  ...{ operation, part, name, changed },
  type: name.split(" ")[0] ?? name,
});
const PREVIEW = [
  step("create", "slurm", "ConfigMap slurm/one"),
  step("create", "slurm", "ConfigMap slurm/two"),
  step("create", "slurm", "NodeSet slurm/training"),
  step("create", "", "Release operator"),
  step("update", "controller", "Deployment uplift/controller", ["spec.template", "metadata.labels"]),
  step("delete", "slurm", "ConfigMap slurm/old"),
];

it("Every object is told by its kind and name, and a random value with the Secret that carries it", () => {
  const line = (type: string, name: string) =>
    progressLine({ kind: "resource", state: "done", part: "", operation: "create", changed: [], type, name });
  expect(line("Secret", "secret uplift/database")).toBe("  create Secret uplift/database");
  expect(line("Secret", "Secret slurm/slurm-sssd")).toBe("  create Secret slurm/slurm-sssd");
  expect(line("Bucket", "uplift-traces")).toBe("  create Bucket uplift-traces");
  expect(line("RandomSecret", "api-key")).toBeNull();
});

it("Waiting is told with what is waited for and for how long, the longest first", () => {
  const resources = [
    { type: "StatefulSet", name: "StatefulSet uplift/postgres", seconds: 130 },
    { type: "Cluster", name: "eks", seconds: 40 },
  ];
  expect(progressLine({ kind: "open", resources })).toBe(
    "  still waiting: StatefulSet uplift/postgres (2 m 10 s), Cluster eks (40 s)",
  );
  const many = Array.from({ length: 9 }, (_, index) => ({ type: "Job", name: `Job ${index}`, seconds: 31 }));
  expect(progressLine({ kind: "open", resources: many })).toMatch(/Job 4 \(31 s\) and 4 more$/);
  expect(progressLine({ kind: "open", resources: [] })).toContain("for Pulumi");
  expect([59, 60, 3599, 3900].map(duration)).toEqual(["59 s", "1 m 0 s", "59 m 59 s", "1 h 5 m"]);
});

it("A preview counts what it would make by part and kind, and tells every change of what is there with its fields", () => {
  expect(previewLines(PREVIEW)).toEqual([
    "  create 3 of slurm: 2 ConfigMap, NodeSet",
    "  create 1 of the platform itself: Release",
    "  update Deployment uplift/controller: spec.template, metadata.labels",
    "  delete ConfigMap slurm/old",
  ]);
  expect(previewLines(PREVIEW, { verbose: true })).toEqual([
    ...["  create ConfigMap slurm/one", "  create ConfigMap slurm/two", "  create NodeSet slurm/training"],
    "  create Release operator",
    "  update Deployment uplift/controller: spec.template, metadata.labels",
    "  delete ConfigMap slurm/old",
  ]);
});

it("Steps of a preview are told when it is over, those of an up as they are done, book-keeping never", async () => {
  const printed: string[] = [];
  const teller = new ProgressTeller((line) => printed.push(line));
  const report = (one: ResourceStep, state: "started" | "done") => teller.tell({ kind: "resource", state, ...one });
  const one = PREVIEW[0] as ResourceStep;
  const result = await teller.preview(async () => {
    for (const state of ["started", "done"] as const) report(one, state);
    report(step("refresh", "slurm", "ConfigMap slurm/two"), "done");
    report(step("same", "slurm", "ConfigMap slurm/three"), "done");
    teller.tell({ kind: "open", resources: [] });
    expect(printed).toHaveLength(1);
    return { changes: 1 };
  });
  expect(result).toEqual({ changes: 1, steps: [one] });
  expect(printed[1]).toBe("  create 1 of slurm: ConfigMap");
  report(one, "started");
  report(one, "done");
  report(step("same", "slurm", "ConfigMap slurm/three"), "done");
  expect(printed.slice(2)).toEqual(["  create ConfigMap slurm/one"]);
});

it("In JSON nothing is printed, and the steps are complete", async () => {
  const teller = new ProgressTeller(null);
  const { steps } = await teller.preview(async () => {
    for (const one of PREVIEW) teller.tell({ kind: "resource", state: "done", ...one });
    return {};
  });
  expect(steps).toEqual(PREVIEW);
});
