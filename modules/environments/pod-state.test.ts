/** What the API says of a pod, read. */
import { describe, expect, it } from "vitest";
import { Pod } from "./kubernetes-api.ts";
import { stateOf } from "./pod-state.ts";

const pod = (status: object, metadata: object = {}) => Pod.parse({ metadata: { name: "p", ...metadata }, status });

describe("a pod", () => {
  it("that runs is up", () => {
    expect(stateOf(pod({ phase: "Running" }))).toEqual({ kind: "up" });
  });

  it("without a place is coming, with the scheduler's words for the case that it waits too long", () => {
    const conditions = [
      { type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/3 nodes are available" },
    ];
    expect(stateOf(pod({ phase: "Pending", conditions }))).toEqual({
      kind: "coming",
      why: "no node has room for it: Unschedulable: 0/3 nodes are available",
    });
  });

  it("whose image cannot be pulled now is coming; one whose image has no name is over", () => {
    const waiting = (reason: string) => ({
      phase: "Pending",
      containerStatuses: [{ state: { waiting: { reason, message: "m" } } }],
    });
    expect(stateOf(pod(waiting("ImagePullBackOff")))).toEqual({
      kind: "coming",
      why: "its container is not up: ImagePullBackOff: m",
    });
    expect(stateOf(pod(waiting("InvalidImageName")))).toEqual({
      kind: "over",
      why: "its container cannot start: InvalidImageName: m",
    });
    expect(stateOf(pod({}))).toEqual({ kind: "coming", why: "its container is not up" });
  });

  it("that ended says whether its node, its memory or itself ended it", () => {
    expect(stateOf(pod({ phase: "Failed", reason: "Evicted", message: "low on memory" }))).toEqual({
      kind: "over",
      why: "its pod ended (Failed): Evicted: low on memory",
    });
    const containerStatuses = [{ state: { terminated: { reason: "OOMKilled", exitCode: 137 } } }];
    expect(stateOf(pod({ phase: "Failed", containerStatuses }))).toEqual({
      kind: "over",
      why: "its pod ended (Failed): OOMKilled: exit code 137",
    });
    expect(stateOf(pod({ phase: "Succeeded" }))).toEqual({ kind: "over", why: "its pod ended (Succeeded)" });
  });

  it("that is being deleted is over, with the reason of the disruption", () => {
    const conditions = [
      { type: "DisruptionTarget", status: "True", reason: "DeletionByTaintManager", message: "node is gone" },
    ];
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    expect(stateOf(pod({ phase: "Running", conditions }, { deletionTimestamp }))).toEqual({
      kind: "over",
      why: "its pod is being deleted: DeletionByTaintManager: node is gone",
    });
  });

  it("that is not there was deleted by someone else", () => {
    expect(stateOf(undefined).kind).toBe("over");
  });
});
