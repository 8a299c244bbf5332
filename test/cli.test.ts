/**
 * The command line as somebody who makes mistakes meets it: each gives a message with what to do, and exit code 1.
 */
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Plan } from "../schemas/plan.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-cli-"));
  await writeFile(join(folder, "package.json"), '{"type":"module"}');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const uplift = (args: string[], options: { cwd?: string; env?: Record<string, string> } = {}) =>
  execa("node", [join(PROJECT_DIR, "modules/cli/uplift.js"), ...args], { reject: false, cwd: PROJECT_DIR, ...options });

async function filesOf(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(path, join(entry.parentPath, entry.name))).sort();
}

/** A recipe file that imports the schema from this clone. */
async function recipe(name: string, change: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, `import smoke from ${JSON.stringify(join(PROJECT_DIR, "recipes/smoke.ts"))};\n${change}\n`);
  return file;
}

describe("a command line that cannot be read", () => {
  it("is told to scripts as JSON, and to people in words", async () => {
    const script = await uplift(["runs", "--json", "--taget", "x"]);
    expect([script.exitCode, script.stderr]).toEqual([1, ""]);
    const { issues } = JSON.parse(script.stdout).error;
    const found = "unknown option '--taget' (Did you mean --target?)";
    expect(issues).toMatchObject([{ code: "command-line-invalid", path: "uplift runs", found }]);
    const person = await uplift(["runs", "--taget", "x"]);
    expect([person.exitCode, person.stdout]).toEqual([1, ""]);
    expect(person.stderr).toContain("Did you mean --target?");
  });
});

describe("uplift plan", () => {
  it.each([
    ["quickstart-sft-rl", "local"],
    ["unreal-256k-sft-rl", "aws-p5en"],
  ])("prints the same plan of %s on %s from any folder, time zone and locale", async (name, target) => {
    const args = ["plan", join(PROJECT_DIR, `recipes/${name}.ts`), "--target", target, "--json"];
    const here = await uplift(args);
    const there = await uplift(args, {
      cwd: folder,
      env: { TZ: "Asia/Kathmandu", LC_ALL: "tr_TR.UTF-8" },
    });
    expect(Plan.parse(JSON.parse(here.stdout)).name).toBe(name);
    expect(there.stdout).toBe(here.stdout);
  });

  it("writes the plan and the trainers' configurations where it is told to", async () => {
    const out = join(folder, "out");
    await uplift(["plan", "recipes/quickstart-sft-rl.ts", "--out", out]);
    expect(await filesOf(out)).toEqual(["config/rl.trl.json", "config/sft.trl.json", "plan.json"]);
  });

  it("writes every file of a cluster's run, and each script is one that bash reads", async () => {
    const out = join(folder, "cluster");
    const { exitCode } = await uplift(["plan", "recipes/github-sft-rl.ts", "--target", "aws-p5en", "--out", out]);
    expect(exitCode).toBe(0);
    const files = await filesOf(out);
    expect(files).toEqual([
      ...["config/rl.nemo-rl.yaml", "config/sft.automodel.yaml"],
      ...["gym/resources_servers/uplift_environments/app.py"],
      ...["gym/resources_servers/uplift_environments/requirements.txt", "gym/uplift.yaml", "plan.json"],
      ...["serving/base.sh", "serving/rl-40.sh", "serving/sft-20.sh", "slurm/base.sbatch", "slurm/chat_data.py"],
      ...["slurm/finish_checkpoint.py", "slurm/node-check.sh", "slurm/register_model.py"],
      ...["slurm/rl-40.sbatch", "slurm/rl.sbatch", "slurm/sft-20.sbatch", "slurm/sft.sbatch"],
    ]);
    for (const file of files.filter((name) => /\.(sh|sbatch)$/.test(name)))
      await execa("bash", ["-n", join(out, file)]);
  });

  it("reports an unknown field with its path", async () => {
    const file = await recipe("unknown.ts", "export default { ...smoke, sft: { ...smoke.sft, lr: 1 } };");
    const { exitCode, stderr } = await uplift(["plan", file]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('sft.lr: the field "lr" is set');
    expect(stderr).not.toContain("    at ");
  });

  it("reports an impossible split before anything is started", async () => {
    const tasks =
      "{ kind: 'generated', family: 'repo-chores', seed: 1, count: 30, split: { heldOut: 24, validation: 5 } }";
    const { exitCode, stderr } = await uplift([
      "plan",
      await recipe("split.ts", `export default { ...smoke, tasks: ${tasks} };`),
    ]);
    expect([exitCode, stderr.includes("split-impossible")]).toEqual([1, true]);
  });

  it("says what is wrong with a file that is missing, empty, broken, or names an unknown model or family", async () => {
    const cases: [string, string][] = [
      ["recipe-missing", join(folder, "none.ts")],
      ["recipe-no-default-export", await recipe("empty.ts", "export {};")],
      ["file-does-not-load", await recipe("broken.ts", "export default {")],
      ["model-missing", await recipe("model.ts", "export default { ...smoke, model: 'gpt' };")],
      [
        "unknown-family",
        await recipe("family.ts", "export default { ...smoke, tasks: { ...smoke.tasks, family: 'x' } };"),
      ],
    ];
    for (const [code, file] of cases) {
      const { exitCode, stderr } = await uplift(["plan", file]);
      expect({ code, exitCode, stderr }).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(`[${code}]`) });
    }
  });

  it("gives a mistake as JSON to scripts", async () => {
    const { exitCode, stdout } = await uplift(["plan", join(folder, "none.ts"), "--json"]);
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout).error.issues[0]).toMatchObject({ code: "recipe-missing", todo: expect.any(String) });
  });
});

describe("uplift", () => {
  it("names the targets there are when one is unknown", async () => {
    const { exitCode, stderr } = await uplift(["up", "--target", "mars"]);
    expect([exitCode, stderr.includes("target-missing")]).toEqual([1, true]);
  });

  it("exits with an error and points to help for an unknown command", async () => {
    const { exitCode, stderr } = await uplift(["trian", "recipes/smoke.ts"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("train");
  });
});
