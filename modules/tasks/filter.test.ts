import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { Outcome, Trajectory } from "../../schemas/trajectory.ts";
import {
  chooseRlTasks,
  chooseSftTrajectories,
  heldOutSolvable,
  leaveOutAlwaysSolved,
  passRates,
  ratesOf,
} from "./filter.ts";
import { random } from "./random.ts";

const OUTCOMES: Record<Outcome["kind"], Outcome> = {
  passed: { kind: "passed" },
  failed: { kind: "failed", reason: "wrong-content:app.conf" },
  infrastructure: { kind: "infrastructure", code: "sandbox-failed", message: "no sandbox" },
};

function trajectory(taskId: string, attempt: number, kind: Outcome["kind"], turns = 3): Trajectory {
  return {
    schemaVersion: 1,
    taskId,
    attempt,
    policy: "expert",
    seed: 1,
    tools: [],
    messages: [],
    outcome: OUTCOMES[kind],
    turns,
    hitTurnLimit: false,
    malformedToolCalls: 0,
    violations: [],
    promptTokens: 0,
    completionTokens: 0,
    seconds: 1,
    infrastructureRetries: 0,
    startedAt: "2026-01-01T00:00:00.000Z",
  };
}

const anyTrajectories = fc
  .uniqueArray(
    fc.record({
      task: fc.constantFrom("a", "b", "c", "d"),
      attempt: fc.integer({ min: 0, max: 9 }),
      kind: fc.constantFrom<Outcome["kind"]>("passed", "failed", "infrastructure"),
      turns: fc.integer({ min: 1, max: 12 }),
    }),
    { selector: ({ task, attempt }) => `${task} ${attempt}`, maxLength: 40 },
  )
  .map((rows) => rows.map(({ task, attempt, kind, turns }) => trajectory(task, attempt, kind, turns)));

describe("chooseSftTrajectories", () => {
  const none = { failed: 0, infrastructure: 0, malformed: 0, tooLong: 0, overQuota: 0 };

  it("leaves out a success with a call that nobody could read, and does not measure the others by it", () => {
    const malformed = { ...trajectory("t", 0, "passed", 1), malformedToolCalls: 1 };
    const { chosen, report } = chooseSftTrajectories([malformed, trajectory("t", 1, "passed", 5)]);
    expect(chosen.map(({ attempt }) => attempt)).toEqual([1]);
    expect(report).toEqual({ kept: 1, tasks: 1, dropped: { ...none, malformed: 1 } });
  });

  it("keeps at most 4 successes a task, the shortest first, none over twice the shortest", () => {
    const own = [9, 3, 6, 7, 4, 3, 5].map((turns, attempt) => trajectory("t", attempt, "passed", turns));
    const { chosen, report } = chooseSftTrajectories([...own, trajectory("t", 7, "failed", 1)]);
    expect(chosen.map(({ attempt, turns }) => [attempt, turns])).toEqual([
      [1, 3],
      [5, 3],
      [4, 4],
      [6, 5],
    ]);
    expect(report).toEqual({ kept: 4, tasks: 1, dropped: { ...none, failed: 1, tooLong: 2, overQuota: 1 } });
  });

  it("keeps one of exactly twice the shortest length", () => {
    const { chosen } = chooseSftTrajectories([trajectory("t", 0, "passed", 3), trajectory("t", 1, "passed", 6)]);
    expect(chosen).toHaveLength(2);
  });

  it("holds its rules for any trajectories, in any order, and accounts for every one", () => {
    fc.assert(
      fc.property(anyTrajectories, fc.integer(), fc.integer({ min: 1, max: 5 }), (all, seed, maxPerTask) => {
        const rule = { maxPerTask, maxLengthRatio: 1.5 };
        const { chosen, report } = chooseSftTrajectories(all, rule);
        expect(chooseSftTrajectories(random(seed).shuffle(all), rule)).toEqual({ chosen, report });
        const dropped = Object.values(report.dropped).reduce((sum, count) => sum + count, 0);
        expect(chosen.length + dropped).toBe(all.length);
        for (const one of chosen) {
          const own = all.filter(({ taskId, outcome }) => taskId === one.taskId && outcome.kind === "passed");
          expect(one.outcome.kind).toBe("passed");
          expect(one.turns).toBeLessThanOrEqual(1.5 * Math.min(...own.map(({ turns }) => turns)));
          expect(chosen.filter(({ taskId }) => taskId === one.taskId).length).toBeLessThanOrEqual(maxPerTask);
        }
      }),
    );
  });

  it("counts an attempt once that a resumed collection recorded twice", () => {
    const twice = [trajectory("t", 0, "passed"), trajectory("t", 0, "passed")];
    expect(chooseSftTrajectories(twice).chosen).toHaveLength(1);
    expect(passRates(twice)[0]?.attempts).toBe(1);
  });
});

