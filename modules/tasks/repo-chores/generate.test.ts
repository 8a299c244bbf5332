import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { digestJson } from "../../../schemas/digest.ts";
import { Task } from "../../../schemas/task.ts";
import { generateRepoChores } from "./generate.ts";
import { KEYS, PROJECTS, type Project, pathOf, STEMS, VALUE_NUMBERS, VALUE_WORDS } from "./vocabulary.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

type Files = Record<string, string>;

/** The newest tree of a task's repository. */
function newest(task: Task): Files {
  return Object.assign({}, ...task.repository.commits.map(({ files }) => files)) as Files;
}

const linesOf = (files: Files): string[] => Object.values(files).flatMap((text) => text.split("\n").slice(0, -1));
const keyOf = (line: string): string => line.slice(0, line.indexOf("="));
const holders = (files: Files, key: string): string[] =>
  Object.keys(files).filter((path) => linesOf({ path: files[path] as string }).some((line) => keyOf(line) === key));

/** The chore done by hand, straight from its prompt, independently of the generator. */
function doByPrompt(task: Task): { files: Files; commit: string | null } {
  const files = newest(task);
  const commit = / Commit as (\S+)\.$/.exec(task.prompt)?.[1] ?? null;
  const text = task.prompt.replace(/ Commit as \S+\.$/, "");
  const set = /^(?:Set|Change) (\S+) to (\S+) (?:in every file|everywhere)\.$/.exec(text);
  const call = /^(?:Rename (\S+) to|Call (\S+) by) (\S+) (?:in every file|everywhere)\.$/.exec(text);
  const put = /^(?:Move|Put) the file with (\S+) (?:to|at) (\S+)\.$/.exec(text);
  const replace = (key: string, change: (value: string) => string): Files =>
    Object.fromEntries(
      Object.entries(files).map(([path, content]) => [
        path,
        content.replaceAll(new RegExp(`^${key}=(.*)$`, "gm"), (_, value: string) => change(value)),
      ]),
    );
  if (set) return { files: replace(set[1] as string, () => `${set[1]}=${set[2]}`), commit };
  if (call) return { files: replace((call[1] ?? call[2]) as string, (value) => `${call[3]}=${value}`), commit };
  if (!put) throw new Error(`no known wording: ${task.prompt}`);
  const [from] = holders(files, put[1] as string);
  return {
    files: Object.fromEntries(Object.entries(files).map(([path, text]) => [path === from ? put[2] : path, text])),
    commit,
  };
}

