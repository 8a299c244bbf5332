import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DatasetIndex, DatasetTask } from "../../schemas/dataset.ts";
import { digestJson } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { TaskSetSummary } from "../../schemas/plan.ts";
import { indexText, REFERENCE_SPLITS, standInIndex } from "../../tools/stand-in-tasks.ts";
import {
  checkDataset,
  datasetDigest,
  parseDatasetIndex,
  passRateKey,
  passRateModels,
  summariseDataset,
  useDataset,
} from "./index.ts";
import { random } from "./random.ts";

const EXPERT = "moonshotai/Kimi-K3";

function task(id: string, changes: Partial<DatasetTask> = {}): DatasetTask {
  return { id, project: "p", difficulty: 1, group: id, shortestSolutionTokens: 1000, passRates: {}, ...changes };
}

function indexOf(tasks: DatasetTask[]): DatasetIndex {
  return { schemaVersion: 1, family: "github", description: "", standIn: false, tasks };
}

function use(changes: Partial<Parameters<typeof useDataset>[1]> = {}): Parameters<typeof useDataset>[1] {
  const split = { heldOut: 2, validation: 1 };
  return { split, seed: 1, contextTokens: 2000, band: { of: null, min: 0, max: 1 }, expertModel: null, ...changes };
}

function issuesOf(make: () => unknown): UserError["issues"] {
  try {
    make();
  } catch (error) {
    if (error instanceof UserError) return error.issues;
    throw error;
  }
  return [];
}

/** Any index: groups of 1 to 3 tasks over projects and difficulties, lengths and rates known or not. */
const indexes = fc
  .array(
    fc.record({
      size: fc.integer({ min: 1, max: 3 }),
      project: fc.constantFrom("p", "q"),
      difficulty: fc.integer({ min: 1, max: 3 }),
      tokens: fc.option(fc.integer({ min: 1, max: 4000 })),
      passed: fc.option(fc.integer({ min: 0, max: 8 })),
    }),
    { minLength: 12, maxLength: 40 },
  )
  .map((groups) =>
    indexOf(
      groups.flatMap(({ size, project, difficulty, tokens, passed }, group) =>
        Array.from({ length: size }, (_, copy) =>
          task(`t${group}-${copy}`, {
            ...{ project, difficulty, group: `g${group}`, shortestSolutionTokens: tokens },
            passRates: passed === null ? {} : { [EXPERT]: { passed, attempts: 8 } },
          }),
        ),
      ),
    ),
  );

describe("the text of an index", () => {
  it("comes back as what was written", () => {
    const index = standInIndex("github");
    expect(parseDatasetIndex(JSON.stringify(index), "i.json")).toEqual(index);
  });

  it("is refused with all of its mistakes, each with its task and place", () => {
    const text = JSON.stringify({
      ...indexOf([task("a"), task("a"), task("b", { passRates: { m: { passed: 9, attempts: 8 } } })]),
      standin: false,
      tasks: [
        ...[task("a"), task("a"), task("b", { passRates: { m: { passed: 9, attempts: 8 } } })],
        { ...task("c"), difficulty: 4 },
        { ...task("d"), shortestSolutionTokens: "12k" },
      ],
    });
    expect(
      issuesOf(() => parseDatasetIndex(text, "i.json")).map(({ code, path, found }) => `${code} ${path} | ${found}`),
    ).toEqual([
      'dataset-unreadable i.json | unrecognized key: "standin"',
      "dataset-unreadable i.json: tasks.3.difficulty (c) | too big: expected number to be <=3",
      "dataset-unreadable i.json: tasks.4.shortestSolutionTokens (d) | invalid input: expected number, received string",
      "dataset-inconsistent i.json: tasks (b): passRates.m | 9 of 8 attempts passed",
      "dataset-inconsistent i.json: tasks | 2 tasks have the id a",
    ]);
  });

  it("that is no JSON, no object or empty is refused as unreadable", () => {
    for (const text of ["", "{", "[]", "null", '{"tasks": []}'])
      expect(new Set(issuesOf(() => parseDatasetIndex(text, "i.json")).map(({ code }) => code))).toEqual(
        new Set(["dataset-unreadable"]),
      );
  });

  it("with a mistake in every task shows the first fifty and counts the rest", () => {
    const tasks = Array.from({ length: 500 }, (_, index) => ({ ...task(`t${index}`), difficulty: 0 }));
    const issues = issuesOf(() => parseDatasetIndex(JSON.stringify({ ...indexOf([]), tasks }), "i.json"));
    expect(issues).toHaveLength(51);
    expect(issues.at(-1)?.found).toBe("450 more mistakes of this file are not shown");
  });
});

