import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../schemas/digest.ts";
import { leafChanges, matchesPath, valueAt } from "./leaf-changes.ts";

const shown = (before: unknown, after: unknown) =>
  leafChanges(before, after).map((change) => [change.path, change.before, change.after]);

describe("leaf changes", () => {
  it("name members of a plan's lists by their own name, wherever they stand", () => {
    const before = {
      jobs: [
        { id: "a", n: 1 },
        { id: "b", n: 2 },
      ],
    };
    const after = {
      jobs: [
        { id: "new", n: 9 },
        { id: "a", n: 1 },
        { id: "b", n: 3 },
      ],
    };
    expect(shown(before, after)).toEqual([
      ["jobs.b.n", 2, 3],
      ["jobs.new.id", undefined, "new"],
      ["jobs.new.n", undefined, 9],
    ]);
  });

  it("tell another order of the same members", () => {
    const [a, b] = [{ id: "a" }, { id: "b" }];
    expect(shown({ jobs: [a, b] }, { jobs: [b, a] })).toEqual([["jobs.(order)", ["a", "b"], ["b", "a"]]]);
  });

  it("count members where names are missing or there twice", () => {
    expect(shown({ jobs: [{ id: "a" }, { id: "a" }] }, { jobs: [{ id: "b" }, { id: "b" }] })).toEqual([
      ["jobs.0.id", "a", "b"],
      ["jobs.1.id", "a", "b"],
    ]);
  });

  it("take a list of plain values as one leaf, and tell nothing, null, empty and missing apart", () => {
    expect(shown({ why: ["x", "y"] }, { why: ["x"] })).toEqual([["why", ["x", "y"], ["x"]]]);
    expect(shown({ a: [] }, { a: {} })).toEqual([["a", [], {}]]);
    expect(shown({ a: null }, { a: 0 })).toEqual([["a", null, 0]]);
    expect(shown({ a: null }, {})).toEqual([["a", null, undefined]]);
    expect(shown({ a: null }, { a: { b: 1 } })).toEqual([["a.b", undefined, 1]]);
    expect(shown({ a: {} }, {})).toEqual([["a", {}, undefined]]);
  });

  it("are none exactly where the canonical JSON is the same", () => {
    const json = fc.jsonValue({ maxDepth: 4 });
    fc.assert(
      fc.property(json, json, (one, other) => {
        expect(leafChanges(one, other).length === 0).toBe(canonicalJson(one) === canonicalJson(other));
        expect(leafChanges(one, structuredClone(one))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});

describe("paths", () => {
  it("match segment by segment, and any rest after two stars", () => {
    const segments = ["jobs", "rl", "config", "grpo", "steps"];
    expect(matchesPath(segments, "jobs.*.config.**")).toBe(true);
    expect(matchesPath(["jobs", "rl", "config"], "jobs.*.config.**")).toBe(true);
    expect(matchesPath(segments, "jobs.*.config")).toBe(false);
    expect(matchesPath(segments, "jobs.sft.config.**")).toBe(false);
  });

  it("lead to values through lists by name", () => {
    expect(valueAt({ jobs: [{ id: "rl", steps: 40 }] }, "jobs.rl.steps")).toBe(40);
    expect(valueAt({ jobs: [] }, "jobs.rl.steps")).toBeUndefined();
  });
});
