import { describe, expect, test } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { RunStep } from "../../schemas/run.ts";
import { planWith, snapshot } from "../runs/fixture.ts";
import { newRun, type StepContext, type StepExecutor } from "../runs/index.ts";
import { throughOutages } from "./cluster-steps.ts";

const plan = planWith([{ id: "publish", kind: "publish", needs: [], evaluate: "evaluate" }]);
const run = newRun("r", plan, snapshot, new Date(0));

function contextIn(state: "pending" | "running", fields: Partial<RunStep> = {}): StepContext<"publish"> {
  const job = plan.jobs[0];
  if (job?.kind !== "publish") throw new Error("the fixture has one publish job");
  const steps = run.steps.map((step) => ({ ...step, state, ...fields }));
  return { run: { ...run, steps }, job, tryNumber: 1, resultOf: () => ({}) };
}

function throwing(error: Error): StepExecutor<"publish"> {
  const advance = () => Promise.reject(error);
  return throughOutages({ slots: 0, sharedKey: () => null, advance, cancel: async () => "gone" });
}

const failure = (code: string) =>
  new UserError({ code, path: "p", asked: "a", found: "nothing answers", allowed: "b", todo: "c" });

describe("a step on a cluster", () => {
  test.each([
    ...["slurm-unreachable", "slurm-nodes-missing", "slurm-partition-closed"],
    ...["object-store-unreachable", "kubernetes-unreachable"],
  ])("waits through %s, and says so, where it has not started", async (code) => {
    const status = await throwing(failure(code)).advance(contextIn("pending"));
    expect(status).toMatchObject({ kind: "waiting", why: expect.stringContaining("nothing answers") });
  });

  test("goes on running where it has: nothing would start it a second time", async () => {
    const status = await throwing(failure("slurm-unreachable")).advance(contextIn("running"));
    expect(status).toEqual({ kind: "running", progress: null });
  });

  test("says so beside how far it is, where it runs", async () => {
    const progress = { done: 7, total: 40, unit: "steps", note: "training", etaSeconds: 60 };
    const status = await throwing(failure("slurm-unreachable")).advance(contextIn("running", { progress }));
    const note = expect.stringContaining("nothing answers");
    expect(status).toEqual({ kind: "running", progress: { ...progress, note, etaSeconds: null } });
  });

  test("stays in the queue it is in: another try would be a second job", async () => {
    const status = await throwing(failure("slurm-unreachable")).advance(contextIn("pending", { handedOver: true }));
    expect(status).toMatchObject({ kind: "waiting", handedOver: true });
  });

  test.each(["EIO", "ESTALE", "ESHUTDOWN", "ENOTCONN", "ETIMEDOUT"])(
    "stays as it is through %s of the shared storage",
    async (code) => {
      const error = Object.assign(new Error(`${code}: scandir`), { code });
      expect(await throwing(error).advance(contextIn("running"))).toEqual({ kind: "running", progress: null });
      const waiting = { kind: "waiting", why: `${code}: scandir` };
      expect(await throwing(error).advance(contextIn("pending"))).toEqual(waiting);
    },
  );

  test("fails by everything else", async () => {
    await expect(throwing(failure("slurm-refused")).advance(contextIn("pending"))).rejects.toThrow("slurm-refused");
    await expect(throwing(new Error("a defect")).advance(contextIn("running"))).rejects.toThrow("a defect");
    const absent = Object.assign(new Error("no such file"), { code: "ENOENT" });
    await expect(throwing(absent).advance(contextIn("running"))).rejects.toThrow("no such file");
  });
});