describe("an index", () => {
  it("has one digest whatever the order of its tasks and keys, and another for any other content", () => {
    const index = indexOf([task("a"), task("b")]);
    const { tasks, ...head } = index;
    expect(datasetDigest({ tasks: [...tasks].reverse(), ...head })).toBe(datasetDigest(index));
    expect(datasetDigest(indexOf([task("a"), task("b", { difficulty: 2 })]))).not.toBe(datasetDigest(index));
  });

  it("that is not the one a recipe means is refused with the digest and family it has", () => {
    const index = indexOf([task("a", { passRates: { sft: { passed: 1, attempts: 2 } } })]);
    const issues = checkDataset(index, {
      digest: digestJson("another"),
      family: "unreal",
      passRates: [{ path: "rl.tasks.passRateBand.of", model: "stf" }],
    });
    expect(issues.map(({ code, path }) => [code, path])).toEqual([
      ["dataset-digest-mismatch", "tasks.digest"],
      ["dataset-family-mismatch", "tasks.family"],
      ["pass-rate-model-unknown", "rl.tasks.passRateBand.of"],
    ]);
    expect(issues[0]?.found).toContain(datasetDigest(index));
    expect(issues[2]?.allowed).toBe('"sft"');
    const passRates = [{ path: "rl.tasks.passRateBand.of", model: "sft" }];
    expect(checkDataset(index, { digest: datasetDigest(index), family: "github", passRates })).toEqual([]);
    expect(checkDataset(index, {})).toEqual([]);
  });
});

describe("whose pass rates a band is about", () => {
  it("is the model in that role where the index has it, else left to the run; any other name is meant as it is", () => {
    const index = indexOf([
      task("a", { passRates: { [EXPERT]: { passed: 1, attempts: 2 }, sft: { passed: 1, attempts: 2 } } }),
    ]);
    const roles = { expertModel: EXPERT, baseModel: "Qwen/Qwen3.8-27B" };
    expect(["expert", "sft", "base", "another"].map((of) => passRateKey(index, of, roles))).toEqual([
      ...[EXPERT, "sft", null, "another"],
    ]);
    expect(passRateKey(indexOf([task("a")]), "sft", roles)).toBeNull();
    expect(passRateKey(index, "expert", { ...roles, expertModel: null })).toBeNull();
  });
});

