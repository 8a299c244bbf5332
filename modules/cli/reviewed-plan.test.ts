import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { canonicalJson, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { UserError } from "../../schemas/error.ts";
import type { Job } from "../../schemas/job.ts";
import type { Plan } from "../../schemas/plan.ts";
import { planWith } from "../runs/fixture.ts";
import { differences, readReviewedPlan, requireReviewed } from "./reviewed-plan.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-reviewed-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const publish = (id: string): Job => ({ id, kind: "publish", needs: [], evaluate: `evaluate-${id}` });
const plan = planWith([publish("a"), publish("b")]);

/** The same plan with another content and the digest of that. */
function changed(change: (body: Omit<Plan, "digest">) => Omit<Plan, "digest">, from = plan): Plan {
  const { digest: _, ...body } = from;
  const other = change(body);
  return { ...other, digest: digestJson(other) };
}

async function write(text: string): Promise<string> {
  const file = join(folder, "plan.json");
  await writeFile(file, text);
  return file;
}

function issueOf(act: () => void) {
  try {
    act();
  } catch (error) {
    return (error as UserError).issues[0];
  }
  throw new Error("nothing was refused");
}

describe("a reviewed plan", () => {
  it("is read back as uplift plan --out wrote it, and is the plan that is trained", async () => {
    const reviewed = await readReviewedPlan(await write(`${canonicalJson(plan)}\n`));
    expect(reviewed.digest).toBe(plan.digest);
    expect(() => requireReviewed(plan, reviewed, "plan.json")).not.toThrow();
  });

  it("is refused where it is missing, no JSON, no plan, or edited by hand", async () => {
    const found = async (file: string) =>
      readReviewedPlan(file).then(
        () => "accepted",
        (error: UserError) => `${error.code}: ${error.issues[0]?.found}`,
      );
    expect(await found(join(folder, "none.json"))).toBe("plan-file-invalid: there is no such file");
    expect(await found(await write("{"))).toBe("plan-file-invalid: it is not JSON");
    expect(await found(await write("{}"))).toMatch(/^plan-file-invalid: /);
    expect(await found(await write(canonicalJson({ ...plan, name: "other" })))).toContain("it was edited");
  });

  it("that is no longer what the recipe plans is refused with both digests and what differs", () => {
    const now = changed((body) => ({ ...body, name: "renamed", target: { ...body.target, name: "other" } }));
    const issue = issueOf(() => requireReviewed(now, plan, "plan.json"));
    expect(issue).toMatchObject({ code: "plan-differs", path: "plan.json" });
    expect(issue?.asked).toContain(shortDigest(plan.digest));
    expect(issue?.found).toBe(
      `renamed is now the plan ${shortDigest(now.digest)}; what differs: name "fixture" → "renamed"; target.name "local" → "other"`,
    );
  });

  it("names the first few of many differences and counts the rest", () => {
    const now = changed((body) => ({
      ...body,
      recipe: { ...body.recipe, rl: { ...body.recipe.rl, steps: 9, learningRate: 1, temperature: 2, klPenalty: 3 } },
      taskSet: { ...body.taskSet, tasks: 1, train: 2, heldOut: 3, validation: 4 },
    }));
    const found = issueOf(() => requireReviewed(now, plan, "plan.json"))?.found ?? "";
    expect(found).toContain("recipe.rl.klPenalty 0 → 3; recipe.rl.learningRate 0.1 → 1;");
    expect(found).toMatch(/ and 2 more$/);
  });
});

describe("the differences of two plans", () => {
  it("are none for a plan and its copy", () => {
    expect(differences(plan, structuredClone(plan))).toEqual([]);
  });

  it("name a job by its id: one more shifts no other", () => {
    const now = changed((body) => ({ ...body, jobs: [publish("new"), ...body.jobs] }));
    expect(differences(plan, now)).toEqual(['jobs.new (not there) → {"id":"new","kind":"publish","needs":[],…']);
  });

  it("are found in lists of values and where a field came or went", () => {
    const now = changed((body) => ({
      ...body,
      recipe: { ...body.recipe, modelRevision: "abc", report: [{ stage: "rl", step: 2 }] },
    }));
    expect(differences(plan, now)).toEqual(['recipe.modelRevision (not there) → "abc"', "recipe.report.0.step 4 → 2"]);
    expect(differences(now, plan)[0]).toBe('recipe.modelRevision "abc" → (not there)');
  });
});
