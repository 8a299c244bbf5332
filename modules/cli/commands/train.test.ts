import { describe, expect, it } from "vitest";
import type { UserError } from "../../../schemas/error.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { TaskSet } from "../../../schemas/task.ts";
import { planWith } from "../../runs/fixture.ts";
import { requireRunnable } from "./train.ts";

const plan = planWith([{ id: "publish", kind: "publish", needs: [], evaluate: "evaluate" }]);
const standIn: Plan = { ...plan, name: "made-up", taskSet: { ...plan.taskSet, standIn: true } };
const taskSet = {} as TaskSet;

describe("uplift train", () => {
  it("takes plans whose tasks are here", () => {
    expect(requireRunnable([{ plan, taskSet }])).toEqual([{ plan, taskSet }]);
  });

  it("refuses every plan whose tasks are made up or lie elsewhere, all at once", () => {
    try {
      requireRunnable([
        { plan: standIn, taskSet },
        { plan, taskSet },
        { plan, taskSet: null },
      ]);
      expect.unreachable();
    } catch (error) {
      const { issues } = error as UserError;
      expect(issues.map(({ code, path }) => `${code} ${path}`)).toEqual([
        "stand-in-tasks made-up",
        "stand-in-tasks fixture",
      ]);
      expect(issues[0]?.found).toContain("made up");
      expect(issues[1]?.found).toContain("lie with their environments elsewhere");
    }
  });
});
