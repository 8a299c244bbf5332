/**
 * What Pulumi's events become: steps with their part and fields, and word of what is waited for when nothing else is told.
 */
import type { EngineEvent } from "@pulumi/pulumi/automation/index.js";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { EventCollector, type StackProgress } from "../stacks/engine-events.ts";

const URN = "urn:pulumi:kubernetes::uplift::";
const PART = `${URN}uplift:cluster:Part::slurm`;

function metadata(name: string, op: string, more: object = {}) {
  const type = `kubernetes:core/v1:${name.split(" ")[0]}`;
  const state = { parent: PART };
  return { op, type, urn: `${PART}$${type}::${name}`, old: state, new: state, provider: "", ...more };
}
const event = (
  kind: "resourcePreEvent" | "resOutputsEvent" | "resOpFailedEvent",
  name: string,
  op = "create",
  more = {},
) => ({ sequence: 0, timestamp: 0, [kind]: { metadata: metadata(name, op, more) } }) as unknown as EngineEvent;

let told: StackProgress[];
let collector: EventCollector;
const waits = () => told.flatMap((one) => (one.kind === "open" ? [one.resources] : []));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  told = [];
  collector = new EventCollector("kubernetes", (one) => told.push(one));
});
afterEach(() => {
  vi.useRealTimers();
});

it("A step has the part it is made under, its kind, its name and the fields that differ", () => {
  collector.onEvent(
    event("resOutputsEvent", "Deployment uplift/controller", "update", { detailedDiff: { "spec.replicas": {} } }),
  );
  expect(told).toEqual([
    {
      ...{ kind: "resource", state: "done", operation: "update", part: "slurm", type: "Deployment" },
      ...{ name: "Deployment uplift/controller", changed: ["spec.replicas"] },
    },
  ]);
});

it("Half a minute without news tells what is open and for how long, again and again, until it is done", () => {
  collector.onEvent(event("resourcePreEvent", "NodeSet slurm/workers"));
  vi.advanceTimersByTime(10_000);
  collector.onEvent(event("resourcePreEvent", "Deployment uplift/controller"));
  vi.advanceTimersByTime(19_999);
  expect(waits()).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(waits()).toEqual([
    [
      { type: "NodeSet", name: "NodeSet slurm/workers", seconds: 30 },
      { type: "Deployment", name: "Deployment uplift/controller", seconds: 20 },
    ],
  ]);
  vi.advanceTimersByTime(29_000);
  collector.onEvent(event("resOutputsEvent", "NodeSet slurm/workers"));
  // A line was printed: the half minute begins anew.
  vi.advanceTimersByTime(29_999);
  expect(waits()).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(waits()[1]).toEqual([{ type: "Deployment", name: "Deployment uplift/controller", seconds: 79 }]);
});

it("What is only looked at, and is as it was, breaks no silence, and is not waited for when it is done", () => {
  collector.onEvent(event("resourcePreEvent", "ConfigMap slurm/one", "refresh"));
  vi.advanceTimersByTime(29_000);
  collector.onEvent(event("resOutputsEvent", "ConfigMap slurm/one", "refresh"));
  collector.onEvent(event("resourcePreEvent", "ConfigMap slurm/two", "same"));
  vi.advanceTimersByTime(1000);
  expect(waits()).toEqual([[]]);
});

it("Nothing is told after the end, whether it ended well or not", async () => {
  collector.onEvent(event("resourcePreEvent", "NodeSet slurm/workers"));
  collector.onEvent({ sequence: 1, timestamp: 0, cancelEvent: {} });
  vi.advanceTimersByTime(120_000);
  expect(waits()).toEqual([]);
  const failed = new EventCollector("kubernetes", (one) => told.push(one));
  failed.onEvent(event("resourcePreEvent", "NodeSet slurm/workers"));
  await failed.explain(new Error("ended"), "/nonexistent");
  vi.advanceTimersByTime(120_000);
  expect(waits()).toEqual([]);
});
