/** Repositories built from their specs, with the system's git. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RepositorySpec } from "../../schemas/task.ts";
import { Repositories } from "./repository.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "repositories-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const spec: RepositorySpec = {
  commits: [
    { message: "start", files: { "b.conf": "port=1\n", "etc/e a.env": "x=1\n" } },
    { message: "tune", files: { "b.conf": "port=2\n" } },
  ],
};
const repositories = () => new Repositories({ git: "/usr/bin/git", folder: join(folder, "cache") });

function unpack(archive: Buffer, name: string): (command: string) => string {
  const target = join(folder, name);
  mkdirSync(target);
  execFileSync("tar", ["--no-same-owner", "-xf", "-", "-C", target], { input: archive });
  return (command) => execFileSync("/bin/sh", ["-c", command], { cwd: target, encoding: "utf8" });
}

describe("a task's repository", () => {
  it("has every commit with its files, and a clean tree", async () => {
    const run = unpack(await repositories().archive(spec), "one");
    expect(run("git log --reverse --format=%s")).toBe("start\ntune\n");
    expect(run("git show HEAD~1:b.conf; cat b.conf 'etc/e a.env'")).toBe("port=1\nport=2\nx=1\n");
    expect(run("git status --porcelain; git fsck --strict 2>&1")).toBe("");
    expect(run("git branch --show-current")).toBe("main\n");
  });

  it("has the same commit hashes wherever and whenever it is made", async () => {
    const run = unpack(await repositories().archive(spec), "one");
    // As `git commit` makes them by hand with this author and these dates.
    expect(run("git log --format=%H")).toBe(
      "55c1ea7fae6e435da2f5a837310968a642b1a31c\n90db34722e05a35ec708b7c91e98a3cfa982618e\n",
    );
  });

  it("is built once for callers at the same time, and not again after a restart", async () => {
    const first = repositories();
    const [one, two] = await Promise.all([first.archive(spec), first.archive(spec)]);
    expect(two).toBe(one);
    expect(readdirSync(join(folder, "cache"))).toHaveLength(1);
    writeFileSync(join(folder, "cache", readdirSync(join(folder, "cache"))[0] ?? ""), "kept");
    expect((await repositories().archive(spec)).toString()).toBe("kept");
  });

  it.each(["../x", "/x", "a/../b", ".git/config", "a/.GIT/x", "a//b", "", "a\nb", 'a"b', "é"])(
    "cannot have a file %j",
    async (path) => {
      const wrong = { commits: [{ message: "start", files: { [path]: "" } }] };
      await expect(repositories().archive(wrong)).rejects.toThrow(/cannot be a file/);
      expect(readdirSync(join(folder, "cache"))).toEqual([]);
    },
  );
});
