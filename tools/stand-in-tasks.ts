/**
 * npx tsx tools/stand-in-tasks.ts: a seed → recipes/task-sets/{github,unreal}.json, indexes of tasks that do not exist.
 * With --check it writes nothing and fails where a file differs.
 *
 * Ids, projects, lengths and pass rates are made up, so that the reference recipes can be planned by anyone. Their
 * counts are shaped after the published reference case: GitHub tasks: 46 held out, 175 for RL that the expert solved at
 * least once, 36 of those always solved by the first run; Unreal tasks: five projects, 54 held out that fit 128k, 53 for RL
 * by the SFT model's pass rate, a third of the training tasks above 150,000 tokens, the longest 376,000.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { splitDataset } from "../modules/tasks/index.ts";
import { type Random, random } from "../modules/tasks/random.ts";
import { DatasetIndex, type DatasetTask } from "../schemas/dataset.ts";
import type { SplitName } from "../schemas/task.ts";

const FOLDER = join(import.meta.dirname, "../recipes/task-sets");
const SEED = 20;
const EXPERT = "moonshotai/Kimi-K3";
/** Attempts of every measured pass rate. */
const ATTEMPTS = 8;

/** Tasks whose shortest solution has this many tokens; more of them near the lower end. */
type Lengths = { tasks: number; from: number; to: number };
/** How many tasks of one split were solved never, sometimes and at every attempt. */
type Solved = { never: number; sometimes: number; always: number };
interface SplitShape {
  /** Shortest first. Tasks beyond these have no known solution: the expert never solved them. */
  readonly lengths: readonly Lengths[];
  /** Of the tasks that fit 128k. */
  readonly expert: Solved;
}
interface Family {
  readonly description: string;
  readonly projects: readonly string[];
  readonly splits: Readonly<Record<SplitName, SplitShape>>;
  /** What else of the training tasks is measured; they come easiest first. */
  readonly also: (train: DatasetTask[], rng: Random) => void;
}

/** The split the six reference recipes ask for; counts hold for this one. */
export const REFERENCE_SPLITS = {
  github: { heldOut: 52, validation: 24, seed: 0 },
  unreal: { heldOut: 84, validation: 24, seed: 0 },
} as const;

const MADE_UP =
  "Stand-in: no such tasks exist. Ids, lengths and pass rates are made up by tools/stand-in-tasks.ts so that the recipe can be planned; a plan made from this cannot be run.";

const FAMILIES: Readonly<Record<keyof typeof REFERENCE_SPLITS, Family>> = {
  github: {
    description: `${MADE_UP} Shaped after computer use in a GitHub-like application.`,
    projects: ["atlas", "beacon", "cinder", "drift", "ember", "fjord", "grove", "harbor"],
    splits: {
      "held-out": {
        lengths: [band(46, 9_000, 118_000), band(1, 134_000, 160_000)],
        expert: { never: 5, sometimes: 33, always: 13 },
      },
      validation: { lengths: [band(22, 9_000, 118_000)], expert: { never: 2, sometimes: 16, always: 6 } },
      train: {
        lengths: [band(175, 8_000, 124_000), band(3, 132_000, 175_000)],
        expert: { never: 28, sometimes: 137, always: 38 },
      },
    },
    also: (train, rng) => {
      const first = train.filter(fits(131_072)).filter(({ passRates }) => (passRates[EXPERT]?.passed ?? 0) > 0);
      measure(first, "github-sft-rl", { never: 21, sometimes: 118, always: 36 }, rng);
    },
  },
  unreal: {
    description: `${MADE_UP} Shaped after development in five Unreal Engine projects.`,
    projects: ["canyon-racer", "castle-siege", "deep-harbor", "orbital-yard", "paper-theatre"],
    splits: {
      "held-out": {
        lengths: [band(54, 22_000, 128_000), band(18, 133_000, 258_000), band(8, 264_000, 340_000)],
        expert: { never: 4, sometimes: 34, always: 20 },
      },
      validation: {
        lengths: [band(15, 22_000, 128_000), band(5, 133_000, 258_000), band(3, 264_000, 340_000)],
        expert: { never: 1, sometimes: 9, always: 6 },
      },
      train: {
        lengths: [
          ...[band(88, 20_000, 130_000), band(6, 132_000, 149_500)],
          ...[band(34, 150_500, 261_000), band(15, 263_000, 372_000), band(1, 376_000, 376_000)],
        ],
        expert: { never: 6, sometimes: 58, always: 30 },
      },
    },
    also: (train, rng) => {
      measure(train.filter(fits(131_072)), "unreal-sft", { never: 14, sometimes: 53, always: 27 }, rng);
      const longer = train.filter((task) => fits(262_144)(task) && !fits(131_072)(task));
      measure(longer, "unreal-sft", { never: 13, sometimes: 22, always: 5 }, rng);
    },
  },
};