describe("passRates", () => {
  it("leaves infrastructure failures out of the attempts", () => {
    expect(
      passRates([
        trajectory("b", 0, "infrastructure"),
        trajectory("a", 0, "passed"),
        trajectory("a", 1, "failed"),
        trajectory("a", 2, "infrastructure"),
      ]),
    ).toEqual([
      { taskId: "a", passed: 1, attempts: 2, rate: 0.5, infrastructure: 1 },
      { taskId: "b", passed: 0, attempts: 0, rate: null, infrastructure: 1 },
    ]);
  });
});

describe("chooseRlTasks", () => {
  const rates = passRates(
    [0, 1, 2, 3, 4].flatMap((passed) =>
      [0, 1, 2, 3].map((attempt) => trajectory(`t${passed}`, attempt, attempt < passed ? "passed" : "failed")),
    ),
  );

  it("takes the band with both its ends", () => {
    const { ids, report } = chooseRlTasks(rates, { min: 0.25, max: 0.75 });
    expect(ids).toEqual(["t1", "t2", "t3"]);
    expect(report).toEqual({ chosen: 3, below: 1, above: 1, unmeasured: 0 });
  });

  it("says where the tasks lie when the band is empty", () => {
    try {
      chooseRlTasks(rates, { min: 0.6, max: 0.7 });
      expect.unreachable();
    } catch (error) {
      expect((error as UserError).code).toBe("no-rl-tasks");
      expect((error as Error).message).toContain("3 below, 2 above, 0 unmeasured");
    }
    expect(() => chooseRlTasks([], { min: 0, max: 1 })).toThrow(UserError);
  });

  it("does not take a task that only the infrastructure failed", () => {
    expect(() => chooseRlTasks(passRates([trajectory("a", 0, "infrastructure")]), { min: 0, max: 1 })).toThrow(
      "1 unmeasured",
    );
  });
});

describe("leaveOutAlwaysSolved", () => {
  const ends = (taskId: string, ...outcomes: Outcome["kind"][]) => outcomes.map((outcome) => ({ taskId, outcome }));
  const rates = ratesOf([
    ...ends("always", "passed", "passed", "infrastructure"),
    ...ends("once", "passed"),
    ...ends("often", "passed", "passed", "passed", "failed"),
    ...ends("lost", "infrastructure", "infrastructure"),
    ...ends("elsewhere", "passed"),
  ]);
  const ids = ["always", "lost", "new", "often", "once"];

  it("drops what every attempt that counts has solved, and keeps what failed once, was lost, or never tried", () => {
    const { kept, dropped } = leaveOutAlwaysSolved(ids, { rates, run: "r-1" }, 3);
    expect(kept).toEqual(["lost", "new", "often"]);
    expect(dropped).toEqual(["always", "once"]);
  });

  it("says how many tasks are left where a step needs more", () => {
    try {
      leaveOutAlwaysSolved(ids, { rates, run: "r-1" }, 4);
      expect.unreachable();
    } catch (error) {
      expect((error as UserError).code).toBe("too-few-rl-tasks");
      expect((error as Error).message).toContain("3 of the 5 tasks in the pass-rate band are left, and a step has 4");
      expect((error as Error).message).toContain("r-1");
    }
  });

  it("keeps or drops each task once, and drops exactly those whose rate is 1, for any attempts", () => {
    const attempts = fc.array(
      fc.record({
        taskId: fc.constantFrom("a", "b", "c", "d"),
        outcome: fc.constantFrom<Outcome["kind"]>("passed", "failed", "infrastructure"),
      }),
    );
    fc.assert(
      fc.property(attempts, (made) => {
        const earlier = ratesOf(made);
        const { kept, dropped } = leaveOutAlwaysSolved(["a", "b", "c"], { rates: earlier, run: "r" }, 0);
        expect([...kept, ...dropped].sort()).toEqual(["a", "b", "c"]);
        for (const id of kept) expect(earlier.find(({ taskId }) => taskId === id)?.rate ?? 0).toBeLessThan(1);
        for (const id of dropped) expect(earlier.find(({ taskId }) => taskId === id)?.rate).toBe(1);
      }),
    );
  });
});

describe("heldOutSolvable", () => {
  it("names the tasks that were never solved or never tried", () => {
    const rates = passRates([trajectory("a", 0, "failed"), trajectory("a", 1, "passed"), trajectory("b", 0, "failed")]);
    expect(heldOutSolvable(["c", "b", "a"], rates)).toEqual({ solvable: ["a"], dropped: ["b", "c"] });
  });
});
