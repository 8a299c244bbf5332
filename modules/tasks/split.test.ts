import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { nearCopyGroups } from "./near-copies.ts";
import { random } from "./random.ts";
import { generateRepoChores } from "./repo-chores/generate.ts";
import { splitTasks } from "./split.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

type Small = { id: string; project: string; difficulty: number };

/** Any tasks in groups of any sizes over up to 4 projects × 3 difficulties, and sizes to ask for. */
const problems = fc
  .record({
    groups: fc.array(
      fc.record({
        size: fc.integer({ min: 1, max: 5 }),
        project: fc.constantFrom("p", "q", "r", "s"),
        difficulty: fc.integer({ min: 1, max: 3 }),
      }),
      { minLength: 1, maxLength: 60 },
    ),
    seed: fc.integer(),
    heldOutShare: fc.double({ min: 0, max: 1, noNaN: true }),
    validationShare: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  .map(({ groups, seed, heldOutShare, validationShare }) => {
    const tasks: Small[] = [];
    const members: Record<string, string[]> = {};
    groups.forEach(({ size, project, difficulty }, group) => {
      members[`g${group}`] = Array.from({ length: size }, (_, index) => {
        tasks.push({ id: `t${group}-${index}`, project, difficulty });
        return `t${group}-${index}`;
      });
    });
    const heldOut = Math.floor(heldOutShare * tasks.length);
    const validation = Math.floor(validationShare * (tasks.length - heldOut));
    return { tasks, groups: members, sizes: { heldOut, validation }, seed };
  });

/** The split, or the code of the refusal. */
function trySplit({
  tasks,
  groups,
  sizes,
  seed,
}: {
  tasks: Small[];
  groups: Record<string, string[]>;
  sizes: { heldOut: number; validation: number };
  seed: number;
}) {
  try {
    return splitTasks(tasks, groups, sizes, seed);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return error.code;
  }
}

describe("splitTasks", () => {
  it("either refuses with split-impossible or gives whole groups of exactly the asked sizes", () => {
    let made = 0;
    fc.assert(
      fc.property(problems, (problem) => {
        const splits = trySplit(problem);
        if (typeof splits === "string") {
          expect(splits).toBe("split-impossible");
          return;
        }
        made += 1;
        expect(splits["held-out"]).toHaveLength(problem.sizes.heldOut);
        expect(splits.validation).toHaveLength(problem.sizes.validation);
        expect(splits.train.length).toBeGreaterThan(0);
        expect(Object.values(splits).flat().sort()).toEqual(problem.tasks.map(({ id }) => id).sort());
        for (const members of Object.values(problem.groups)) {
          const sides = Object.entries(splits).filter(([, ids]) => members.some((id) => ids.includes(id)));
          expect(sides).toHaveLength(1);
        }
      }),
      { numRuns: 300 },
    );
    expect(made).toBeGreaterThan(50);
  });

  it("depends on neither the order of tasks, of groups, nor of their members", () => {
    fc.assert(
      fc.property(problems, fc.integer(), (problem, order) => {
        const rng = random(order);
        const shuffled = {
          ...problem,
          tasks: rng.shuffle(problem.tasks),
          groups: Object.fromEntries(
            rng.shuffle(Object.entries(problem.groups)).map(([id, ids]) => [id, rng.shuffle(ids)]),
          ),
        };
        expect(trySplit(shuffled)).toEqual(trySplit(problem));
      }),
      { numRuns: 200 },
    );
  });

  it("chooses differently for another seed", () => {
    const { tasks } = generateRepoChores(7, 300);
    const groups = nearCopyGroups(tasks);
    const split = (seed: number) => splitTasks(tasks, groups, { heldOut: 48, validation: 24 }, seed);
    expect(split(1)).toEqual(split(1));
    expect(split(1)["held-out"]).not.toEqual(split(2)["held-out"]);
  });

  it.each([1, 7, 23])(
    "spreads the quickstart's held-out and validation tasks over projects × difficulty (seed %i)",
    (seed) => {
      const { tasks } = generateRepoChores(seed, 300);
      const splits = splitTasks(tasks, nearCopyGroups(tasks), { heldOut: 48, validation: 24 }, seed);
      const count = (ids: string[]) => {
        const strata = new Map<string, number>();
        for (const { id, project, difficulty } of tasks) {
          const name = `${project} ${difficulty}`;
          strata.set(name, (strata.get(name) ?? 0) + (ids.includes(id) ? 1 : 0));
        }
        return strata;
      };
      const all = count(tasks.map(({ id }) => id));
      expect(all.size).toBe(15);
      for (const split of ["held-out", "validation"] as const) {
        for (const [stratum, own] of count(splits[split])) {
          const share = ((all.get(stratum) ?? 0) * splits[split].length) / tasks.length;
          expect(Math.abs(own - share)).toBeLessThan(1.5);
          expect(own).toBeGreaterThan(0);
        }
      }
    },
  );

  it("covers every project and difficulty with few held-out tasks", () => {
    const { tasks } = generateRepoChores(3, 90);
    const { "held-out": heldOut } = splitTasks(tasks, nearCopyGroups(tasks), { heldOut: 6, validation: 3 }, 3);
    const chosen = tasks.filter(({ id }) => heldOut.includes(id));
    expect(new Set(chosen.map(({ project }) => project)).size).toBe(5);
    expect(new Set(chosen.map(({ difficulty }) => difficulty)).size).toBe(3);
  });

  it.each([
    {
      seed: 7,
      tasks: 300,
      heldOut: 48,
      validation: 24,
      name: "quickstart",
      hex: "76182dc0fecd33da77826ecbdf06215694f2c7d1de33ad5257869a507b94d46a",
    },
    {
      seed: 11,
      tasks: 60,
      heldOut: 12,
      validation: 4,
      name: "smoke recipe",
      hex: "5d769c8ad7f3f1f503a831abebebecbb274f3b3db5e15bd98ef9875d1e2b0c77",
    },
  ])("still chooses the tasks that the $name was measured on", ({ seed, tasks: count, heldOut, validation, hex }) => {
    const { tasks } = generateRepoChores(seed, count);
    const splits = splitTasks(tasks, nearCopyGroups(tasks), { heldOut, validation }, seed);
    expect(digestJson(splits)).toBe(`sha256:${hex}`);
  });

  it("tells sizes that whole groups can make from those they cannot, as trying every choice does", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 2, max: 9 }), { minLength: 2, maxLength: 40 }),
        fc.nat(),
        (groupSizes, number) => {
          const tasks: Small[] = [];
          const groups: Record<string, string[]> = {};
          groupSizes.forEach((size, group) => {
            groups[`g${group}`] = Array.from({ length: size }, (_, index) => `t${group}-${index}`);
            for (const id of groups[`g${group}`] ?? []) tasks.push({ id, project: "p", difficulty: 1 });
          });
          const totals = new Set([0]);
          for (const size of groupSizes) for (const sum of [...totals]) totals.add(sum + size);
          const heldOut = number % tasks.length;
          const made = trySplit({ tasks, groups, sizes: { heldOut, validation: 0 }, seed: 1 });
          expect(typeof made !== "string").toBe(totals.has(heldOut));
        },
      ),
      { numRuns: 300 },
    );
  });

  it("says how to get out when groups cannot make the size", () => {
    const tasks = ["a", "b", "c", "d", "e", "f"].map((id) => ({ id, project: "p", difficulty: 1 }));
    const groups = { one: ["a", "b", "c"], two: ["d", "e", "f"] };
    try {
      splitTasks(tasks, groups, { heldOut: 2, validation: 0 }, 1);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(UserError);
      const [issue] = (error as UserError).issues;
      expect(issue).toMatchObject({ code: "split-impossible", path: "tasks.split" });
      expect(issue?.asked).toBe("held-out 2 and validation 0 of 6 tasks");
      expect(issue?.found).toContain("2 near-copy groups");
      expect(issue?.allowed).toContain("the nearest smaller size is 0");
      expect(issue?.todo).toContain("generate more tasks");
    }
  });

  it.each([
    ["everything", { heldOut: 3, validation: 3 }, "no task is left to train on"],
    ["a fraction", { heldOut: 1.5, validation: 0 }, "heldOut is 1.5"],
    ["less than nothing", { heldOut: 1, validation: -1 }, "validation is -1"],
  ])("refuses %s", (_, sizes, found) => {
    const tasks = ["a", "b", "c", "d", "e", "f"].map((id) => ({ id, project: "p", difficulty: 1 }));
    const groups = Object.fromEntries(tasks.map(({ id }) => [id, [id]]));
    expect(() => splitTasks(tasks, groups, sizes, 1)).toThrow(found);
  });

  it("refuses to leave a project unmeasured that is one too large group", () => {
    const tasks = [
      ...["a", "b", "c", "d"].map((id) => ({ id, project: "p", difficulty: 1 })),
      ...["e", "f", "g", "h"].map((id) => ({ id, project: "q", difficulty: 1 })),
    ];
    const groups = { a: ["a"], b: ["b"], c: ["c"], d: ["d"], rest: ["e", "f", "g", "h"] };
    expect(() => splitTasks(tasks, groups, { heldOut: 2, validation: 0 }, 1)).toThrow("near-copy groups of project q");
  });
});
