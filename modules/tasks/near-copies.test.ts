import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Task } from "../../schemas/task.ts";
import { jaccard, NEAR_COPY_THRESHOLD, nearCopyGroups, similarPairs, taskShingles } from "./near-copies.ts";
import { random } from "./random.ts";
import { generateRepoChores } from "./repo-chores/generate.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

function task(id: string, prompt: string, lines: string[]): Task {
  const files = { "a.conf": lines.map((line) => `${line}\n`).join("") };
  return {
    id,
    family: "any",
    project: "p",
    difficulty: 1,
    kind: "k",
    prompt,
    repository: { commits: [{ message: "start", files }] },
    goal: {},
    grading: { files },
  };
}

describe("nearCopyGroups", () => {
  it.each([
    [1, 300],
    [7, 300],
    [42, 1000],
  ])("finds what seed %i planted among %i tasks, and glues nothing else together", (seed, count) => {
    const { tasks, plantedCopies } = generateRepoChores(seed, count);
    const rootOf = (id: string): string => plantedCopies[id] ?? id;
    let least = 1;
    let most = 0;
    for (const { a, b, similarity } of similarPairs(tasks, 0.05)) {
      if (rootOf((tasks[a] as Task).id) === rootOf((tasks[b] as Task).id)) least = Math.min(least, similarity);
      else most = Math.max(most, similarity);
    }
    // The numbers that the threshold rests on; a tenth to spare on the side of unrelated tasks.
    expect(least).toBeGreaterThan(NEAR_COPY_THRESHOLD);
    expect(most).toBeLessThan(NEAR_COPY_THRESHOLD - 0.1);

    const groups = Object.values(nearCopyGroups(tasks));
    const groupOf = new Map(groups.flatMap((members, index) => members.map((id) => [id, index] as const)));
    for (const [copy, original] of Object.entries(plantedCopies)) expect(groupOf.get(copy)).toBe(groupOf.get(original));
    expect(groups).toHaveLength(tasks.length - Object.keys(plantedCopies).length);
    expect(Math.max(...groups.map(({ length }) => length))).toBeLessThanOrEqual(4);
  });

  it("joins copies of copies into one group", () => {
    const lines = Array.from({ length: 12 }, (_, index) => `key${index}=1`);
    const chain = [0, 3, 6].map((from) => task(`t${from}`, "Do this.", lines.slice(from, from + 6 + (from % 2))));
    const [first, , last] = chain as [Task, Task, Task];
    const threshold = 0.3;
    expect(jaccard(taskShingles(first), taskShingles(last))).toBeLessThan(threshold);
    expect(nearCopyGroups(chain, { threshold })).toEqual({ "near-t0": ["t0", "t3", "t6"] });
  });

  it("puts every task into exactly one group, whatever the order of the tasks", () => {
    const { tasks } = generateRepoChores(5, 80);
    const groups = nearCopyGroups(tasks);
    expect(Object.values(groups).flat().sort()).toEqual(tasks.map(({ id }) => id).sort());
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        expect(nearCopyGroups(random(seed).shuffle(tasks))).toEqual(groups);
      }),
      { numRuns: 20 },
    );
  });

  it("agrees with comparing every pair", () => {
    const { tasks } = generateRepoChores(6, 60);
    const sets = tasks.map(taskShingles);
    const expected = sets.flatMap((b, j) =>
      sets.slice(0, j).flatMap((a, i) => (jaccard(a, b) >= 0.2 ? [`${i} ${j}`] : [])),
    );
    expect(
      similarPairs(tasks, 0.2)
        .map(({ a, b }) => `${a} ${b}`)
        .sort(),
    ).toEqual(expected.sort());
  });

  it("refuses a threshold that would join everything", () => {
    expect(() => nearCopyGroups([], { threshold: 0 })).toThrow(RangeError);
    expect(() => nearCopyGroups([], { threshold: 1.1 })).toThrow(RangeError);
  });
});
