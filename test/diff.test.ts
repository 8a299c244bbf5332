/**
 * `uplift diff` on a copy of this project: the real command, real git, the real planner on both sides.
 */
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Review } from "../schemas/review.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
let folder: string;
let project: string;
const git = (...args: string[]) =>
  execa("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", ...args], { cwd: project });
const uplift = (...args: string[]) =>
  execa("node", ["modules/cli/uplift.js", ...args], {
    cwd: project,
    reject: false,
    env: { TMPDIR: join(folder, "tmp"), UPLIFT_TEST_SECRET: "secret-in-environment" },
  });
const diff = async (...args: string[]): Promise<Review> => {
  const { stdout } = await uplift("diff", ...args, "--json");
  return Review.parse(JSON.parse(stdout));
};
/** Replaces a text that must be in a file. */
const edit = async (path: string, from: string | RegExp, to: string) => {
  const text = await readFile(join(project, path), "utf8");
  const edited = text.replace(from, to);
  if (edited === text) throw new Error(`${path} has no ${from}`);
  await writeFile(join(project, path), edited);
};

beforeAll(async () => {
  folder = await mkdtemp(join(await realpath(tmpdir()), "uplift-whole-diff-"));
  project = join(folder, "project");
  await mkdir(join(folder, "tmp"));
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const { stdout } = await execa("git", list, { cwd: PROJECT_DIR });
  for (const path of stdout.split("\0").filter((one) => one !== "")) {
    await mkdir(dirname(join(project, path)), { recursive: true });
    // A file may be listed that is deleted but not committed as such.
    await cp(join(PROJECT_DIR, path), join(project, path)).catch((error) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
  await symlink(await realpath(join(PROJECT_DIR, "node_modules")), join(project, "node_modules"));
  await git("init", "-q", "-b", "main");
  await git("config", "--local", "core.excludesFile", "");
  await writeFile(join(project, ".git/info/exclude"), "node_modules\n");
  await git("add", "-A");
  await git("commit", "-q", "-m", "start");
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("uplift diff", () => {
  it("says of a change to documentation and tests in one line that no plan changed", async () => {
    await writeFile(join(project, "docs/new.md"), "# New\n");
    const { stdout, stderr, exitCode } = await uplift("diff", "HEAD..", "recipes/quickstart-rl.ts", "recipes/smoke.ts");
    expect({ exitCode, first: stdout.split("\n")[0] }).toMatchObject({
      exitCode: 0,
      first: expect.stringMatching(/^HEAD \([0-9a-f]{12}\) → working tree on local: 2 recipes: no plan changed$/),
    });
    expect(stderr.split("\n").filter((line) => line.startsWith("planning"))).toHaveLength(2);
  });

  it("tells what a recipe and a shared preset change, and exits with 1 where that must not pass", async () => {
    await edit("recipes/quickstart-rl.ts", "steps: 30,", "steps: 40,");
    await edit("recipes/quickstart-rl.ts", "step: 30 ", "step: 40 ");
    await edit("recipes/quickstart-preset.ts", "attempts: 8", "attempts: 16");
    const names = ["recipes/quickstart-rl.ts", "recipes/smoke.ts", "recipes/quickstart-sft-rl.ts"];
    const review = await diff("HEAD..", ...names, "--fail-on", "incomparable,unfit");
    expect(review.recipes.map(({ recipe, outcome, cause }) => [recipe, outcome, cause])).toEqual([
      ["quickstart-rl", "changed", "recipe"],
      // Its own preset has its own attempts.
      ["smoke", "unchanged", null],
      ["quickstart-sft-rl", "changed", "shared-code"],
    ]);
    expect(review.sharedFiles).toEqual(["recipes/quickstart-preset.ts"]);
    const [own, , shared] = review.recipes;
    expect(own?.headline).toMatch(
      /^evaluation attempts a held-out task 8 → 16, RL steps 30 → 40, checkpoints reported rl 30 → rl 40/,
    );
    expect(shared?.headline).toBe(
      "by shared code, evaluation attempts a held-out task 8 → 16; rows of this recipe can no longer be ranked with earlier ones: preset changed",
    );
    expect(review.verdict?.failed.map(({ recipe, condition }) => [recipe, condition])).toEqual([
      ["quickstart-rl", "incomparable"],
      ["quickstart-sft-rl", "incomparable"],
    ]);
    const { exitCode } = await uplift("diff", "HEAD..", "recipes/quickstart-rl.ts", "--fail-on", "incomparable");
    expect(exitCode).toBe(1);
    await git("checkout", "-q", "--", ".");
  });

  it("reads a longer context as its consequences, on a cluster", async () => {
    await edit("recipes/unreal-sft-rl.ts", 'context: "128k"', 'context: "256k"');
    const comment = join(folder, "comment.md");
    const target = ["--target", "aws-p5en", "--markdown", "--out", comment];
    const { stdout, exitCode } = await uplift("diff", "HEAD..", "recipes/unreal-sft-rl.ts", ...target);
    const headline =
      /context 128k → 256k: KV per sequence 8 → 16 GiB, \d+ → \d+ concurrent sequences a node, .*\+\$[\d,]+ a run; \d+ more tasks fit; resumes old checkpoints: no; rows of this recipe can no longer be ranked with earlier ones: /;
    expect(stdout).toMatch(headline);
    expect(exitCode).toBe(0);
    const written = await readFile(comment, "utf8");
    expect(written.length).toBeLessThanOrEqual(65_536);
    expect(written.startsWith("<!-- uplift-review -->\n## Uplift: 1 of 1 recipe changed, +\\$")).toBe(true);
    await git("checkout", "-q", "--", ".");
  });

  it("runs a recipe's code without our environment, and leaves nothing behind", async () => {
    await edit("recipes/smoke.ts", "description: ", 'description: (process.env.UPLIFT_TEST_SECRET ?? "no secret") + ');
    const { recipes } = await diff("HEAD..", "recipes/smoke.ts");
    expect(JSON.stringify(recipes)).toContain("no secret");
    expect(JSON.stringify(recipes)).not.toContain("secret-in-environment");
    await git("checkout", "-q", "--", ".");
    expect((await readdir(join(folder, "tmp"))).filter((name) => name.startsWith("uplift-diff-"))).toEqual([]);
    expect((await git("status", "--porcelain")).stdout).toBe("?? docs/new.md");
  });

  it("fails with a mistyped target, and with one that nothing can be planned for", async () => {
    const gate = ["--fail-on", "cost>20%"];
    const mistyped = await uplift("diff", "HEAD..", "recipes/smoke.ts", "--target", "aws-p5e", ...gate);
    expect(mistyped.exitCode).toBe(1);
    expect(mistyped.stderr).toMatch(/aws-p5e: .*\[target-missing\]/);
    // Another platform than the recipe's: refused on both sides for the same reasons.
    const other = await uplift("diff", "HEAD..", "recipes/smoke.ts", "--target", "aws-p5en", ...gate);
    expect(other.stdout).toMatch(
      /1 recipe refused as before[\s\S]*\n\ndoes not pass unfit: no recipe could be planned$/,
    );
    expect(other.exitCode).toBe(1);
  });

  it("gives its mistakes as every command does", async () => {
    const { stdout, exitCode } = await uplift("diff", "nope..HEAD", "--json");
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout).error.issues).toMatchObject([{ code: "ref-unknown", path: "nope" }]);
  });
});
