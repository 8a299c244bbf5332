/**
 * Generator of repo-chores: seed and number → tasks, and which of them are near copies of which.
 * The same seed gives the same tasks on every machine. Pure.
 *
 * Kinds, projects and difficulties are dealt out in rounds of 60, so that any number is spread nearly evenly. A
 * quarter of the tasks are near copies on purpose: the split must keep them beside their original, and tests must
 * know which they are. Ids carry no trace of that.
 */
import type { RepositorySpec, Task } from "../../../schemas/task.ts";
import { type Random, random } from "../random.ts";
import { KEYS, PROJECTS, type Project, pathOf, STEMS, VALUE_NUMBERS, VALUE_WORDS } from "./vocabulary.ts";

/** The kinds of chore. */
export type ChoreKind = "set-value" | "rename-key" | "move-file";

/** What is to be done: the part of a task that a near copy shares with its original. */
export type ChoreGoal = { key: string; commit: string | null } & (
  | { kind: "set-value"; value: string }
  | { kind: "rename-key"; newKey: string }
  | { kind: "move-file"; target: string }
);

/** Tasks and the generator's own knowledge of them. */
export interface GeneratedTasks {
  tasks: Task[];
  /** Near copy → its original, by task id; for tests, never for the split. */
  plantedCopies: Record<string, string>;
}

/** How a near copy differs from its original. */
const VARIATIONS = ["reworded", "shuffled", "line-added", "line-removed"] as const;
type Variation = (typeof VARIATIONS)[number];

type Line = { key: string; value: string };
type File = { stem: string; lines: Line[] };

/** One chore before it is written out as a task. */
interface Chore {
  project: Project;
  difficulty: number;
  goal: ChoreGoal;
  /** The newest commit's files. */
  files: File[];
  /** In the first commit this line had another value, in a two-commit history. */
  tuned: { file: number; line: number; before: string } | null;
  wording: "common" | "reworded";
}

/** Kind and difficulty, weighted so that the three kinds and the three difficulties are each a third. */
const DEAL: readonly (readonly [ChoreKind, number])[] = [
  ["set-value", 1],
  ["set-value", 2],
  ["set-value", 3],
  ["set-value", 3],
  ["rename-key", 1],
  ["rename-key", 2],
  ["rename-key", 3],
  ["rename-key", 3],
  ["move-file", 1],
  ["move-file", 1],
  ["move-file", 2],
  ["move-file", 2],
];

/** Near copies among all tasks. */
const COPY_SHARE = 0.25;
/** An original has at most this many near copies, so that groups stay small. */
const MAX_COPIES = 3;

/** A repository's chores from a seed; `tasks` at least 1. */
export function generateRepoChores(seed: number, tasks: number): GeneratedTasks {
  const copyCount = Math.floor(tasks * COPY_SHARE);
  const originals = dealChores(seed, tasks - copyCount);
  const rng = random(seed, "repo-chores", "copies");
  const chores: { chore: Chore; original: number | null }[] = originals.map((chore) => ({ chore, original: null }));
  const used = new Map<number, Variation[]>();
  while (chores.length < tasks) {
    const original = rng.below(originals.length);
    const earlier = used.get(original) ?? [];
    if (earlier.length >= MAX_COPIES) continue;
    const source = originals[original] as Chore;
    const variation = rng.pick(VARIATIONS.filter((one) => !earlier.includes(one) && canVary(source, one)));
    used.set(original, [...earlier, variation]);
    chores.push({ chore: vary(source, variation, rng), original });
  }
  const order = rng.shuffle(chores.map((_, index) => index));
  const place = new Map(order.map((index, position) => [index, position]));
  const written = order.map((index, position) => writeTask((chores[index] as (typeof chores)[number]).chore, position));
  const plantedCopies: Record<string, string> = {};
  chores.forEach(({ original }, index) => {
    if (original === null) return;
    const idOf = (chore: number): string => (written[place.get(chore) as number] as Task).id;
    plantedCopies[idOf(index)] = idOf(original);
  });
  return { tasks: written, plantedCopies };
}