describe("what a recipe uses of an index", () => {
  it("is each task at most once, near copies on one side, and the rest is named", () => {
    fc.assert(
      fc.property(indexes, fc.integer({ min: 1, max: 4000 }), (index, contextTokens) => {
        let used: ReturnType<typeof useDataset>;
        try {
          used = useDataset(index, use({ contextTokens, expertModel: EXPERT }));
        } catch (error) {
          if (!(error instanceof UserError)) throw error;
          expect(["split-impossible", "no-task-fits"]).toContain(error.code);
          return;
        }
        const splits = { train: used.train, validation: used.validation, "held-out": used.heldOut };
        const left = [...used.tooLong.map(({ id }) => id), ...(used.heldOutUnsolved ?? [])];
        const taken = Object.values(splits).flatMap((tasks) => tasks.map(({ id }) => id));
        expect([...taken, ...left].sort()).toEqual(index.tasks.map(({ id }) => id).sort());
        for (const own of Object.values(splits))
          for (const { shortestSolutionTokens } of own)
            expect(shortestSolutionTokens ?? 0).toBeLessThanOrEqual(contextTokens);
        const sides = new Map<string, Set<string>>();
        for (const [split, own] of Object.entries(splits))
          for (const { group } of own) sides.set(group, new Set([...(sides.get(group) ?? []), split]));
        for (const one of sides.values()) expect(one.size).toBe(1);
        const lengths = used.tooLong.map(({ shortestSolutionTokens }) => shortestSolutionTokens);
        expect(lengths).toEqual([...lengths].sort((a, b) => a - b));
      }),
      { numRuns: 150 },
    );
  });

  it("only grows with the context", () => {
    fc.assert(
      fc.property(indexes, fc.integer({ min: 1, max: 4000 }), fc.integer({ min: 1, max: 4000 }), (index, one, two) => {
        const at = (contextTokens: number) => {
          try {
            return useDataset(index, use({ contextTokens, expertModel: EXPERT, band: { of: EXPERT, min: 0, max: 1 } }));
          } catch (error) {
            if (error instanceof UserError) return null;
            throw error;
          }
        };
        const [short, long] = [at(Math.min(one, two)), at(Math.max(one, two))];
        if (!short) return;
        for (const split of ["train", "validation", "heldOut"] as const)
          expect(long?.[split]).toEqual(expect.arrayContaining([...short[split]]));
        expect(long?.rlTasks).toEqual(expect.arrayContaining([...(short.rlTasks ?? [])]));
      }),
      { numRuns: 100 },
    );
  });

  it("does not depend on the order of the index", () => {
    fc.assert(
      fc.property(indexes, fc.integer(), (index, order) => {
        const summary = (tasks: DatasetTask[]) => {
          try {
            return summariseDataset({ ...index, tasks }, use({ expertModel: EXPERT }));
          } catch (error) {
            if (error instanceof UserError) return error.message;
            throw error;
          }
        };
        expect(summary(random(order).shuffle(index.tasks))).toEqual(summary(index.tasks));
      }),
      { numRuns: 60 },
    );
  });

  const tasks = Array.from({ length: 10 }, (_, index) =>
    task(`t${index}`, {
      shortestSolutionTokens: index === 9 ? null : 1000 + 100 * index,
      passRates: { [EXPERT]: { passed: index, attempts: 9 }, first: { passed: index === 4 ? 4 : 3, attempts: 4 } },
    }),
  );
  const trainIds = (used: ReturnType<typeof useDataset>) => used.train.map(({ id }) => id);

  it("leaves held-out tasks out that the expert never solved, and says which", () => {
    const all = useDataset(indexOf(tasks), use());
    expect(all.heldOut).toHaveLength(2);
    expect(all.heldOutUnsolved).toBeNull();
    const [dropped, kept] = all.heldOut.map(({ id }) => id);
    const rated = tasks.map((one) => ({
      ...one,
      passRates: { [EXPERT]: { passed: one.id === dropped ? 0 : 3, attempts: 8 } },
    }));
    const used = useDataset(indexOf(rated), use({ expertModel: EXPERT }));
    expect(used.heldOut.map(({ id }) => id)).toEqual([kept]);
    expect(used.heldOutUnsolved).toEqual([dropped]);
    expect(trainIds(used)).toEqual(trainIds(all));
  });

  it("counts RL tasks in the band with both ends, without those another run always solved", () => {
    const band = { of: EXPERT, min: 3 / 9, max: 7 / 9 };
    const used = useDataset(indexOf(tasks), use({ band }));
    const middle = trainIds(used).filter((id) => ["t3", "t4", "t5", "t6", "t7"].includes(id));
    expect(used.rlTasks).toEqual(middle);
    expect(middle).toContain("t4");
    expect(useDataset(indexOf(tasks), use({ band, dropAlwaysSolvedBy: "first" })).rlTasks).toEqual(
      middle.filter((id) => id !== "t4"),
    );
  });

  it("leaves the number of RL tasks open where the run itself measures the pass rates", () => {
    const unrated = indexOf(tasks.map((one) => ({ ...one, passRates: {} })));
    expect(useDataset(unrated, use()).rlTasks).toBeNull();
    expect(useDataset(unrated, use({ band: { of: EXPERT, min: 0, max: 1 }, expertModel: EXPERT })).rlTasks).toBeNull();
    const band = { of: EXPERT, min: 0, max: 1 };
    expect(useDataset(indexOf(tasks), use({ band, dropAlwaysSolvedBy: "another" })).rlTasks).toBeNull();
  });

  it("cannot be a pass rate of a model that has none, nor of a name every object has", () => {
    for (const of of ["Kimi", "constructor"]) {
      const [issue] = issuesOf(() => useDataset(indexOf(tasks), use({ band: { of, min: 0, max: 1 } })));
      expect(issue).toMatchObject({ code: "pass-rate-model-unknown", path: "rl.tasks.passRateBand.of" });
      expect(issue?.found).toBe(`the index has those of "first", "${EXPERT}"`);
    }
  });

  it("is refused where no task fits and where the band is empty, with the context that would do", () => {
    const [train, heldOut] = issuesOf(() => useDataset(indexOf(tasks.slice(0, 9)), use({ contextTokens: 10 })));
    expect(train).toMatchObject({ code: "no-task-fits", path: "context" });
    expect(train?.found).toBe("none is left: 6 are longer, 0 were never solved by the expert");
    expect(heldOut?.asked).toBe("held-out tasks in a context of 10 tokens");
    expect(train?.allowed).toMatch(/^at least 1\d00 tokens$/);
    const band = { of: "first", min: 0, max: 0.1 };
    expect(issuesOf(() => useDataset(indexOf(tasks), use({ band }))).map(({ code }) => code)).toEqual(["no-rl-tasks"]);
  });

  it("is summarised by nearest rank over the lengths that are known", () => {
    const { solutionTokens, ...summary } = summariseDataset(indexOf(tasks), use());
    expect(solutionTokens).toEqual({ known: 9, median: 1400, p90: 1800, max: 1800 });
    expect(summary).toMatchObject({ tasks: 10, groups: 10, train: 7, validation: 1, heldOut: 2, standIn: false });
    const unknown = indexOf(tasks.map((one) => ({ ...one, shortestSolutionTokens: null })));
    expect(summariseDataset(unknown, use()).solutionTokens).toBeNull();
  });

  it("is found among 100,000 tasks in seconds, half of them held out", () => {
    const rng = random("large");
    const many: DatasetTask[] = [];
    for (let group = 0; many.length < 100_000; group += 1) {
      const shared = { project: `p${rng.below(40)}`, difficulty: 1 + rng.below(3), group: `g${group}` };
      for (let copy = rng.below(4); copy >= 0; copy -= 1)
        many.push(task(`t${many.length}`, { ...shared, shortestSolutionTokens: 1 + rng.below(300_000) }));
    }
    const started = performance.now();
    const summary = summariseDataset(
      indexOf(many),
      use({ split: { heldOut: 50_000, validation: 24 }, contextTokens: 131_072 }),
    );
    // About two seconds on an idle machine; squared growth would take minutes.
    expect(performance.now() - started).toBeLessThan(30_000);
    expect(summary.train + summary.validation + summary.heldOut + summary.tooLong.length).toBe(many.length);
  });
});

