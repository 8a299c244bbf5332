import { describe, expect, it } from "vitest";
import { RunStep } from "../../schemas/run.ts";
import { describe as describeStep, hasEnded } from "./follow.ts";

const step = (fields: object) =>
  RunStep.parse({
    ...{ id: "rl", kind: "train", state: "pending", tries: 0, progress: null, result: null, error: null },
    ...{ startedAt: null, endedAt: null },
    ...fields,
  });

describe("a step's line", () => {
  it("says how far a running step is and how long it will take", () => {
    const progress = { done: 12, total: 20, unit: "steps", note: "training, reward 0.42", etaSeconds: 200 };
    expect(describeStep(step({ state: "running", tries: 1, progress }))).toBe(
      "running, 12 of 20 steps, training, reward 0.42, 3 min left",
    );
  });

  it("says what a step waits for", () => {
    expect(describeStep(step({ error: "the environment service does not answer" }))).toBe(
      "pending, the environment service does not answer",
    );
  });

  it("says that a broken step will be started again, and then which start it is", () => {
    const history = [{ number: 1, endedAt: "2026-01-01T00:00:00Z", error: "exit code 137\n| log", done: 4 }];
    expect(describeStep(step({ tries: 1, history, error: "exit code 137\n| log" }))).toBe(
      "pending, exit code 137, will be started again",
    );
    expect(describeStep(step({ state: "running", tries: 2, history }))).toBe("running, start 2");
  });

  it("says where a step is queued, and for which start", () => {
    const queued = { handedOver: true, error: "in Slurm's queue: Priority" };
    expect(describeStep(step({ ...queued, tries: 0 }))).toBe("pending, in Slurm's queue: Priority");
    const history = [{ number: 1, endedAt: "2026-01-01T00:00:00Z", error: "exit code 137", done: 4 }];
    expect(describeStep(step({ ...queued, tries: 1, history }))).toBe("pending, in Slurm's queue: Priority, start 2");
  });

  it("ends with what the step made", () => {
    const result = { checkpoint: `sha256:${"ab".repeat(32)}`, reward: 0.61234, steps: 20 };
    expect(describeStep(step({ state: "succeeded", tries: 1, result }))).toBe(
      "succeeded, abababababab, reward 0.612, steps 20",
    );
  });
});

describe("a run", () => {
  it("has ended when nothing will happen to it any more", () => {
    const ended = (["running", "cancelling", "succeeded", "failed", "cancelled"] as const).filter((state) =>
      hasEnded({ state }),
    );
    expect(ended).toEqual(["succeeded", "failed", "cancelled"]);
  });
});
