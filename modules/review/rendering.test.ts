import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { type RecipeReview, Review } from "../../schemas/review.ts";
import { failures, parseFailOn } from "./fail-policy.ts";
import { changed, clusterPlan, localPlan, longContextPlan } from "./fixture.ts";
import { grouped } from "./groups.ts";
import { REVIEW_MARKER, renderReviewMarkdown } from "./markdown.ts";
import { reviewPlans } from "./review-plans.ts";
import { renderReviewText } from "./text.ts";

const longer = reviewPlans({
  base: { kind: "plan", plan: clusterPlan },
  head: { kind: "plan", plan: longContextPlan },
  file: { path: "recipes/unreal-sft-rl.ts", sameBytes: false },
});
const same = (name: string): RecipeReview => ({
  ...reviewPlans({ base: { kind: "plan", plan: localPlan }, head: { kind: "plan", plan: localPlan } }),
  recipe: name,
});
const review = (recipes: RecipeReview[], rest: Partial<Review> = {}): Review =>
  Review.parse({
    ...{ schemaVersion: 1, target: "aws-p5en", before: "main (a1b2c3d4e5f6)", after: "working tree", recipes },
    ...{ sharedFiles: [], notes: [], isolation: null, verdict: null, ...rest },
  });
const six = ["a", "b", "c", "d", "e", "f"].map(same);

describe("the page of a review", () => {
  it("says of a refactor in one line that no plan changed", () => {
    expect(renderReviewText(review(six))).toBe(
      "main (a1b2c3d4e5f6) → working tree on aws-p5en: 6 recipes: no plan changed\n",
    );
  });

  it("says in one line of recipes that a target never took that they are refused as before", () => {
    const [first, ...rest] = six;
    const issue = {
      ...{ code: "model-missing", path: "model", asked: "a" },
      ...{ found: "b", allowed: "c", todo: "d" },
    };
    const refused: RecipeReview = { ...(first as RecipeReview), issues: { before: [issue], after: [issue] } };
    expect(renderReviewText(review([refused, ...rest]))).toBe(
      "main (a1b2c3d4e5f6) → working tree on aws-p5en: 5 recipes: no plan changed, 1 recipe refused as before\n\n" +
        "5 recipes: no plan changed (b, c, d, e, f)\n1 recipe refused as before (a: model-missing)\n",
    );
  });

  it("has a headline a recipe, details below it, and names what did not change", () => {
    const page = renderReviewText(review([longer, same("quickstart-rl")], { notes: ["packages differ"] }));
    expect(page.split("\n").slice(0, 4)).toEqual([
      "main (a1b2c3d4e5f6) → working tree on aws-p5en: 1 of 2 recipes changed, +$412 (+12.1%) for a run",
      "",
      "unreal-sft-rl  (recipes/unreal-sft-rl.ts)",
      `  ${longer.headline}`,
    ]);
    expect(page).toContain("  Training\n    context 128k → 256k\n");
    expect(page).toContain("\n  Resumes old checkpoints\n    SFT: no, other context; training tasks; SFT layout");
    expect(page.endsWith("\n1 recipe: no plan changed (quickstart-rl)\n\nNote: packages differ\n")).toBe(true);
  });

  it("counts what only explains, and lists it when asked to", () => {
    const texts = ["a", "b", "c", "d"].map((name) => `memory for ${name} 1 → 2`);
    const lines = texts.map((text) => ({
      ...{
        section: "arithmetic" as const,
        role: "consequence" as const,
        subject: "memory",
        before: "1",
        after: "2",
        text,
        paths: [text],
      },
    }));
    const explained: RecipeReview = { ...longer, lines };
    expect(renderReviewText(review([explained]))).toContain("\n  What it rests on: 4 changes (--verbose lists them)\n");
    const whole = renderReviewText(review([explained]), { verbose: true });
    for (const text of texts) expect(whole).toContain(`\n    ${text}\n`);
  });

  it("names recipes that shared code changed, with the files", () => {
    const shared: RecipeReview = { ...longer, cause: "shared-code" };
    expect(renderReviewText(review([shared], { sharedFiles: ["modules/plan/fit.ts"] }))).toContain(
      "Note: changed by shared code (modules/plan/fit.ts): unreal-sft-rl\n",
    );
  });

  it("says in one line how code was isolated, naming every gap where it was not, and the verdict last", () => {
    const kept = { network: true, files: true, secrets: true };
    const isolation = { how: "bubblewrap", ...kept, reads: ["its side's files"], notIsolated: ["a", "b"] };
    const verdict = failures(review(six), parseFailOn("unfit,data"));
    expect(renderReviewText(review(six, { isolation, verdict })).split("\n").slice(1)).toEqual([
      "",
      "planned in bubblewrap: no network, no secrets, nothing written; it can read its side's files, no limit on memory or processors",
      ...["", "passes unfit, data", ""],
    ]);
    const gap = { ...isolation, how: "a child process", network: false, notIsolated: ["it can reach the network"] };
    expect(renderReviewText(review(six, { isolation: gap }))).toContain(
      "\nplanned in a child process: no secrets, nothing written; it can reach the network\n",
    );
  });

  it("names the recipe that changes most where a sum hides it", () => {
    const { before, after } = { before: longer.cost.dollars.before ?? 0, after: longer.cost.dollars.after ?? 0 };
    const cheaper: RecipeReview = {
      ...longer,
      recipe: "cheap",
      cost: { ...longer.cost, dollars: { before: 9000, after: 9000 + before - after } },
    };
    expect(renderReviewText(review([longer, cheaper]))).toContain(
      ": 2 of 2 recipes changed, no dollar more or less in all for a run of each that had a price, most unreal-sft-rl +$412 (+12.1%)\n",
    );
  });
});

