import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { familyDigest, familyEntry, loadFamily } from "./families.ts";
import { buildTaskSet, checkTaskSet, readTaskSet, taskSetDigest } from "./task-set.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

const QUICKSTART = { family: "repo-chores", seed: 7, tasks: 300, heldOut: 48, validation: 24 };

/** All issues of the UserError that `act` throws, as "code path". */
async function issuesOf(act: () => unknown): Promise<string[]> {
  try {
    await act();
  } catch (error) {
    if (error instanceof UserError) return error.issues.map(({ code, path }) => `${code} ${path}`);
    throw error;
  }
  return [];
}

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "task-set-"));
});
afterEach(() => rm(folder, { recursive: true }));

describe("buildTaskSet", () => {
  it("makes the quickstart's task set, the same every time", async () => {
    const taskSet = await buildTaskSet(QUICKSTART);
    expect(taskSet.tasks).toHaveLength(300);
    expect(Object.entries(taskSet.splits).map(([name, ids]) => [name, ids.length])).toEqual([
      ["train", 228],
      ["validation", 24],
      ["held-out", 48],
    ]);
    expect(taskSet.source).toEqual({ generator: "repo-chores@1", seed: 7, tasks: 300 });
    expect(taskSetDigest(await buildTaskSet(QUICKSTART))).toBe(taskSetDigest(taskSet));
    expect(taskSetDigest(await buildTaskSet({ ...QUICKSTART, seed: 8 }))).not.toBe(taskSetDigest(taskSet));
  });

  it("keeps its digest through a file", async () => {
    const taskSet = await buildTaskSet({ ...QUICKSTART, tasks: 60, heldOut: 10, validation: 5 });
    await writeFile(join(folder, "tasks.json"), JSON.stringify(taskSet, null, 2));
    expect(taskSetDigest(await readTaskSet(join(folder, "tasks.json")))).toBe(taskSetDigest(taskSet));
  });

  it("names the known families when asked for another", async () => {
    await expect(buildTaskSet({ ...QUICKSTART, family: "chess" })).rejects.toMatchObject({ code: "unknown-family" });
    await expect(buildTaskSet({ ...QUICKSTART, family: "chess" })).rejects.toThrow("Allowed: repo-chores");
    expect(() => familyEntry("constructor")).toThrow(UserError);
  });

  it("refuses a number of tasks that cannot be made, and a split that they cannot fill", async () => {
    expect(await issuesOf(() => buildTaskSet({ ...QUICKSTART, tasks: 0 }))).toEqual(["task-count tasks.count"]);
    expect(await issuesOf(() => buildTaskSet({ ...QUICKSTART, tasks: 50 }))).toEqual(["split-impossible tasks.split"]);
  });
});

describe("checkTaskSet", () => {
  it("finds every way in which splits and groups can disagree with the tasks, all at once", async () => {
    const taskSet = await buildTaskSet({ ...QUICKSTART, tasks: 60, heldOut: 10, validation: 5 });
    const [group, members] = Object.entries(taskSet.groups).find(([, ids]) => ids.length > 1) as [string, string[]];
    const [torn, kept] = members as [string, string];
    const lone = Object.values(taskSet.groups).find((ids) => ids.length === 1)?.[0] as string;
    const others = (ids: string[]): string[] => ids.filter((id) => id !== torn && id !== kept && id !== lone);
    const broken = structuredClone(taskSet);
    broken.splits = {
      train: [...others(taskSet.splits.train), torn, "nobody"],
      validation: [...others(taskSet.splits.validation), kept, kept],
      "held-out": others(taskSet.splits["held-out"]),
    };
    const issues = await issuesOf(() => checkTaskSet(broken, "x.json"));
    expect(issues).toContain(`task-set-inconsistent x.json: groups.${group}`);
    expect(issues).toContain("task-set-inconsistent x.json: splits (nobody)");
    expect(issues).toContain(`task-set-inconsistent x.json: splits (${kept})`);
    expect(issues).toContain(`task-set-inconsistent x.json: splits (${lone})`);
  });

  it("refuses duplicate ids and tasks of another family", async () => {
    const taskSet = await buildTaskSet({ ...QUICKSTART, tasks: 60, heldOut: 10, validation: 5 });
    const [first, second] = taskSet.tasks;
    const broken = { ...taskSet, tasks: [...taskSet.tasks, first, { ...second, family: "chess" }] };
    expect(await issuesOf(() => checkTaskSet(broken, "x"))).toEqual([
      "task-set-inconsistent x: tasks",
      `task-set-inconsistent x: tasks.${second?.id}`,
    ]);
  });
});

describe("readTaskSet", () => {
  it("tells a missing file, text that is not JSON, and JSON that is no task set", async () => {
    const path = join(folder, "tasks.json");
    await expect(readTaskSet(path)).rejects.toThrow("ENOENT");
    await writeFile(path, "{");
    await expect(readTaskSet(path)).rejects.toThrow("not JSON");
    await writeFile(path, "{}");
    expect(await issuesOf(() => readTaskSet(path))).toContain(`task-set-unreadable ${path}: tasks`);
  });
});

describe("loadFamily", () => {
  it("reads the family and digests every file that decides what it does", async () => {
    const { dir } = familyEntry("repo-chores");
    const { family, digest } = await loadFamily(dir);
    expect(family.tools.map((tool) => tool.function.name)).toEqual(["commit", "edit", "move", "search"]);
    await cp(dir, join(folder, "copy"), { recursive: true });
    expect((await loadFamily(join(folder, "copy"))).digest).toBe(digest);
    await writeFile(join(folder, "copy", "grader.py"), "print()\n");
    expect((await loadFamily(join(folder, "copy"))).digest).not.toBe(digest);
  });

  it("tells a missing file from a wrong one", async () => {
    expect(await issuesOf(() => loadFamily(folder))).toEqual([`family-unreadable ${join(folder, "family.json")}`]);
    for (const [name, content] of [
      ["family.json", "{}"],
      ["grader.py", ""],
      ["tools.py", ""],
    ] as const) {
      await writeFile(join(folder, name), content);
    }
    expect(await issuesOf(() => loadFamily(folder))).toContain(
      `family-unreadable ${join(folder, "family.json")}: name`,
    );
  });

  it("digests by name and content, not by order", () => {
    expect(familyDigest({ a: "1", b: "2" })).toBe(familyDigest({ b: "2", a: "1" }));
    expect(familyDigest({ a: "1", b: "2" })).not.toBe(familyDigest({ a: "2", b: "1" }));
  });
});
