import { describe, expect, it } from "vitest";
import type { AttemptResult, Evaluation } from "../../schemas/evaluation.ts";
import { fixtureEvaluations } from "./fixture.ts";
import { GridQuery, gridOf, tasksWithoutAnswer } from "./grid.ts";

const [base, trained] = fixtureEvaluations();
if (base === undefined || trained === undefined) throw new Error("the fixture has three evaluations");

/** The evaluation with the outcomes of a task replaced: "p", "f" or "i" an attempt. */
function withMarks(evaluation: Evaluation, marks: Readonly<Record<string, string>>): Evaluation {
  const outcomeOf = (letter: string | undefined): AttemptResult["outcome"] =>
    letter === "p"
      ? { kind: "passed" }
      : letter === "i"
        ? { kind: "infrastructure", code: "lost", message: "lost" }
        : { kind: "failed", reason: "wrong" };
  return {
    ...evaluation,
    tasks: evaluation.tasks.filter((task) => task.id in marks),
    results: evaluation.results
      .filter((result) => result.taskId in marks)
      .map((result) => ({
        ...result,
        outcome: outcomeOf(marks[result.taskId]?.[result.attempt]),
        hitTurnLimit: false,
        violations: [],
        infrastructureRetries: 0,
      })),
  };
}

const [a, b, c] = [0, 1, 2].map((at) => base.tasks[at]?.id ?? "");
if (a === undefined || b === undefined || c === undefined) throw new Error("the fixture has tasks");
const before = withMarks(base, { [a]: "ffpfffff", [b]: "pppppppp", [c]: "ffffffff" });
const after = withMarks(trained, { [a]: "ppppffff", [b]: "pppppppf", [c]: "ffffffff" });
const query = (asked: Record<string, string>) => GridQuery.parse(asked);
const ids = (asked: Record<string, string>) => gridOf(after, before, query(asked)).map((line) => line.task.id);

describe("the grid", () => {
  it("says how many attempts passed, base's, and the change", () => {
    expect(gridOf(after, before, query({})).map((line) => [line.passed, line.basePassed, line.change])).toEqual([
      [4, 1, 0.375],
      [7, 8, -0.125],
      [0, 0, 0],
    ]);
  });

  it("filters by what changed, and by project and kind", () => {
    expect(ids({ only: "changed" })).toEqual([a, b]);
    expect(ids({ only: "better" })).toEqual([a]);
    expect(ids({ only: "worse" })).toEqual([b]);
    expect(ids({ only: "violations" })).toEqual([]);
    expect(ids({ project: "beacon" })).toEqual([b]);
    expect(ids({ kind: "no-such-kind" })).toEqual([]);
  });

  it("sorts either way, ties by name", () => {
    expect(ids({ sort: "change" })).toEqual([b, c, a]);
    expect(ids({ sort: "passed", order: "desc" })).toEqual([b, a, c]);
    expect(ids({ sort: "kind" })).toEqual([a, b, c]);
  });

  it("takes what the address cannot mean as the default", () => {
    expect(query({ only: "everything", sort: "1; DROP", order: "up" })).toEqual(query({}));
  });

  it("offers the pair that shows the change: base fails and this passes, or the other way round", () => {
    const pairs = gridOf(after, before, query({})).map((line) => [
      line.compare?.left.attempt,
      line.compare?.right.attempt,
    ]);
    expect(pairs).toEqual([
      [0, 0],
      [0, 7],
      [0, 0],
    ]);
    expect(gridOf(after, before, query({}))[0]?.compare?.left.evaluationId).toBe(before.id);
  });

  it("shows base on its own account", () => {
    expect(gridOf(before, null, query({ only: "changed" }))).toEqual([]);
    expect(gridOf(before, null, query({})).every((line) => line.change === null && line.compare === null)).toBe(true);
  });
});

describe("a task whose every attempt broke", () => {
  it("is named", () => {
    expect(tasksWithoutAnswer(withMarks(trained, { [a]: "iiiiiiii", [b]: "iiiiiiif" }))).toEqual([a]);
  });
});