describe("recipes that share a change", () => {
  const cooler = (name: string, more: Parameters<typeof changed>[1] = () => {}) => {
    const base = changed(clusterPlan, (body) => {
      body.name = name;
    });
    const head = changed(base, (body) => {
      body.recipe.evaluation.temperature = 0.8;
      more(body);
    });
    const file = { path: `recipes/${name}.ts`, sameBytes: name !== "own" };
    return reviewPlans({ base: { kind: "plan", plan: base }, head: { kind: "plan", plan: head }, file });
  };
  const own = cooler("own", (body) => {
    body.recipe.rl.steps = 80;
    body.recipe.rl.klPenalty = 0.1;
    body.recipe.rl.learningRate = 2e-5;
    body.estimate.cost = longContextPlan.estimate.cost;
  });
  const shared = { sharedFiles: ["recipes/preset.ts"] };

  it("are one block: the change once, each one's dollars, and only what each has beside it", () => {
    const page = renderReviewText(review([cooler("a"), longer, own, cooler("b")], shared));
    const [, , ...lines] = page.split("\n");
    expect(lines.slice(0, 16)).toEqual([
      "3 recipes: evaluation temperature 1 → 0.8 (by shared code: recipes/preset.ts); rows of these recipes can no longer be ranked with earlier ones: preset changed",
      "  a  (recipes/a.ts): $3,418 a run, as before",
      "  own  (recipes/own.ts): $3,418 → $3,830 a run (+$412, +12.1%); also RL steps 40 → 80, RL learning rate 1e-5 → 2e-5, KL penalty 0 → 0.1; resumes old checkpoints: SFT yes, RL no",
      "  b  (recipes/b.ts): $3,418 a run, as before",
      "  Evaluation",
      "    evaluation temperature 1 → 0.8",
      "  Resumes old checkpoints",
      "    SFT: yes",
      "  Comparability",
      "    rows of these recipes can no longer be ranked with earlier ones: preset changed",
      "  a, b also",
      "    Resumes old checkpoints",
      "      RL: yes",
      "  own also",
      "    Training",
      "      RL steps 40 → 80",
    ]);
    expect(page.match(/evaluation temperature/g)).toHaveLength(2);
    expect(lines).toContain("unreal-sft-rl  (recipes/unreal-sft-rl.ts)");
  });

  it("are one entry of a comment, each with its line, and keep their own entry in the data", () => {
    const comment = renderReviewMarkdown(review([cooler("a"), own], shared), { maxCharacters: 65_536 });
    expect(comment).toContain("\n- **2 recipes**: evaluation temperature 1 → 0.8 (by shared code: recipes/preset.ts);");
    expect(comment).toContain("\n  - **a**: \\$3,418 a run, as before\n");
    expect(comment).toMatch(/<details><summary>2 recipes \(a, own\): 1 change<\/summary>/);
    expect(comment).toMatch(/<details><summary>own also: \d+ changes<\/summary>/);
    expect(review([cooler("a"), own]).recipes.map(({ recipe, lines }) => [recipe, lines.length > 0])).toEqual([
      ["a", true],
      ["own", true],
    ]);
  });

  it("are told apart where they share no whole change", () => {
    const one = cooler("a");
    const lines = (texts: string[]) =>
      texts.map((text) => ({
        ...{ section: "training" as const, role: "setting" as const, subject: text, before: "1", after: "2", text },
        paths: [text],
      }));
    const [x, y] = [lines(["x", "both"]), lines(["y", "both"])].map(
      (some, index): RecipeReview => ({ ...one, recipe: `r${index}`, lines: some }),
    );
    const page = renderReviewText(review([x as RecipeReview, y as RecipeReview]));
    expect(page).toContain("\n\nr0  (recipes/a.ts)\n");
    expect(page).toContain("\n\nr1  (recipes/a.ts)\n");
  });

  it("hide nothing: every line of every recipe stands in its group, or in its own part", () => {
    const edits: ((body: Parameters<Parameters<typeof changed>[1]>[0]) => void)[] = [
      (body) => {
        body.recipe.rl.steps = 80;
      },
      (body) => {
        body.recipe.seed = 5;
      },
      (body) => {
        body.recipe.evaluation.attempts = 4;
      },
      (body) => {
        body.taskSet.train += 3;
      },
      (body) => {
        for (const { layout } of body.layouts) if (layout.kind === "sft") layout.nodes = 4;
      },
      (body) => {
        body.warnings = [];
      },
      (body) => {
        body.estimate.cost = longContextPlan.estimate.cost;
      },
    ];
    const picks = fc.array(fc.subarray(edits), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(picks, fc.boolean(), (all, cool) => {
        const reviews = all.map((some, index) => {
          const head = changed(clusterPlan, (body) => {
            if (cool) body.recipe.evaluation.temperature = 0.5;
            for (const edit of some) edit(body);
          });
          const sides = {
            base: { kind: "plan" as const, plan: clusterPlan },
            head: { kind: "plan" as const, plan: head },
          };
          return { ...reviewPlans(sides), recipe: `r${index}` };
        });
        for (const one of grouped(reviews)) {
          if (one.kind === "recipe") continue;
          const shown = (index: number) => [...one.common.lines, ...(one.own[index]?.lines ?? [])];
          for (const [index, { lines }] of one.recipes.entries())
            expect(
              shown(index)
                .map(({ text }) => text)
                .sort(),
            ).toEqual(lines.map(({ text }) => text).sort());
        }
        const told = grouped(reviews).flatMap((one) => (one.kind === "recipe" ? [one.review] : one.recipes));
        expect(told.map(({ recipe }) => recipe).sort()).toEqual(reviews.map(({ recipe }) => recipe).sort());
        const pages = [
          renderReviewText(review(reviews), { verbose: true }),
          renderReviewMarkdown(review(reviews), { maxCharacters: 1_000_000 }).replace(/[\\\u200b]/g, ""),
        ];
        for (const { lines } of reviews)
          for (const { text } of lines) for (const page of pages) expect(page.replaceAll("&gt;", ">")).toContain(text);
      }),
      { numRuns: 60 },
    );
  });
});

