import { chmod, mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { packSnapshot } from "./snapshot.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-snapshot-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function project(name: string): Promise<string> {
  const root = join(folder, name);
  await mkdir(join(root, "src"), { recursive: true });
  await writeFile(join(root, "src/b.txt"), "b\n");
  await writeFile(join(root, "a.txt"), "a\n");
  await writeFile(join(root, ".gitignore"), "ignored/\n");
  await mkdir(join(root, "ignored"));
  await writeFile(join(root, "ignored/secret"), "s");
  return root;
}

async function commit(root: string): Promise<void> {
  const git = (...args: string[]) =>
    execa("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", ...args], { cwd: root });
  await git("init", "-q");
  await git("add", "-A");
  await git("commit", "-q", "-m", "start");
}

describe("a snapshot", () => {
  it("has the same digest for the same files, whatever their times and their folder", async () => {
    const one = await project("one");
    const two = await project("two");
    await utimes(join(two, "a.txt"), new Date(1e12), new Date(1e12));
    await commit(one);
    await commit(two);
    expect((await packSnapshot(one)).digest).toBe((await packSnapshot(two)).digest);
  });

  it("changes when a byte or an executable bit changes", async () => {
    const root = await project("one");
    await commit(root);
    const before = (await packSnapshot(root)).digest;
    await chmod(join(root, "a.txt"), 0o755);
    const executable = (await packSnapshot(root)).digest;
    await writeFile(join(root, "a.txt"), "A\n");
    expect(new Set([before, executable, (await packSnapshot(root)).digest]).size).toBe(3);
  });

  it("names the commit and says that a clean tree has no patch", async () => {
    const root = await project("one");
    await commit(root);
    const packed = await packSnapshot(root);
    expect(packed.commit).toMatch(/^[0-9a-f]{40}$/);
    expect(packed.patch).toBeNull();
    expect(packed.files).toBe(3);
  });

  it("keeps uncommitted and untracked changes as a patch that restores them on the commit", async () => {
    const root = await project("one");
    await commit(root);
    await writeFile(join(root, "a.txt"), "changed\n");
    await writeFile(join(root, "new.txt"), "new\n");
    await writeFile(join(root, "src/b.txt"), Buffer.from([0xe9, 0x0a])); // Latin-1, no valid UTF-8
    await execa("git", ["config", "diff.noprefix", "true"], { cwd: root });
    const packed = await packSnapshot(root);
    expect(packed.patch?.files).toEqual(["a.txt", "new.txt", "src/b.txt"]);

    const restored = join(folder, "restored");
    await execa("git", ["clone", "-q", root, restored]);
    await execa("git", ["apply"], { cwd: restored, input: packed.patch?.bytes ?? "" });
    expect((await packSnapshot(restored)).digest).toBe(packed.digest);
  });

  it("leaves the project's own git index alone", async () => {
    const root = await project("one");
    await commit(root);
    await writeFile(join(root, "new.txt"), "new\n");
    await packSnapshot(root);
    const { stdout } = await execa("git", ["status", "--porcelain"], { cwd: root });
    expect(stdout).toBe("?? new.txt");
  });

  it("works without git and leaves out what is never source", async () => {
    const root = await project("plain");
    await mkdir(join(root, "node_modules/x"), { recursive: true });
    await writeFile(join(root, "node_modules/x/index.js"), "");
    const packed = await packSnapshot(root);
    expect(packed.commit).toBeNull();
    expect(packed.files).toBe(4);
  });
});
