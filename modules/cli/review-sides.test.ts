/**
 * Real git, real processes, real isolation; only the code that plans is a small one of the test's own. It answers as
 * `uplift plan --json` does. The real one is compared with itself in test/diff.test.ts.
 */
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Review } from "../../schemas/review.ts";
import { clusterPlan } from "../review/fixture.ts";
import { parseRange } from "./git-trees.ts";
import { type ReviewRequest, reviewFiles, reviewRange } from "./review-sides.ts";

/** Plans by a line of JSON in the recipe: {"steps": 40}, {"loop": true}, {"crash": true}; other files are no recipes. */
const CLI = `
import { readFileSync, existsSync, writeFileSync } from "node:fs";
const [, , command, recipe, , target] = process.argv;
const refuse = (code, path) => {
  const words = { asked: "a", found: process.cwd() + "/" + recipe, allowed: "c", todo: "d" };
  console.log(JSON.stringify({ error: { issues: [{ code, path, ...words }] } }));
  process.exit(1);
};
const file = "stacks/targets/" + target + ".ts";
if (!existsSync(file)) refuse("target-missing", target);
if (readFileSync(file, "utf8") === "broken") refuse("file-does-not-load", target);
if (readFileSync(file, "utf8") === "invalid") refuse("target-invalid", target + ": maxNodes");
const text = readFileSync(recipe, "utf8");
if (!text.includes("export default") && !recipe.endsWith(".yaml")) refuse("recipe-no-default-export", recipe);
const says = JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1) || "{}");
if (says.crash) throw new Error("planner is broken");
if (says.kind === undefined) refuse("recipe-invalid", recipe + ": kind");
try { writeFileSync("written", "x"); } catch {}
const plan = JSON.parse(readFileSync("plan.json", "utf8"));
plan.name = recipe.replace(/^.*[/]|[.][a-z]+$/g, "");
plan.recipe.rl.steps = says.steps;
plan.recipe.rl.klPenalty = 0; // SHARED
plan.recipe.description = process.env.UPLIFT_TEST_SECRET ?? "no secret";
console.log(JSON.stringify(plan));
`;

let folder: string;
let project: string;
const git = (...args: string[]) =>
  execa("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", ...args], {
    cwd: project,
  });
