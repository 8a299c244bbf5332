/** What the scheduler makes of what Slurm knows, where a real Slurm cannot be brought to it: races. */
import { beforeEach, describe, expect, it } from "vitest";
import { batchJob } from "./slurm-fixture.ts";
import { SlurmScheduler } from "./slurm-scheduler.ts";
import type { SlurmJob, SlurmTransport } from "./slurm-transport.ts";

const job = (jobId: number, key: string, ...states: string[]): SlurmJob => ({
  ...{
    jobId,
    key,
    name: key.replace(/\.\d+$/, ""),
    states,
    reason: "Dependency",
    nodes: "n1",
    restarts: 0,
    exitCode: 0,
  },
});

let jobs: SlurmJob[];
let submitted: string[];
let cancelled: number[];
/** What happens in Slurm after each look at its jobs. */
let next: () => void;

const slurm: SlurmTransport = {
  jobs: async () => {
    const now = jobs;
    next();
    return now;
  },
  submit: async ({ key }) => {
    submitted.push(key);
  },
  cancel: async ({ jobId }) => {
    cancelled.push(jobId);
  },
};

beforeEach(() => {
  [jobs, submitted, cancelled, next] = [[], [], [], () => {}];
});

describe("the scheduler", () => {
  it("takes the liveliest of several jobs with one key", async () => {
    const scheduler = new SlurmScheduler(slurm);
    jobs = [job(5, "a.1", "COMPLETED"), job(6, "a.1", "RUNNING"), job(7, "a.1", "PENDING"), job(8, "b.1", "FAILED")];
    expect(await scheduler.state("a.1")).toEqual({ kind: "running", nodes: "n1", restarts: 0 });
    jobs = [job(5, "a.1", "FAILED"), job(7, "a.1", "PENDING")];
    expect(await scheduler.state("a.1")).toEqual({ kind: "waiting", reason: "Dependency" });
    jobs = [job(7, "a.1", "COMPLETED"), job(5, "a.1", "FAILED")];
    expect(await scheduler.state("a.1")).toEqual({ kind: "ended", state: "COMPLETED", exitCode: 0 });
  });

  it("submits a job again that Slurm refused before and kept a record of, and none that is known otherwise", async () => {
    const scheduler = new SlurmScheduler(slurm);
    jobs = [{ ...job(5, "run-1.sft.2", "FAILED"), nodes: "" }];
    expect(await scheduler.state("run-1.sft.2")).toEqual({ kind: "unknown" });
    await scheduler.submit(batchJob());
    jobs = [job(5, "run-1.sft.2", "FAILED")];
    await scheduler.submit(batchJob());
    expect(submitted).toEqual(["run-1.sft.2"]);
  });

  it("cancels every live job of a key and no other, says when they are gone, and leaves a JobId alone that became another's", async () => {
    jobs = [job(5, "a.1", "RUNNING"), job(6, "a.1", "PENDING"), job(7, "b.1", "RUNNING"), job(4, "a.1", "COMPLETED")];
    next = () => {
      jobs = [job(5, "a.1", "RUNNING", "COMPLETING"), job(6, "c.1", "RUNNING")];
      next = () => {
        jobs = [job(5, "a.1", "CANCELLED"), job(6, "c.1", "RUNNING")];
      };
    };
    const scheduler = new SlurmScheduler(slurm);
    expect(await scheduler.cancel("a.1")).toBe("ending");
    expect(cancelled).toEqual([5, 6]);
    expect(await scheduler.cancel("a.1")).toBe("ending");
    expect(cancelled).toEqual([5, 6, 5]);
    expect(await scheduler.cancel("a.1")).toBe("gone");
    expect(cancelled).toEqual([5, 6, 5]);
  });
});