describe("generateRepoChores", () => {
  it("gives the same bytes for the same seed, and others for another", () => {
    expect(digestJson(generateRepoChores(7, 300))).toBe(digestJson(generateRepoChores(7, 300)));
    expect(digestJson(generateRepoChores(7, 300))).not.toBe(digestJson(generateRepoChores(8, 300)));
  });

  it("makes exactly the asked number of valid tasks with unique ids", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 120 }), (seed, count) => {
        const { tasks, plantedCopies } = generateRepoChores(seed, count);
        expect(tasks).toHaveLength(count);
        expect(new Set(tasks.map(({ id }) => id)).size).toBe(count);
        for (const task of tasks) Task.parse(task);
        expect(Object.keys(plantedCopies)).toHaveLength(Math.floor(count / 4));
      }),
      { numRuns: 30 },
    );
  });

  it("keeps to the vocabulary, the layouts and the sizes", () => {
    const values = new Set([...VALUE_WORDS, ...VALUE_NUMBERS]);
    for (const task of generateRepoChores(11, 500).tasks) {
      const paths = STEMS.map((stem) => pathOf(task.project as Project, stem));
      expect(task.repository.commits.map(({ message }) => message)).toEqual(
        ["start", "tune"].slice(0, task.repository.commits.length),
      );
      const files = newest(task);
      expect([2, 3]).toContain(Object.keys(files).length);
      for (const [path, content] of Object.entries(files)) {
        expect(paths).toContain(path);
        const lines = linesOf({ path: content });
        expect([2, 3, 4]).toContain(lines.length);
        expect(new Set(lines.map(keyOf)).size).toBe(lines.length);
        for (const line of lines) {
          expect(KEYS).toContain(keyOf(line));
          expect(values).toContain(line.slice(keyOf(line).length + 1));
        }
      }
      const [, tune] = task.repository.commits;
      const [path] = Object.keys(tune?.files ?? {});
      if (path) expect(task.repository.commits[0]?.files[path]).not.toBe(tune?.files[path]);
    }
  });

  it("writes gradings that follow from the prompt alone and that the untouched repository does not meet", () => {
    for (const task of generateRepoChores(12, 500).tasks) {
      const { files, commit } = doByPrompt(task);
      expect(task.grading.files).toEqual(files);
      expect(task.grading.head).toEqual(commit === null ? "unchanged" : { message: commit });
      expect(files).not.toEqual(newest(task));
      const history = task.grading.history as { message: string; files: Files }[];
      expect(history.at(-1)?.files).toEqual(newest(task));
      expect(history).toHaveLength(task.repository.commits.length);
    }
  });

  it("means by difficulty the number of files and whether to commit", () => {
    for (const task of generateRepoChores(13, 500).tasks) {
      const goal = task.goal as {
        key: string;
        commit: string | null;
        newKey?: string;
        target?: string;
        value?: string;
      };
      const files = newest(task);
      const count = holders(files, goal.key).length;
      const commits = goal.commit !== null;
      const allowed: Record<number, boolean> = {
        1: count === 1 && !commits,
        2: (count === 1 && commits) || (count === 2 && !commits && task.kind !== "move-file"),
        3: count === 2 && commits && task.kind !== "move-file",
      };
      expect(allowed[task.difficulty]).toBe(true);
      if (goal.newKey) expect(linesOf(files).map(keyOf)).not.toContain(goal.newKey);
      if (goal.target) expect(Object.keys(files)).not.toContain(goal.target);
      if (goal.value) expect(linesOf(files)).not.toContain(`${goal.key}=${goal.value}`);
    }
  });

  it("spreads tasks over projects, kinds and difficulties", () => {
    for (const seed of [1, 7, 99]) {
      const { tasks } = generateRepoChores(seed, 300);
      const share = (of: (task: Task) => unknown): number[] => {
        const counts = new Map<unknown, number>();
        for (const task of tasks) counts.set(of(task), (counts.get(of(task)) ?? 0) + 1);
        return [...counts.values()].map((count) => count / tasks.length);
      };
      expect(share(({ project }) => project)).toHaveLength(PROJECTS.length);
      for (const part of share(({ project }) => project)) expect(Math.abs(part - 1 / 5)).toBeLessThan(0.06);
      for (const part of share(({ kind }) => kind)) expect(Math.abs(part - 1 / 3)).toBeLessThan(0.08);
      for (const part of share(({ difficulty }) => difficulty)) expect(Math.abs(part - 1 / 3)).toBeLessThan(0.08);
    }
  });

  it("plants near copies that share their original's goal and project", () => {
    const { tasks, plantedCopies } = generateRepoChores(7, 300);
    const byId = new Map(tasks.map((task) => [task.id, task]));
    const wordings = new Set<string>();
    for (const [copy, original] of Object.entries(plantedCopies)) {
      expect(plantedCopies[original]).toBeUndefined();
      expect(byId.get(copy)?.goal).toEqual(byId.get(original)?.goal);
      expect(byId.get(copy)?.project).toBe(byId.get(original)?.project);
      expect(byId.get(copy)?.difficulty).toBe(byId.get(original)?.difficulty);
      const same = byId.get(copy)?.prompt === byId.get(original)?.prompt;
      wordings.add(same ? "same prompt" : "reworded");
    }
    expect(wordings).toEqual(new Set(["same prompt", "reworded"]));
  });
});