/** Originals, dealt in rounds over kind × difficulty × project. */
function dealChores(seed: number, count: number): Chore[] {
  const chores: Chore[] = [];
  for (let round = 0; chores.length < count; round += 1) {
    const rng = random(seed, "repo-chores", "round", round);
    const projects = rng.shuffle(PROJECTS);
    for (const [kind, difficulty] of rng.shuffle(DEAL)) {
      for (const project of projects) {
        if (chores.length < count) chores.push(makeChore(project, kind, difficulty, rng));
      }
    }
  }
  return chores;
}

function makeChore(project: Project, kind: ChoreKind, difficulty: number, rng: Random): Chore {
  // Difficulty 2 is "one file and a commit" or "two files and none"; a move is about one file, so always the first.
  const twoFiles = difficulty === 3 || (difficulty === 2 && kind !== "move-file" && rng.chance(0.5));
  const commits = difficulty === 3 || (difficulty === 2 && !twoFiles);
  const [key, newKey, ...otherKeys] = rng.shuffle(KEYS) as [string, string, ...string[]];
  const stems = rng.shuffle(STEMS);
  const files: File[] = stems.slice(0, 2 + rng.below(2)).map((stem) => ({ stem, lines: [] }));
  const holders = new Set(rng.shuffle(files).slice(0, twoFiles ? 2 : 1));
  const value = makeValue(rng);
  for (const file of files) {
    const keys = rng.shuffle(otherKeys).slice(0, 2 + rng.below(3));
    if (holders.has(file)) keys[rng.below(keys.length)] = key;
    file.lines = keys.map((one) => ({ key: one, value: makeValue(rng, one === key ? value : undefined) }));
  }
  const commit = commits ? rng.pick([...KEYS, ...STEMS]) : null;
  const goal: ChoreGoal =
    kind === "set-value"
      ? { kind, key, value, commit }
      : kind === "rename-key"
        ? { kind, key, newKey, commit }
        : { kind, key, target: pathOf(project, rng.pick(stems.slice(files.length))), commit };
  let tuned: Chore["tuned"] = null;
  if (rng.chance(0.5)) {
    const file = rng.below(files.length);
    const lines = (files[file] as File).lines;
    const line = rng.below(lines.length);
    tuned = { file, line, before: makeValue(rng, (lines[line] as Line).value) };
  }
  return { project, difficulty, goal, files, tuned, wording: "common" };
}

/** A word or a number, half and half; never `except`. */
function makeValue(rng: Random, except?: string): string {
  for (;;) {
    const value = rng.pick(rng.chance(0.5) ? VALUE_WORDS : VALUE_NUMBERS);
    if (value !== except) return value;
  }
}

function canVary(chore: Chore, variation: Variation): boolean {
  if (variation === "line-added") return chore.files.some((file) => file.lines.length < 4);
  if (variation === "line-removed") return chore.files.some((file) => removable(chore, file).length > 0);
  return true;
}

/** Lines that may go without changing the goal or the two-line minimum. */
function removable(chore: Chore, file: File): number[] {
  if (file.lines.length < 3) return [];
  return file.lines.flatMap((line, index) => (line.key === chore.goal.key ? [] : [index]));
}