describe("the stand-in indexes", () => {
  const read = (family: "github" | "unreal") =>
    readFileSync(new URL(`../../recipes/task-sets/${family}.json`, import.meta.url), "utf8");
  type Band = { of: string; min: number; max: number };
  const solved = { of: EXPERT, min: 0.125, max: 1 };
  const between = { of: "unreal-sft", min: 0.125, max: 0.875 };
  const planned = (family: "github" | "unreal", contextTokens: number, band: Band, dropAlwaysSolvedBy?: string) => {
    const { seed, ...split } = REFERENCE_SPLITS[family];
    return TaskSetSummary.parse(
      summariseDataset(parseDatasetIndex(read(family), family), {
        ...{ split, seed, contextTokens, band, expertModel: EXPERT, dropAlwaysSolvedBy },
      }),
    );
  };

  it.each(["github", "unreal"] as const)("are what their generator makes (%s)", (family) => {
    expect(read(family)).toBe(indexText(standInIndex(family)));
  });

  it.each(["github", "unreal"] as const)("say that they are made up, and cannot be run (%s)", (family) => {
    const { standIn, description } = parseDatasetIndex(read(family), family);
    expect(standIn).toBe(true);
    expect(description).toContain("no such tasks exist");
  });

  it("have the GitHub counts of the reference case: 46 held out, 175 for RL, 139 without the always solved", () => {
    expect(planned("github", 131_072, solved)).toMatchObject({ heldOut: 46, rlTasks: 175 });
    expect(planned("github", 131_072, solved, "github-sft-rl").rlTasks).toBe(139);
  });

  it("have the Unreal counts of the reference case: 54 held out and 53 for RL at 128k, more at 256k", () => {
    expect(passRateModels(parseDatasetIndex(read("unreal"), "unreal"))).toEqual([EXPERT, "unreal-sft"]);
    const short = planned("unreal", 131_072, between);
    expect(short).toMatchObject({ heldOut: 54, rlTasks: 53, train: 94 });
    expect(planned("unreal", 262_144, between)).toMatchObject({ heldOut: 72, rlTasks: 75, train: 134 });
    const trainTooLong = short.tooLong.filter(({ split }) => split === "train");
    expect(trainTooLong.filter(({ shortestSolutionTokens: tokens }) => tokens > 150_000)).toHaveLength(
      (short.train + trainTooLong.length) / 3,
    );
    expect(short.tooLong.at(-1)?.shortestSolutionTokens).toBe(376_000);
    expect(new Set(parseDatasetIndex(read("unreal"), "unreal").tasks.map(({ project }) => project)).size).toBe(5);
  });
});
