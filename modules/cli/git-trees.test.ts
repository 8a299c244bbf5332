import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { GitTrees, parseRange } from "./git-trees.ts";

let folder: string;
let project: string;
const git = (...args: string[]) =>
  execa("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", ...args], {
    cwd: project,
  });
const commit = async (message: string) => {
  await git("add", "-A");
  await git("commit", "-q", "--allow-empty", "-m", message);
};
const open = async (at = project) => {
  const temporary = await mkdtemp(join(folder, "work-"));
  return { temporary, trees: await GitTrees.open(at, temporary) };
};

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-trees-"));
  project = join(folder, "project");
  await mkdir(join(project, "recipes"), { recursive: true });
  await git("init", "-q");
  await writeFile(join(project, "recipes/a.ts"), "one\n");
  await writeFile(join(project, ".gitattributes"), "recipes/hidden.ts export-ignore\n");
  await writeFile(join(project, "recipes/hidden.ts"), "not left out\n");
  await commit("start");
});
afterEach(() => rm(folder, { recursive: true }));

describe("a range", () => {
  it("is two refs with dots between, the second one or none", () => {
    expect(parseRange("main..HEAD")).toEqual({ base: "main", head: "HEAD", fromMergeBase: false });
    expect(parseRange("origin/main...feature/x")).toEqual({
      base: "origin/main",
      head: "feature/x",
      fromMergeBase: true,
    });
    expect(parseRange("v0.1..")).toEqual({ base: "v0.1", head: null, fromMergeBase: false });
    expect(parseRange("HEAD~1...")).toEqual({ base: "HEAD~1", head: null, fromMergeBase: true });
  });

  it("is no path and no single ref", () => {
    for (const text of ["main", "recipes/a.ts", "../a.ts", "./a.ts", "..", "...HEAD", "a/../b.ts", "main....HEAD"])
      expect(parseRange(text), text).toBeNull();
  });
});

describe("the sides of a range", () => {
  it("are exported byte for byte, uncommitted and untracked files with the working tree", async () => {
    await writeFile(join(project, ".gitignore"), "ignored\n");
    await writeFile(join(project, "ignored"), "no");
    await writeFile(join(project, "recipes/a.ts"), "two\n");
    await writeFile(join(project, "recipes/new.ts"), "new\n");
    const { temporary, trees } = await open();
    const { base, head } = await trees.sides({ base: "HEAD", head: null, fromMergeBase: false });
    await trees.export(base, join(temporary, "base"));
    await trees.export(head, join(temporary, "head"));
    expect((await readdir(join(temporary, "base/recipes"))).sort()).toEqual(["a.ts", "hidden.ts"]);
    expect((await readdir(join(temporary, "head/recipes"))).sort()).toEqual(["a.ts", "hidden.ts", "new.ts"]);
    expect(await readFile(join(temporary, "head/recipes/a.ts"), "utf8")).toBe("two\n");
    expect(await readdir(join(temporary, "head"))).not.toContain("ignored");
    expect([base.label, head.label]).toEqual([`HEAD (${base.commit?.slice(0, 12)})`, "working tree"]);
    expect(await trees.changedFiles(base, head)).toEqual([".gitignore", "recipes/a.ts", "recipes/new.ts"]);
    const before = await trees.files(base);
    const after = await trees.files(head);
    expect([...after].filter(([path, id]) => before.get(path) === id).map(([path]) => path)).toEqual([
      "recipes/hidden.ts",
    ]);
  });

  it("leave the repository as it was: no object, index or ref is added or grows", async () => {
    await writeFile(join(project, "recipes/a.ts"), "uncommitted\n");
    const state = async () =>
      (await execa("find", [".git", "-type", "f", "-printf", "%p %s\n"], { cwd: project })).stdout;
    const before = await state();
    const { temporary, trees } = await open();
    const { head } = await trees.sides({ base: "HEAD", head: null, fromMergeBase: false });
    await trees.export(head, join(temporary, "head"));
    expect(await state()).toBe(before);
  });

  it("are one tree where nothing is uncommitted", async () => {
    const { trees } = await open();
    const { base, head } = await trees.sides({ base: "HEAD", head: null, fromMergeBase: false });
    expect(head).toEqual({ ...base, label: "working tree (nothing uncommitted)" });
  });

  it("begin with three dots where the head left the base, and with two say what looks undone", async () => {
    await git("switch", "-q", "-c", "feature");
    await writeFile(join(project, "recipes/a.ts"), "feature\n");
    await commit("feature");
    await git("switch", "-q", "main");
    await writeFile(join(project, "recipes/b.ts"), "main only\n");
    await commit("main goes on");
    const { trees } = await open();
    const three = await trees.sides({ base: "main", head: "feature", fromMergeBase: true });
    expect(await trees.changedFiles(three.base, three.head)).toEqual(["recipes/a.ts"]);
    expect(three.base.label).toMatch(/^where it left main \([0-9a-f]{12}\)$/);
    const two = await trees.sides({ base: "main", head: "feature", fromMergeBase: false });
    expect(await trees.changedFiles(two.base, two.head)).toEqual(["recipes/a.ts", "recipes/b.ts"]);
    expect(two.notes).toEqual([expect.stringContaining("main has 1 commits that the other side lacks")]);
  });

  it("are those of the project's own folder where the repository holds more", async () => {
    await mkdir(join(project, "ml/recipes"), { recursive: true });
    await writeFile(join(project, "ml/recipes/x.ts"), "x\n");
    await commit("below");
    const { temporary, trees } = await open(join(project, "ml"));
    const { base, head } = await trees.sides({ base: "HEAD~1", head: "HEAD", fromMergeBase: false });
    await trees.export(head, join(temporary, "head"));
    expect(await readdir(join(temporary, "head"))).toEqual(["recipes"]);
    expect(await trees.changedFiles(base, head)).toEqual(["recipes/x.ts"]);
  });

  it("that there are not are told with what to do, also in a clone that lacks them", async () => {
    const range = (base: string, fromMergeBase = false) => ({ base, head: "HEAD", fromMergeBase });
    const { trees } = await open();
    await expect(trees.sides(range("nope"))).rejects.toThrow(/nope: .*there is none of that name.*\[ref-unknown\]/);
    await expect(trees.sides(range("--help"))).rejects.toThrow(/\[ref-unknown\]/);
    await git("switch", "-q", "--orphan", "alone");
    await commit("alone");
    await expect(trees.sides(range("main", true))).rejects.toThrow(/no commit in common.*\[merge-base-missing\]/);
    await git("switch", "-q", "main");
    await commit("second");
    const clone = join(folder, "clone");
    await execa("git", ["clone", "-q", "--depth", "1", "--branch", "main", `file://${project}`, clone]);
    const shallow = (await open(clone)).trees;
    await expect(shallow.sides(range("HEAD~1"))).rejects.toThrow(/only the newest commits.*fetch-depth: 0/);
    await expect(GitTrees.open(folder, join(folder, "t"))).rejects.toThrow(/\[git-missing\]/);
  });
});