/** The index of one family, the same at every call. */
export function standInIndex(family: keyof typeof REFERENCE_SPLITS): DatasetIndex {
  const { description, projects, splits: shapes, also } = FAMILIES[family];
  const rng = random(SEED, "stand-in", family);
  const tasks = drawTasks(
    family,
    projects,
    Object.values(shapes).reduce((sum, shape) => sum + sizeOf(shape), 0),
    rng,
  );
  const index: DatasetIndex = { schemaVersion: 1, family, description, standIn: true, tasks };
  const { seed, ...sizes } = REFERENCE_SPLITS[family];
  const splits = splitDataset(index, sizes, seed);
  for (const name of ["train", "validation", "held-out"] as const) {
    const ids = new Set(splits[name]);
    const own = fromEasyToHard(
      tasks.filter(({ id }) => ids.has(id)),
      rng,
    );
    if (own.length !== sizeOf(shapes[name])) throw new Error(`${family} ${name} has ${own.length} tasks`);
    describe(own, shapes[name], rng);
    if (name === "train") also(own, rng);
  }
  return DatasetIndex.parse(index);
}

/** An index's text: one task a line, so that a change of one task is a change of one line. */
export function indexText({ tasks, ...head }: DatasetIndex): string {
  const lines = tasks.map((task) => JSON.stringify(task)).join(",\n");
  return `${JSON.stringify(head).slice(0, -1)},"tasks":[\n${lines}\n]}\n`;
}

function band(tasks: number, from: number, to: number): Lengths {
  return { tasks, from, to };
}

/** Tasks of a split: those that have a length, and those that were never solved and have none. */
function sizeOf({ lengths, expert }: SplitShape): number {
  return lengths.reduce((sum, { tasks }) => sum + tasks, 0) + expert.never;
}

/** Tasks in near-copy groups of one to three, each group of one project and difficulty. */
function drawTasks(family: string, projects: readonly string[], count: number, rng: Random): DatasetTask[] {
  const tasks: DatasetTask[] = [];
  for (let group = 1; tasks.length < count; group += 1) {
    const copies = Math.min(rng.pick([1, 1, 1, 1, 1, 1, 1, 2, 2, 3]), count - tasks.length);
    const shared = { project: rng.pick(projects), difficulty: rng.pick([1, 1, 1, 2, 2, 2, 2, 3, 3, 3]) };
    for (let copy = 0; copy < copies; copy += 1)
      tasks.push({
        id: `${family}-${String(tasks.length + 1).padStart(4, "0")}`,
        ...shared,
        group: `${family}-group-${String(group).padStart(3, "0")}`,
        shortestSolutionTokens: null,
        passRates: {},
      });
  }
  return tasks;
}

/** Near copies of a task are about as hard as it is. */
function fromEasyToHard(tasks: readonly DatasetTask[], rng: Random): DatasetTask[] {
  const groups = new Map<string, number>();
  for (const { group } of tasks) if (!groups.has(group)) groups.set(group, 2 * rng.next());
  const hardness = tasks.map((task) => task.difficulty + (groups.get(task.group) as number) + rng.next() / 10);
  return tasks
    .map((task, index) => ({ task, hardness: hardness[index] as number }))
    .sort((a, b) => a.hardness - b.hardness)
    .map(({ task }) => task);
}

/** Gives a split's tasks, easiest first, their lengths and the expert's pass rates: what is harder is longer. */
function describe(tasks: readonly DatasetTask[], { lengths, expert }: SplitShape, rng: Random): void {
  const tokens = lengths.flatMap(({ tasks: count, from, to }) =>
    Array.from({ length: count }, () => Math.round(from + (to - from) * rng.next() ** 1.7)).sort((a, b) => a - b),
  );
  const unsolved = new Set(rng.shuffle(tasks.slice(Math.floor(tasks.length / 2))).slice(0, expert.never));
  for (const task of unsolved) task.passRates[EXPERT] = { passed: 0, attempts: ATTEMPTS };
  const solved = tasks.filter((task) => !unsolved.has(task));
  solved.forEach((task, index) => {
    task.shortestSolutionTokens = tokens[index] as number;
  });
  const inContext = expert.sometimes + expert.always;
  measure(solved.slice(0, inContext), EXPERT, { ...expert, never: 0 }, rng);
  // Tasks that are longer than 128k: solved now and then, or they would have no length.
  measure(solved.slice(inContext), EXPERT, { never: 0, sometimes: solved.length - inContext, always: 0 }, rng);
}

/** Gives tasks, easiest first, a model's pass rates. */
function measure(
  tasks: readonly DatasetTask[],
  model: string,
  { never, sometimes, always }: Solved,
  rng: Random,
): void {
  if (tasks.length !== never + sometimes + always) throw new Error(`${model}: ${tasks.length} tasks are measured`);
  const passed = [
    ...Array.from({ length: always }, () => ATTEMPTS),
    ...Array.from({ length: sometimes }, () => 1 + rng.below(ATTEMPTS - 1)).sort((a, b) => b - a),
    ...Array.from({ length: never }, () => 0),
  ];
  fromEasyToHard(tasks, rng).forEach((task, index) => {
    task.passRates[model] = { passed: passed[index] as number, attempts: ATTEMPTS };
  });
}

function fits(contextTokens: number): (task: DatasetTask) => boolean {
  return (task) => (task.shortestSolutionTokens ?? 0) <= contextTokens;
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await mkdir(FOLDER, { recursive: true });
  for (const family of ["github", "unreal"] as const) {
    const path = join(FOLDER, `${family}.json`);
    const text = indexText(standInIndex(family));
    if (!process.argv.includes("--check")) await writeFile(path, text);
    else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
      process.stderr.write(`Stale: ${path}\nRun npx tsx tools/stand-in-tasks.ts and commit what it changed.\n`);
      process.exitCode = 1;
    }
  }
}