describe("the comment of a review", () => {
  it("begins with its marker and the summary, and folds each recipe's details", () => {
    const comment = renderReviewMarkdown(review([longer, same("b")]), { maxCharacters: 65_536 });
    expect(comment.startsWith(`${REVIEW_MARKER}\n## Uplift: 1 of 2 recipes changed`)).toBe(true);
    expect(comment).toContain("\n- **unreal-sft-rl**: context 128k → 256k: KV per sequence 8 → 16 GiB");
    expect(comment).toMatch(
      /<details><summary>unreal-sft-rl \(recipes\/unreal-sft-rl\.ts\): \d+ changes<\/summary>\n\n\*\*Training\*\*\n\n- context 128k → 256k\n/,
    );
    expect(comment.match(/<details>/g)).toHaveLength(comment.match(/<\/details>/g)?.length ?? 0);
  });

  it("leaves out the largest details first where it would be too long, says so, and keeps every summary", () => {
    const big: RecipeReview = {
      ...longer,
      recipe: "big",
      // Not the same change: two of the same are one block.
      outcome: "plans-now",
      lines: longer.lines.flatMap((line) => Array.from({ length: 40 }, () => line)),
    };
    const comment = renderReviewMarkdown(review([longer, big]), { maxCharacters: 20_000 });
    expect(comment.length).toBeLessThanOrEqual(20_000);
    expect(comment).toContain("- **big**: context 128k → 256k");
    expect(comment).toContain("<summary>unreal-sft-rl (recipes/unreal-sft-rl.ts)");
    expect(comment).not.toContain("<summary>big");
    expect(comment).toMatch(/_Details of big left out: \d+ characters more than a comment may have\./);
  });

  it("never is longer than it may be, whatever and however much a recipe says", () => {
    const text = fc.oneof(
      fc.string({ maxLength: 300 }),
      fc.string({ unit: "binary", maxLength: 1000 }),
      fc.constant("<&@#|".repeat(500)),
      fc.constant("&a".repeat(500)),
    );
    const recipe = fc.record({ recipe: text, headline: text, text }).map(
      (one): RecipeReview => ({
        ...longer,
        ...{ recipe: one.recipe, headline: one.headline },
        lines: longer.lines.map((line) => ({ ...line, text: one.text })),
      }),
    );
    fc.assert(
      fc.property(
        fc.array(recipe, { maxLength: 30 }),
        fc.record({ before: text, after: text, target: text, notes: fc.array(text, { maxLength: 40 }) }),
        fc.constantFrom(10_000, 20_000, 65_536),
        (recipes, sides, maxCharacters) => {
          const comment = renderReviewMarkdown(review(recipes, sides), { maxCharacters });
          expect(comment.length).toBeLessThanOrEqual(maxCharacters);
          expect(comment.startsWith(`${REVIEW_MARKER}\n## Uplift: `)).toBe(true);
        },
      ),
      { numRuns: 15 },
    );
  });

  it("lets a recipe make no markup, link, mention, reference or command", () => {
    const hostile =
      "</details><img src=x onerror=alert(1)> [click](https://evil.example) @maintainers #12 !34 `code` | a | **b**\n/merge www.evil.example";
    const head = changed(clusterPlan, (body) => {
      body.recipe.description = hostile;
    });
    const one = reviewPlans({ base: { kind: "plan", plan: clusterPlan }, head: { kind: "plan", plan: head } });
    const comment = renderReviewMarkdown(review([{ ...one, recipe: hostile, file: hostile }]), {
      maxCharacters: 65_536,
    });
    for (const forbidden of ["<img", "[click](", "https://", "@maintainers", " #12", "!34", "www.evil", "\n/merge"])
      expect(comment).not.toContain(forbidden);
    expect(comment.match(/<\/details>/g)).toHaveLength(comment.match(/<details>/g)?.length ?? 0);
    expect(comment.replaceAll("\u200b", "")).toContain("\\[click\\](https://evil.example) @maintainers #12 !34");
  });
});