function vary(chore: Chore, variation: Variation, rng: Random): Chore {
  const copy = structuredClone(chore);
  // The history is moved or thinned with the lines; a copy without the first commit is still the same chore.
  if (variation !== "reworded") copy.tuned = null;
  if (variation === "reworded") {
    copy.wording = "reworded";
  } else if (variation === "shuffled") {
    const stems = rng.shuffle(copy.files.map((file) => file.stem));
    copy.files = copy.files.map((file, index) => ({ stem: stems[index] as string, lines: rng.shuffle(file.lines) }));
  } else if (variation === "line-added") {
    const file = rng.pick(copy.files.filter((one) => one.lines.length < 4));
    const taken = new Set([...file.lines.map((line) => line.key), copy.goal.key]);
    if (copy.goal.kind === "rename-key") taken.add(copy.goal.newKey);
    const line = { key: rng.pick(KEYS.filter((key) => !taken.has(key))), value: makeValue(rng) };
    file.lines.splice(rng.below(file.lines.length + 1), 0, line);
  } else {
    const file = rng.pick(copy.files.filter((one) => removable(copy, one).length > 0));
    file.lines.splice(rng.pick(removable(copy, file)), 1);
  }
  return copy;
}

function writeTask(chore: Chore, position: number): Task {
  const { project, difficulty, goal } = chore;
  const current = writeFiles(project, chore.files);
  const commits: RepositorySpec["commits"] = [];
  if (chore.tuned) {
    const before = structuredClone(chore.files);
    const file = before[chore.tuned.file] as File;
    (file.lines[chore.tuned.line] as Line).value = chore.tuned.before;
    const path = pathOf(project, file.stem);
    commits.push({ message: "start", files: writeFiles(project, before) });
    commits.push({ message: "tune", files: { [path]: current[path] as string } });
  } else {
    commits.push({ message: "start", files: current });
  }
  let tree: Record<string, string> = {};
  const history = commits.map(({ message, files }) => {
    tree = { ...tree, ...files };
    return { message, files: tree };
  });
  return {
    id: `${project}-${goal.kind}-${String(position).padStart(4, "0")}`,
    family: "repo-chores",
    project,
    difficulty,
    kind: goal.kind,
    prompt: writePrompt(goal, chore.wording),
    repository: { commits },
    goal: { ...goal },
    grading: {
      files: expectedFiles(chore),
      head: goal.commit === null ? "unchanged" : { message: goal.commit },
      history,
    },
  };
}

function writeFiles(project: Project, files: readonly File[]): Record<string, string> {
  const written: Record<string, string> = {};
  for (const { stem, lines } of [...files].sort((a, b) => (a.stem < b.stem ? -1 : 1))) {
    written[pathOf(project, stem)] = lines.map(({ key, value }) => `${key}=${value}\n`).join("");
  }
  return written;
}

function writePrompt(goal: ChoreGoal, wording: Chore["wording"]): string {
  const common = wording === "common";
  const ending = goal.commit === null ? "" : ` Commit as ${goal.commit}.`;
  switch (goal.kind) {
    case "set-value":
      return common
        ? `Set ${goal.key} to ${goal.value} in every file.${ending}`
        : `Change ${goal.key} to ${goal.value} everywhere.${ending}`;
    case "rename-key":
      return common
        ? `Rename ${goal.key} to ${goal.newKey} in every file.${ending}`
        : `Call ${goal.key} by ${goal.newKey} everywhere.${ending}`;
    case "move-file":
      return common
        ? `Move the file with ${goal.key} to ${goal.target}.${ending}`
        : `Put the file with ${goal.key} at ${goal.target}.${ending}`;
  }
}

/** The files as they must be when the chore is done. */
function expectedFiles({ project, files, goal }: Chore): Record<string, string> {
  const changed = files.map(({ stem, lines }) => ({
    stem,
    lines: lines.map((line) => {
      if (line.key !== goal.key || goal.kind === "move-file") return line;
      return goal.kind === "set-value" ? { ...line, value: goal.value } : { ...line, key: goal.newKey };
    }),
  }));
  const written = writeFiles(project, changed);
  if (goal.kind !== "move-file") return written;
  const moved = files.find(({ lines }) => lines.some((line) => line.key === goal.key)) as File;
  const from = pathOf(project, moved.stem);
  return Object.fromEntries(
    Object.entries(written)
      .map(([path, content]): [string, string] => [path === from ? goal.target : path, content])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}
