import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import type { Plan } from "../../schemas/plan.ts";
import { RecipeReview } from "../../schemas/review.ts";
import { changed, clusterPlan, compare, localPlan, longContextPlan, side, textsOf } from "./fixture.ts";
import { leafChanges } from "./leaf-changes.ts";
import { reviewPlans, type Side, sideOf } from "./review-plans.ts";

const issue = {
  ...{ code: "rope-missing", path: "recipes/a.ts: context", asked: "256k" },
  ...{ found: "128k is native", allowed: "131,072", todo: "add a rope block" },
};

describe("a review of two plans", () => {
  it("puts the leading change and its consequences on one line", () => {
    expect(compare(clusterPlan, longContextPlan).headline).toBe(
      "context 128k → 256k: KV per sequence 8 → 16 GiB, 26 → 13 concurrent sequences a node, " +
        "SFT context parallel 8 → 16 (2 → 4 nodes), +$412 a run; 18 more tasks fit; resumes old checkpoints: no; " +
        "rows of this recipe can no longer be ranked with earlier ones: served context changed",
    );
  });

  it("leads with what makes rows incomparable, whatever else was chosen", () => {
    const head = changed(clusterPlan, (body) => {
      body.recipe.seed = 7;
      body.recipe.rl.steps = 80;
      body.recipe.rl.learningRate = 2e-5;
      body.recipe.rl.temperature = 0.9;
      body.recipe.evaluation.temperature = 0.8;
    });
    const { headline, lines } = compare(clusterPlan, head);
    expect(headline).toMatch(
      /^evaluation temperature 1 → 0.8, RL steps 40 → 80, RL learning rate 1e-5 → 2e-5, 2 more settings; /,
    );
    expect(lines.filter(({ role }) => role === "measurement").map(({ text }) => text)).toEqual([
      "evaluation temperature 1 → 0.8",
    ]);
    expect(lines.map(({ text }) => text)).toContain("rollout temperature 1 → 0.9");
    // By shared code nobody chose it, and it leads all the same.
    const graders = changed(clusterPlan, (body) => {
      body.recipe.rl.steps = 80;
      body.taskSet.familyDigest = digestJson("new grader");
    });
    expect(compare(clusterPlan, graders).headline).toMatch(/^tools, graders and generator of the family sha256:\w+ → /);
    const harness = { ...head, recipe: { ...clusterPlan.recipe, seed: 7 }, measurementKey: digestJson("2") };
    expect(compare(clusterPlan, harness).headline).toMatch(/^harness changed, seed 0 → 7; /);
  });

  it("tells of arithmetic only the sentences that changed, each beside its old one and none longer than 300 characters", () => {
    const [long, longer] = [1, 2].map((n) => `Least certain: ${"the same words ".repeat(30)}then ${n} adds hours.`);
    const why = (...texts: (string | undefined)[]) =>
      changed(clusterPlan, (body) => {
        const rl = body.estimate.cost?.stages.find(({ stage }) => stage === "rl");
        if (rl) rl.why = texts.filter((text) => text !== undefined);
      });
    const lines = compare(
      why("Stage: 40 steps = 38.5 h. It stays as it was", long, "Gone for good."),
      why("Stage: 80 steps = 76.9 h. It stays as it was", longer, "New one."),
    ).lines.filter(({ section }) => section === "arithmetic");
    expect(lines.map(({ text }) => text)).toEqual([
      "estimate of RL because Stage: 40 steps = 38.5 h. → Stage: 80 steps = 76.9 h.",
      expect.stringMatching(/^estimate of RL because ….*then 1 adds hours\. → ….*then 2 adds hours\.$/),
      "estimate of RL because: Gone for good. (gone)",
      "estimate of RL because: New one. (new)",
    ]);
    for (const { text } of lines) expect(text.length).toBeLessThan(2 * 300 + 40);
    expect(lines[1]).toMatchObject({ before: long, after: longer });
  });

  it("tells money by stage with sign and percent", () => {
    const cost = textsOf(compare(clusterPlan, longContextPlan), "cost");
    expect(cost[0]).toBe("dollars of a run $3,418 [$2,393–$5,127] → $3,830 [$2,681–$5,745] (+$412, +12.1%)");
    expect(cost).toContain("dollars of SFT $127 [$88.62–$190] → $539 [$377–$808] (+$412, +325.4%)");
    expect(cost.filter((text) => text.includes("of RL"))).toEqual([]);
  });

  it("says minus where a run gets cheaper", () => {
    const { headline, cost } = compare(longContextPlan, clusterPlan);
    expect(headline).toContain("-$412 a run");
    expect(headline).toContain("18 tasks no longer fit, 0 of them held out");
    expect(cost.dollars.after).toBeLessThan(cost.dollars.before ?? 0);
  });

  it("says of a plan with the same bytes that nothing changed", () => {
    const review = compare(clusterPlan, structuredClone(clusterPlan));
    expect(review).toMatchObject({ outcome: "unchanged", lines: [], headline: "no change of the plan" });
  });

  it("tells a repetition with what it repeats, and lists it where it went its own way", () => {
    const head = changed(clusterPlan, (body) => {
      body.recipe.rl.steps = 60;
      for (const job of body.jobs) if (job.kind === "train" && job.stage === "rl") job.steps = 60;
    });
    expect(compare(clusterPlan, head).lines.map(({ text, paths }) => [text, paths])).toEqual([
      ["RL steps 40 → 60", ["recipe.rl.steps", "jobs.rl.steps"]],
    ]);
    const astray = changed(head, (body) => {
      for (const job of body.jobs) if (job.kind === "train" && job.stage === "rl") job.steps = 50;
    });
    expect(textsOf(compare(clusterPlan, astray), "other")).toEqual(["jobs.rl.steps 40 → 50"]);
  });

  it("names the recipe's new name once, not in every checkpoint", () => {
    const head = changed(clusterPlan, (body) => {
      body.name = "mine";
      for (const job of body.jobs)
        if (job.kind === "checkpoint") job.name = job.name.replaceAll("unreal-sft-rl", "mine");
    });
    expect(compare(clusterPlan, head).lines.map(({ text }) => text)).toEqual(["recipe's name unreal-sft-rl → mine"]);
  });

  it("lists what no sentence tells as path, old and new", () => {
    const head = changed(clusterPlan, (body) => {
      for (const job of body.jobs)
        if (job.kind === "train" && job.stage === "sft" && job.launch) job.launch.env.NCCL_DEBUG = "INFO";
    });
    const review = compare(clusterPlan, head, { file: { path: "recipes/a.ts", sameBytes: true } });
    expect(textsOf(review, "rendered")).toEqual(['jobs.sft.launch.env.NCCL_DEBUG "WARN" → "INFO"']);
    expect(review).toMatchObject({ cause: "shared-code", file: "recipes/a.ts" });
    expect(review.headline).toBe('by shared code, jobs.sft.launch.env.NCCL_DEBUG "WARN" → "INFO"');
  });

  it("tells a change that rounding hides as it is", () => {
    const head = changed(clusterPlan, (body) => {
      const [first] = body.layouts;
      if (first) first.fit.totalGib += 0.0001;
    });
    expect(textsOf(compare(clusterPlan, head), "infrastructure")).toEqual([
      expect.stringMatching(/^layouts\.sft\.fit\.totalGib 70\.5\d* → 70\.5001/),
    ]);
  });

  it("names jobs that are new, each with all of its fields", () => {
    const head = changed(clusterPlan, (body) => {
      body.jobs.push({ id: "evaluate-sft-20", needs: ["sft-20"], kind: "evaluate", checkpoint: "sft-20" });
    });
    const { lines } = compare(clusterPlan, head);
    expect(lines).toMatchObject([{ text: "jobs new: evaluate-sft-20", paths: ["jobs.evaluate-sft-20"] }]);
  });

  it("tells a stage that only one side lays out in one line", () => {
    const { lines } = compare(clusterPlan, localPlan);
    const infrastructure = lines.filter(({ section }) => section === "infrastructure").map(({ subject }) => subject);
    expect(infrastructure).toEqual([
      ...["target", "KV per sequence", "SFT layout", "RL layout", "serving layout"],
      ...["SFT job on Slurm", "RL job on Slurm"],
    ]);
    expect(textsOf(compare(clusterPlan, localPlan), "cost")).toEqual([
      "cost of a run: $3,418 [$2,393–$5,127], 432 [302.4–648] GPU-hours ($63.3 a node-hour, on-demand) (gone)",
    ]);
  });

  it("gives warnings that are new and those that are gone", () => {
    const head = changed(clusterPlan, (body) => {
      body.warnings = [{ code: "unproven-layout", path: "rl", message: "unproven", todo: "try it on two nodes" }];
    });
    const { warnings, headline, lines } = compare(clusterPlan, head);
    expect(warnings.gained.map(({ code }) => code)).toEqual(["unproven-layout"]);
    expect(warnings.lost.map(({ code }) => code)).toEqual(["stand-in-tasks"]);
    expect(lines.map(({ text }) => text)).toEqual([
      "new: rl: unproven. To do: try it on two nodes. [unproven-layout]",
      "no longer: tasks: the tasks are made up. To do: give the index of real ones. [stand-in-tasks]",
    ]);
    expect(headline).toContain("1 new warning");
  });

  it("says which stage needs more memory than there is", () => {
    const head = changed(clusterPlan, (body) => {
      const rl = body.layouts.find(({ stage }) => stage === "rl");
      if (rl) rl.fit.totalGib = 130.25;
    });
    const { unfit, headline, lines } = compare(clusterPlan, head);
    expect(unfit).toEqual(["RL needs 130.3 GiB of 125.5 GiB a GPU"]);
    expect(headline).toContain("does not fit: RL needs 130.3 GiB of 125.5 GiB a GPU");
    expect(lines.map(({ text }) => text)).toEqual([
      "RL memory of a GPU 86.6 of 125.5 GiB, 38.9 GiB to spare → 130.3 of 125.5 GiB, 4.8 GiB too much",
    ]);
  });

  it("shows control characters of a recipe instead of sending them to the terminal", () => {
    const head = changed(clusterPlan, (body) => {
      body.recipe.description = "\u001b[2Jgone\u202e\nsecond";
    });
    expect(textsOf(compare(clusterPlan, head), "training")).toEqual([
      'description "Reference case, SFT then GRPO." → "\\u001b[2Jgone\\u{202e}\\nsecond"',
    ]);
  });
});