describe("a policy", () => {
  const verdict = (policy: string, recipes: RecipeReview[] = [longer]) => {
    const { failed, unchecked } = failures(review(recipes), parseFailOn(policy));
    return { failed: failed.map(({ condition }) => condition), unchecked: unchecked.map(({ condition }) => condition) };
  };

  it("is met by what it names and by nothing else", () => {
    // +$412, +12.1 %, incomparable, 18 tasks more.
    expect(verdict("cost>12%, cost>$411 ,incomparable,unfit,warnings,data").failed).toEqual([
      ...["cost>12%", "cost>$411", "incomparable", "data"],
    ]);
    expect(verdict("cost>12.2%,cost>$413")).toEqual({ failed: [], unchecked: [] });
    expect(verdict("cost>0%,incomparable,unfit,warnings,data", six)).toEqual({ failed: [], unchecked: [] });
  });

  it("counts a recipe that does not plan or does not fit as unfit", () => {
    const broken = reviewPlans({ base: { kind: "plan", plan: clusterPlan }, head: { kind: "refused", issues: [] } });
    expect(verdict("cost>20%,unfit", [broken, longer]).failed).toEqual(["unfit"]);
  });

  it("is not passed where no recipe at all could be planned, whatever it names", () => {
    const issue = { ...{ code: "x", path: "x", asked: "x" }, ...{ found: "x", allowed: "x", todo: "x" } };
    const refused = { kind: "refused" as const, issues: [issue] };
    const asBefore = reviewPlans({ base: refused, head: refused });
    expect(asBefore.outcome).toBe("unchanged");
    const shown = review([asBefore, asBefore]);
    const judged = failures(shown, parseFailOn("cost>20%"));
    expect(judged.failed).toEqual([{ recipe: null, condition: "unfit", text: "no recipe could be planned" }]);
    expect(renderReviewText({ ...shown, verdict: judged })).toMatch(
      /\n\ndoes not pass unfit: no recipe could be planned\n$/,
    );
    expect(verdict("incomparable", [asBefore, same("a")]).failed).toEqual([]);
    expect(verdict("incomparable", []).failed).toEqual(["unfit"]);
  });

  it("counts a new recipe's cost whole against dollars, and says that a percentage has nothing to go by", () => {
    const added = reviewPlans({ base: { kind: "absent" }, head: { kind: "plan", plan: clusterPlan } });
    expect(verdict("cost>20%,cost>$3000,cost>$4000", [added])).toEqual({
      failed: ["cost>$3000"],
      unchecked: ["cost>20%"],
    });
    const [unchecked] = failures(review([added]), parseFailOn("cost>20%")).unchecked;
    expect(unchecked?.text).toBe("a new recipe, $3,418 a run: there is no former price");
  });

  it("says where there is no cost to compare with", () => {
    const repaired = reviewPlans({
      base: { kind: "refused", issues: [] },
      head: { kind: "plan", plan: clusterPlan },
    });
    expect(verdict("cost>20%,cost>$1", [repaired])).toEqual({ failed: [], unchecked: ["cost>20%", "cost>$1"] });
  });

  it("is refused where it is no policy", () => {
    for (const text of ["", "cost", "cost>20", "cost>-1%", "cost<20%", "unfitt", "unfit,,data"])
      expect(() => parseFailOn(text), text).toThrow(UserError);
    expect(() => parseFailOn("cost>20")).toThrow(/--fail-on: the condition "cost>20".*option-invalid/);
  });

  it("is shown first in the comment and before the notes on the page", () => {
    const shown = review([longer], { verdict: failures(review([longer]), parseFailOn("cost>10%")) });
    expect(renderReviewText(shown)).toContain("\ndoes not pass cost>10%: unreal-sft-rl, +$412 a run (+12.1%)\n");
    expect(renderReviewMarkdown(shown, { maxCharacters: 65_536 })).toContain(
      "\n- does not pass cost&gt;10%: unreal-sft-rl",
    );
  });
});
