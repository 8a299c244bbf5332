/**
 * The base model's job with a real tokenizer: what register_model.py writes on a cluster is what uplift_trl writes on one machine,
 * token for token, in the trainers' own Python.
 */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hashFiles, readManifest, readProbeFile } from "../modules/checkpoints/index.ts";
import { probeConversations } from "../modules/cli/steps/checkpoint.ts";
import { pythonEnvironment } from "../modules/trainers/index.ts";
import { trainersPython } from "./support/python.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
const MODEL = join(PROJECT_DIR, "tools/base-model/quickstart-base");

let folder: string;
let python: string;
let conversations: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-register-"));
  python = await trainersPython();
  conversations = join(folder, "conversations.json");
  await writeFile(conversations, JSON.stringify(await probeConversations("repo-chores")));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const env = pythonEnvironment(PROJECT_DIR, 1);
async function register(model: string, name: string) {
  const output = join(folder, name);
  const script = join(PROJECT_DIR, "modules/trainers/launch/files/register_model.py");
  const args = ["--model", model, "--conversations", conversations, "--checkpoint", "base", "--output", output];
  const { exitCode, stderr } = await execa(python, [script, ...args], { env, reject: false });
  return { output, exitCode, stderr };
}

describe("registering a base model", () => {
  it("renders the probe as the trainer of one machine does, and hashes every file", async () => {
    const { output, exitCode, stderr } = await register(MODEL, "registered");
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    const imported = join(folder, "imported");
    await execa(
      python,
      [
        ...["-m", "uplift_trl", "import", "--model", MODEL, "--output", imported],
        ...["--probe-conversations", conversations],
      ],
      { env },
    );
    const probe = await readProbeFile(output);
    expect(probe?.cases.length).toBe(4);
    expect(probe).toEqual(await readProbeFile(imported));
    expect((await readManifest(output))?.files).toEqual(await hashFiles(MODEL));
  });

  it("leaves caches out, and says all that is wrong at once", async () => {
    const broken = join(folder, "broken");
    await cp(MODEL, broken, { recursive: true });
    await mkdir(join(broken, ".cache"));
    await writeFile(join(broken, ".cache/lock"), "");
    expect((await register(broken, "with-cache")).exitCode).toBe(0);
    expect((await readManifest(join(folder, "with-cache")))?.files.map(({ path }) => path)).not.toContain(
      ".cache/lock",
    );
    await writeFile(join(broken, "config.json"), "{}");
    await writeFile(join(broken, "tokenizer.json"), "{}");
    const { exitCode, stderr } = await register(broken, "refused");
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^uplift: base: .*config\.json names no architectures$/m);
    expect(stderr).toMatch(/^uplift: base: the tokenizer in .* does not render the probe conversations: /m);
    await expect(readFile(join(folder, "refused/uplift-manifest.json"))).rejects.toThrow("ENOENT");
  });
});
