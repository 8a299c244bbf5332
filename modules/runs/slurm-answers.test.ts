/** Answers in the form of real daemons, 22.05.8 and 24.11.5, most as these gave them; fields that are not looked at are left out. */
import { describe, expect, it } from "vitest";
import type { BatchState } from "./batch-scheduler.ts";
import { isGone, isRefusal, Jobs, Submitted, stateOf, wasRefused, wordsOf } from "./slurm-answers.ts";

const old = (fields: object) => ({
  ...{ job_id: 7, comment: "run-1.sft.1", name: "run-1.sft", job_state: "RUNNING", state_reason: "None" },
  ...{ nodes: "n1", restart_cnt: 0, exit_code: 0, memory_per_node: null },
  ...fields,
});
const tag = (number: number, set = true) => ({ set, infinite: false, number });
const exit = (status: string, code: object, signal: object, name = "") => ({
  ...{ status: [status], return_code: code, signal: { id: signal, name } },
});
const young = (fields: object) => ({
  ...{ job_id: 7, comment: "run-1.sft.1", name: "run-1.sft", job_state: ["RUNNING"], state_reason: "None" },
  ...{ nodes: "n1", restart_cnt: 0, exit_code: exit("SUCCESS", tag(0), tag(0, false)) },
  ...fields,
});
const jobOf = (row: object) => {
  const job = Jobs.parse({ jobs: [row], errors: [] }).jobs?.[0];
  if (!job) throw new Error("no job");
  return job;
};

describe("a job in Slurm's answer", () => {
  it("has the same fields in both versions", () => {
    const job = {
      ...{ jobId: 7, key: "run-1.sft.1", name: "run-1.sft", states: ["RUNNING"], reason: "None", nodes: "n1" },
      ...{ restarts: 0, exitCode: 0 },
    };
    expect(jobOf(old({}))).toEqual(job);
    expect(jobOf(young({}))).toEqual(job);
  });

  it("of other people's, without a comment, is passed over, whatever it has", () => {
    expect(
      Jobs.parse({ errors: [], jobs: [old({ comment: "", exit_code: null }), old({}), { job_id: null }] }).jobs,
    ).toHaveLength(1);
  });

  it.each<[string, object, BatchState]>([
    [
      "22.05",
      old({ job_state: "PENDING", state_reason: "Resources", nodes: "" }),
      { kind: "waiting", reason: "Resources" },
    ],
    [
      "24.11",
      young({ job_state: ["PENDING"], state_reason: "Priority", nodes: "" }),
      { kind: "waiting", reason: "Priority" },
    ],
    [
      "22.05",
      old({ job_state: "PENDING", state_reason: "BeginTime", restart_cnt: 1 }),
      { kind: "waiting", reason: "BeginTime" },
    ],
    [
      "24.11",
      young({ job_state: ["PENDING", "COMPLETING", "REQUEUED"], state_reason: "BeginTime" }),
      { kind: "waiting", reason: "BeginTime" },
    ],
    [
      "22.05",
      old({ job_state: "REQUEUE_HOLD", state_reason: "launch failed requeued held" }),
      { kind: "waiting", reason: "launch failed requeued held" },
    ],
    ["22.05", old({ nodes: "n[1-2]", restart_cnt: 2 }), { kind: "running", nodes: "n[1-2]", restarts: 2 }],
    ["22.05", old({ job_state: "COMPLETING" }), { kind: "running", nodes: "n1", restarts: 0 }],
    ["24.11", young({ job_state: ["COMPLETED", "COMPLETING"] }), { kind: "running", nodes: "n1", restarts: 0 }],
    ["24.11", young({ job_state: ["RUNNING", "CONFIGURING"] }), { kind: "running", nodes: "n1", restarts: 0 }],
    ["22.05", old({ job_state: "COMPLETED" }), { kind: "ended", state: "COMPLETED", exitCode: 0 }],
    ["22.05", old({ job_state: "FAILED", exit_code: 768 }), { kind: "ended", state: "FAILED", exitCode: 3 }],
    ["22.05", old({ job_state: "FAILED", exit_code: 9 }), { kind: "ended", state: "FAILED", exitCode: null }],
    ["22.05", old({ job_state: "CANCELLED", exit_code: 15 }), { kind: "ended", state: "CANCELLED", exitCode: null }],
    [
      "22.05",
      old({ job_state: "CANCELLED", exit_code: 0, nodes: "" }),
      { kind: "ended", state: "CANCELLED", exitCode: null },
    ],
    ["22.05", old({ job_state: "TIMEOUT", exit_code: 0 }), { kind: "ended", state: "TIMEOUT", exitCode: null }],
    [
      "24.11",
      young({ job_state: ["FAILED"], exit_code: exit("ERROR", tag(7), tag(0, false)) }),
      { kind: "ended", state: "FAILED", exitCode: 7 },
    ],
    [
      "24.11",
      young({ job_state: ["FAILED"], exit_code: exit("SIGNALED", tag(0, false), tag(15), "TERM") }),
      { kind: "ended", state: "FAILED", exitCode: null },
    ],
  ])("of %s, %o, is %o", (_, row, state) => {
    expect(stateOf(jobOf(row))).toEqual(state);
  });

  it("that Slurm refused and kept a record of is no job, unlike one that failed", () => {
    expect(
      wasRefused(jobOf(old({ job_state: "FAILED", state_reason: "BadConstraints", nodes: "", exit_code: 1 }))),
    ).toBe(true);
    expect(wasRefused(jobOf(young({ job_state: ["FAILED"], state_reason: "BadConstraints", nodes: "" })))).toBe(true);
    expect(wasRefused(jobOf(old({ job_state: "FAILED", exit_code: 768 })))).toBe(false);
    expect(wasRefused(jobOf(old({ job_state: "FAILED", nodes: "", restart_cnt: 1 })))).toBe(false);
  });
});

describe("an error in Slurm's answer", () => {
  const configuration = { error_code: 2014, error: "Requested node configuration is not available" };
  const field = [
    { description: 'Unknown key "nope"', source: "hsearch_r" },
    { error_code: 9001, error: "Failure during parsing" },
  ];
  const away = { error_code: 1800, error: "Unable to contact slurm controller (connect failure)" };
  const token = {
    ...{ description: "Failed while looking for jobs", error_number: -1, error: "Unspecified error" },
    source: "slurm_load_jobs",
  };
  const token24 = { description: "Unable to query jobs", error_number: 1007, error: "Protocol authentication error" };
  const gone = {
    ...{ description: "unable to kill JobId=999 with signal 9: Invalid job id specified", error_number: 2017 },
    error: "Invalid job id specified",
  };

  it("about the request is a refusal; about the connection or the token, or one that passes, is none", () => {
    expect([[configuration], field].map(isRefusal)).toEqual([true, true]);
    const passing = [[away], [token], [token24], [{ error_number: 2027, error: "standby" }], []];
    expect(passing.map(isRefusal)).toEqual([false, false, false, false, false]);
    expect([isGone([gone]), isGone([away])]).toEqual([true, false]);
  });

  it("is told in its own words, each once", () => {
    expect(wordsOf([configuration])).toBe("Requested node configuration is not available");
    expect(wordsOf(field)).toBe('Unknown key "nope"; Failure during parsing');
    expect(wordsOf([token])).toBe("Failed while looking for jobs");
  });

  it("beside a JobId is a remark: the job is there", () => {
    expect(Submitted.parse({ job_id: 12, step_id: "BATCH", errors: [] })).toEqual({ job_id: 12, errors: [] });
  });
});