describe("a side without a plan", () => {
  const refused: Side = { kind: "refused", issues: [issue] };
  const of = (base: Side, head: Side) => reviewPlans({ base, head, file: { path: "recipes/a.ts", sameBytes: false } });

  it("is a recipe that is new, gone, broken, repaired, or broken as before", () => {
    const absent: Side = { kind: "absent" };
    expect(of(absent, side(clusterPlan))).toMatchObject({
      outcome: "added",
      headline:
        "new recipe: SFT, then RL of Qwen/Qwen3.8-27B, context 128k, SFT 2 nodes, RL 4 nodes, $3,418 a run; 1 warning",
    });
    expect(of(side(clusterPlan), absent)).toMatchObject({ outcome: "removed", headline: "the recipe is gone" });
    expect(of(side(clusterPlan), refused)).toMatchObject({
      outcome: "no-longer-plans",
      headline: "no longer plans: 1 mistake, rope-missing",
      unfit: ["it does not plan (1 mistake)"],
      issues: { before: [], after: [issue] },
    });
    expect(of(refused, side(clusterPlan))).toMatchObject({ outcome: "plans-now", issues: { before: [issue] } });
    expect(of(refused, refused)).toMatchObject({
      ...{ recipe: "a", outcome: "unchanged", unfit: [] },
      headline: "does not plan, as before: 1 mistake, rope-missing",
    });
    const otherwise: Side = { kind: "refused", issues: [{ ...issue, found: "64k is native" }] };
    expect(of(refused, otherwise)).toMatchObject({
      outcome: "does-not-plan",
      headline: "does not plan, otherwise than before: 1 mistake, rope-missing",
    });
    expect(of(absent, refused).headline).toBe("new, and does not plan: 1 mistake, rope-missing");
  });

  it("is compared field by field where another version of Uplift made its plan", () => {
    const { layouts: _layouts, ...older } = structuredClone(clusterPlan);
    const base = sideOf(older);
    expect(base).toMatchObject({ kind: "foreign", why: expect.stringContaining("layouts") });
    const review = RecipeReview.parse(of(base, side(clusterPlan)));
    expect(review.outcome).toBe("changed");
    expect(review.comparability?.same).toBe(true);
    expect(review.lines.some(({ text }) => text === "layouts.sft.layout.nodes none → 2")).toBe(true);
    expect(review.headline).toMatch(/^the plan before is of another version of Uplift \(layouts: /);
  });
});

describe("any change of a plan", () => {
  type Path = (string | number)[];
  /** Paths of texts, numbers and truths; what is empty or null has nothing that could say something else. */
  const leaves = (value: unknown, path: Path = []): Path[] => {
    if (typeof value !== "object") return [path];
    return Object.entries(value ?? {}).flatMap(([key, member]) =>
      leaves(member, [...path, Array.isArray(value) ? Number(key) : key]),
    );
  };
  const otherThan = (value: unknown, pick: number): unknown => {
    if (typeof value === "number") return value + ([1, 0.001, -1, 1e9][pick] ?? 0);
    if (typeof value === "string") return [`${value}x`, `${value}\u200b`, `${value}\n`, `x${value}`][pick];
    return !value;
  };
  /** The same plan with one leaf that says something else. */
  const mutate = (plan: Plan, path: Path, pick: number): Plan => {
    const copy = structuredClone(plan);
    let here: Record<string | number, unknown> = copy as never;
    for (const key of path.slice(0, -1)) here = here[key] as never;
    const last = path.at(-1) ?? "";
    here[last] = otherThan(here[last], pick);
    return copy;
  };
  /** As it would be read: a kind that there is none of makes it another version's plan. */
  const read = (plan: Plan, paths: readonly Path[]): Side =>
    paths.some((path) => path.at(-1) === "kind") ? sideOf(plan) : side(plan);
  const plans = [clusterPlan, longContextPlan, localPlan];

  it("is told, whatever leaf it is", () => {
    const anyLeaf = fc
      .constantFrom(...plans)
      .chain((plan) => fc.tuple(fc.constant(plan), fc.constantFrom(...leaves(plan)), fc.nat(3)));
    fc.assert(
      fc.property(anyLeaf, ([plan, path, pick]) => {
        const head = mutate(plan, path, pick);
        const review = reviewPlans({ base: side(plan), head: read(head, [path]) });
        expect(review.outcome).toBe("changed");
        expect(review.headline).not.toBe("");
        expect(review.lines.length + Number(review.comparability?.same === false)).toBeGreaterThan(0);
        for (const line of review.lines) expect(line.before).not.toBe(line.after);
      }),
      { numRuns: 400 },
    );
  });

  it("is told leaf by leaf where many change at once", () => {
    const edits = fc
      .constantFrom(...plans)
      .chain((plan) =>
        fc.tuple(
          fc.constant(plan),
          fc.array(fc.tuple(fc.constantFrom(...leaves(plan)), fc.nat(3)), { minLength: 2, maxLength: 12 }),
        ),
      );
    fc.assert(
      fc.property(edits, ([plan, all]) => {
        const head = all.reduce((copy, [path, pick]) => mutate(copy, path, pick), plan);
        const paths = all.map(([path]) => path);
        const review = reviewPlans({ base: side(plan), head: read(head, paths) });
        const told = review.lines.flatMap(({ paths }) => paths);
        const untold = leafChanges(plan, head)
          .map(({ path }) => path)
          .filter((path) => !["digest", "measurementKey"].includes(path))
          .filter((path) => !told.some((one) => path === one || path.startsWith(`${one}.`)));
        expect(untold).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });
});