const write = (path: string, text: string) => writeFile(join(project, path), text);
const commit = async (message: string) => {
  await git("add", "-A");
  await git("commit", "-q", "-m", message);
};
const recipe = (says: Record<string, unknown>) => `export default ${JSON.stringify({ kind: "rl", ...says })};\n`;
const progress: string[] = [];
const review = async (range: string, rest: Partial<ReviewRequest> = {}): Promise<Review> => {
  const parsed = parseRange(range);
  if (parsed === null) throw new Error(range);
  progress.length = 0;
  const request = { projectDir: project, recipes: [], target: "lab", progress: (line: string) => progress.push(line) };
  return Review.parse(await reviewRange(parsed, { ...request, ...rest }));
};
const outcomes = ({ recipes }: Review) => recipes.map(({ file, outcome, cause }) => [file, outcome, cause]);
const leftFolders = async () => (await readdir(tmpdir())).filter((name) => name.startsWith("uplift-diff-"));
const ownTmpdir = process.env.TMPDIR;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-sides-"));
  project = join(folder, "project");
  // A folder for temporary files of its own: other tests, running beside, have theirs elsewhere.
  await mkdir(join(folder, "tmp"));
  process.env.TMPDIR = join(folder, "tmp");
  for (const path of ["recipes", "modules/cli", "stacks/targets", "docs", "node_modules/x"])
    await mkdir(join(project, path), { recursive: true });
  await write("package.json", '{"type":"module"}');
  await write(".gitignore", "node_modules\n");
  await write("modules/cli/uplift.js", CLI);
  await write("stacks/targets/lab.ts", "");
  await write("docs/a.md", "one");
  await write("plan.json", JSON.stringify(clusterPlan));
  await write("recipes/a.ts", recipe({ steps: 40 }));
  await write("recipes/b.yaml", '# {"kind": "rl", "steps": 40}\nkind: rl\n');
  await write("recipes/preset.ts", 'export const preset = { name: "p" };\n');
  await write("recipes/list.ts", "export default {};\n");
  await git("init", "-q");
  await commit("start");
});
afterAll(async () => {
  if (ownTmpdir === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = ownTmpdir;
  await rm(folder, { recursive: true });
});

describe("a review of a range", () => {
  it("takes as recipes what is one, and plans once where nothing that matters differs", async () => {
    await write("docs/a.md", "two");
    const same = await review("HEAD..");
    expect(outcomes(same)).toEqual([
      ["recipes/a.ts", "unchanged", null],
      ["recipes/b.yaml", "unchanged", null],
    ]);
    expect(same.notes).toEqual(["no recipes, and left out: recipes/list.ts"]);
    expect(progress.filter((line) => line.startsWith("planning"))).toHaveLength(3);
    await commit("docs");
  });

  it("tells what a recipe's own change and what shared code does, each planned by its side's own code", async () => {
    await write("recipes/a.ts", recipe({ steps: 60 }));
    await write("modules/cli/uplift.js", CLI.replace("klPenalty = 0; // SHARED", "klPenalty = 0.01;"));
    const both = await review("HEAD..");
    expect(outcomes(both)).toEqual([
      ["recipes/a.ts", "changed", "recipe"],
      ["recipes/b.yaml", "changed", "shared-code"],
    ]);
    expect(both.recipes.map(({ lines }) => lines.map(({ text }) => text))).toEqual([
      ["RL steps 40 → 60", "KL penalty 0 → 0.01"],
      ["KL penalty 0 → 0.01"],
    ]);
    expect(both.sharedFiles).toEqual(["modules/cli/uplift.js"]);
    expect([both.before, both.after]).toEqual([expect.stringMatching(/^HEAD \([0-9a-f]{12}\)$/), "working tree"]);
    await commit("both");
    expect(outcomes(await review("HEAD~1..HEAD", { recipes: ["recipes/b.yaml"] }))).toEqual([
      ["recipes/b.yaml", "changed", "shared-code"],
    ]);
  });

  it("gives a recipe's code neither our environment nor a file to write", async () => {
    process.env.UPLIFT_TEST_SECRET = "secret";
    try {
      const { recipes, isolation } = await review("HEAD..", { recipes: ["recipes/a.ts"] });
      expect(recipes[0]?.outcome).toBe("unchanged");
      expect(JSON.stringify(recipes)).not.toContain('"secret"');
      expect(isolation?.notIsolated.join()).not.toContain("uplift-diff-");
      expect(isolation?.notIsolated.length).toBeGreaterThan(0);
    } finally {
      delete process.env.UPLIFT_TEST_SECRET;
    }
    expect(await readdir(project)).not.toContain("written");
  });

  it("says of a side that has no recipe, no target, or no working planner what it is", async () => {
    await write("recipes/new.ts", recipe({ steps: 40 }));
    await rm(join(project, "recipes/b.yaml"));
    await write("recipes/a.ts", recipe({ crash: true }));
    await write("stacks/targets/new.ts", "");
    const here = await review("HEAD..");
    expect(outcomes(here)).toEqual([
      ["recipes/a.ts", "no-longer-plans", null],
      ["recipes/b.yaml", "removed", null],
      ["recipes/new.ts", "added", null],
    ]);
    const [failed] = here.recipes[0]?.issues.after ?? [];
    expect(failed).toMatchObject({ code: "plan-failed", path: "recipes/a.ts" });
    expect(failed?.found).toContain("planner is broken");
    const target = await review("HEAD..", { target: "new", recipes: ["recipes/new.ts", "recipes/b.yaml"] });
    expect(outcomes(target)).toEqual([
      ["recipes/new.ts", "added", null],
      ["recipes/b.yaml", "removed", null],
    ]);
    // The base has no such target: a note, and nothing to compare with.
    expect(target.notes).toEqual([
      expect.stringMatching(
        /^HEAD \([0-9a-f]{12}\) cannot load the target new \(target-missing: .*\): every recipe counts as new$/,
      ),
    ]);
    await git("checkout", "-q", "--", ".");
    await rm(join(project, "recipes/new.ts"));
    await rm(join(project, "stacks/targets/new.ts"));
  });

  it("is refused where the head's code cannot load the target, whatever the base says", async () => {
    const mistyped = review("HEAD~1..HEAD", { target: "labb" });
    await expect(mistyped).rejects.toThrow(/^labb: .*\(HEAD \([0-9a-f]{12}\)\).*\[target-missing\]$/);
    // It is told with the first answer, not after all of them.
    expect(progress.filter((line) => line.startsWith("planning")).length).toBeLessThan(4);
    // Both sides the same: they are planned once, and it is as wrong.
    await expect(review("HEAD..HEAD", { target: "labb" })).rejects.toThrow(/\[target-missing\]/);
    await rm(join(project, "stacks/targets/lab.ts"));
    await expect(review("HEAD..")).rejects.toThrow(/\(working tree\).*\[target-missing\]/);
    await write("stacks/targets/lab.ts", "broken");
    await expect(review("HEAD..")).rejects.toThrow(/^lab: .*\(working tree\).*\[file-does-not-load\]$/);
    await write("stacks/targets/lab.ts", "invalid");
    await expect(review("HEAD..")).rejects.toThrow(/^lab: maxNodes.*\[target-invalid\]/);
    await git("checkout", "-q", "--", ".");
    const files = [join(project, "recipes/a.ts"), join(project, "recipes/a.ts")] as const;
    const request = { projectDir: project, recipes: [], target: "labb", progress: () => {} };
    await expect(reviewFiles(files, request)).rejects.toThrow(/\[target-missing\]/);
    expect(await leftFolders()).toEqual([]);
  });

  it("refuses a recipe that neither side has, and leaves no folder behind", async () => {
    await expect(review("HEAD~1..HEAD", { recipes: ["recipes/none.ts", "recipes/a.ts"] })).rejects.toThrow(
      /recipes\/none\.ts: .*neither HEAD~1 \([0-9a-f]{12}\) nor HEAD .*\[recipe-missing\]/,
    );
    await expect(review("nope..HEAD")).rejects.toThrow(/\[ref-unknown\]/);
    await review("HEAD~1..HEAD");
    expect(await leftFolders()).toEqual([]);
  });

  it("compares with a plan of another version field by field", async () => {
    const { layouts: _layouts, ...older } = clusterPlan;
    await write("plan.json", JSON.stringify(older));
    const { recipes } = await review("HEAD..", { recipes: ["recipes/a.ts"] });
    expect(recipes[0]?.headline).toMatch(/^the plan after is of another version of Uplift \(layouts: /);
    await git("checkout", "-q", "--", ".");
  });

  it("is removed from disk when it is interrupted", async () => {
    await write("recipes/a.ts", recipe({ steps: 60 }));
    const script = `
      import { reviewRange } from ${JSON.stringify(new URL("./review-sides.ts", import.meta.url).href)};
      const range = { base: "HEAD", head: null, fromMergeBase: false };
      const progress = (line) => console.log(line);
      await reviewRange(range, { projectDir: ${JSON.stringify(project)}, recipes: [], target: "lab", progress });`;
    const root = new URL("../..", import.meta.url).pathname;
    const child = execa("node", ["--import", "tsx", "--input-type=module", "-e", script], { cwd: root, reject: false });
    child.stdout.once("data", () => child.kill("SIGINT"));
    expect((await child).exitCode).toBe(130);
    expect(await leftFolders()).toEqual([]);
  });
});

describe("a review of two files", () => {
  it("plans both by the project's code, and tells their names apart", async () => {
    const other = join(folder, "other.ts");
    await writeFile(other, recipe({ steps: 80 }));
    const request = { projectDir: project, recipes: [], target: "lab", progress: () => {} };
    const { recipes, before, after } = Review.parse(await reviewFiles([join(project, "recipes/a.ts"), other], request));
    expect(recipes[0]?.lines.map(({ text }) => text)).toEqual(["RL steps 60 → 80", "recipe's name a → other"]);
    expect([before.endsWith("recipes/a.ts"), after]).toEqual([true, other]);
  });
});
