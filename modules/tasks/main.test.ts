import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readTaskSet } from "./task-set.ts";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
const tasks = (...args: string[]) => execa(process.execPath, ["--import", "tsx", main, ...args], { reject: false });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tasks-main-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));
const small = ["--tasks", "40", "--held-out", "6", "--validation", "3"];

describe("generate", () => {
  it("writes the same bytes for the same seed, and makes the folder", { timeout: 90_000 }, async () => {
    const [a, b] = [join(folder, "new", "a.json"), join(folder, "b.json")];
    const first = await tasks("generate", "--seed", "3", ...small, "--out", a);
    expect(first.stdout).toMatch(
      /^40 tasks in \d+ near-copy groups: train 31, validation 3, held-out 6 \([0-9a-f]{12}\)/,
    );
    await tasks("generate", "--seed", "3", ...small, "--out", b);
    expect(await readFile(b)).toEqual(await readFile(a));
    expect((await readTaskSet(a)).source.seed).toBe(3);
  });

  it("exits 1 with the four parts and no stack for a user's mistake", { timeout: 90_000 }, async () => {
    const out = join(folder, "a.json");
    const { exitCode, stderr } = await tasks("generate", "--tasks", "10", "--out", out);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^tasks\.split: .* Allowed: .* To do: .* \[split-impossible\]$/);
    await expect(access(out)).rejects.toThrow();
  });
});

describe("collect", () => {
  it("exits 75 while the environment service is not there", { timeout: 90_000 }, async () => {
    const set = join(folder, "tasks.json");
    await tasks("generate", ...small, "--out", set);
    const { exitCode, stderr } = await tasks(
      ...["collect", "--task-set", set, "--environment", "http://127.0.0.1:9", "--tries", "2"],
      ...["--out", join(folder, "t.jsonl")],
    );
    expect(stderr).toContain("[unreachable]");
    expect(exitCode).toBe(75);
  });

  it("names the splits there are", { timeout: 90_000 }, async () => {
    const { exitCode, stderr } = await tasks(
      "collect",
      "--task-set",
      "x",
      "--environment",
      "x",
      "--out",
      "x",
      "--split",
      "test",
    );
    expect(exitCode).toBe(1);
    expect(stderr).toContain("there are train, validation, held-out");
  });
});
