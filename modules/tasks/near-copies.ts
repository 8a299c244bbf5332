/**
 * Near copies: tasks → groups of tasks that are almost the same, found from what the tasks say.
 * A model that trained on one of a group has all but seen the others, so a group must lie on one side of a split. The
 * generator's own knowledge is not used: tasks written by people come without any. Pure.
 *
 * How: each task becomes a set of shingles (below); two tasks whose sets have a Jaccard similarity of at least the
 * threshold are near copies; groups are the connected components. Exact over all pairs that share a shingle, which an
 * inverted index finds; a few thousand tasks take about a second, so no MinHash estimate is needed.
 */
import type { Task } from "../../schemas/task.ts";

/**
 * Tasks at least this similar are near copies. Measured on repo-chores (five seeds, 300 to 3,000 tasks): a reworded
 * prompt, shuffled files or a line more or less leaves at least 0.57; of unrelated tasks the most alike reach 0.35
 * among 1,000 and 0.46 among 3,000. The test measures both again.
 */
export const NEAR_COPY_THRESHOLD = 0.5;

/** Where files lie and how lines are ordered must not hide a copy, so lines count without path and order. */
export function taskShingles(task: Task): Set<string> {
  const shingles = new Set<string>();
  const words = task.prompt.toLowerCase().match(/[\p{L}\p{N}_./-]+/gu) ?? [];
  words.forEach((word, index) => {
    if (index > 0) shingles.add(`prompt:${words[index - 1]} ${word}`);
  });
  for (const { files } of task.repository.commits) {
    for (const content of Object.values(files)) addLines(shingles, "repository", content);
  }
  for (const text of strings(task.goal)) addLines(shingles, "solution", text);
  for (const text of strings(task.grading)) addLines(shingles, "solution", text);
  return shingles;
}

function addLines(shingles: Set<string>, part: string, text: string): void {
  for (const line of text.split("\n")) {
    if (line.trim() !== "") shingles.add(`${part}:${line.trim()}`);
  }
}

/** Every string inside a family-specific value; its keys are the family's format or file paths, not its content. */
function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (Array.isArray(value)) for (const item of value) yield* strings(item);
  else if (typeof value === "object" && value !== null) for (const item of Object.values(value)) yield* strings(item);
}

/** Shared members over all members: 0 nothing in common, 1 the same. */
export function jaccard(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0;
  for (const one of a) if (b.has(one)) shared += 1;
  const all = a.size + b.size - shared;
  return all === 0 ? 1 : shared / all;
}

/** Two tasks of a list, by index, and how similar they are. */
export interface SimilarPair {
  a: number;
  b: number;
  similarity: number;
}

/** Every pair with something in common, whose similarity is at least `threshold` (above 0). */
export function similarPairs(tasks: readonly Task[], threshold: number): SimilarPair[] {
  const sets = tasks.map(taskShingles);
  const holders = new Map<string, number[]>();
  sets.forEach((set, index) => {
    for (const shingle of set) holders.set(shingle, [...(holders.get(shingle) ?? []), index]);
  });
  const pairs: SimilarPair[] = [];
  sets.forEach((set, b) => {
    const shared = new Map<number, number>();
    for (const shingle of set) {
      for (const a of holders.get(shingle) ?? []) {
        if (a >= b) break;
        shared.set(a, (shared.get(a) ?? 0) + 1);
      }
    }
    for (const [a, count] of shared) {
      const similarity = count / ((sets[a] as Set<string>).size + set.size - count);
      if (similarity >= threshold) pairs.push({ a, b, similarity });
    }
  });
  return pairs;
}

/**
 * Group id → task ids, both sorted; every task is in exactly one group. A group is named for its first task, so that
 * the result does not depend on the tasks' order. `threshold` is a Jaccard similarity, above 0, at most 1.
 */
export function nearCopyGroups(
  tasks: readonly Task[],
  { threshold = NEAR_COPY_THRESHOLD }: { threshold?: number } = {},
): Record<string, string[]> {
  if (!(threshold > 0 && threshold <= 1))
    throw new RangeError(`a threshold is above 0 and at most 1, not ${threshold}`);
  const parent = tasks.map((_, index) => index);
  const root = (index: number): number => {
    let at = index;
    while (parent[at] !== at) {
      parent[at] = parent[parent[at] as number] as number;
      at = parent[at] as number;
    }
    return at;
  };
  for (const { a, b } of similarPairs(tasks, threshold)) parent[root(a)] = root(b);
  const members = new Map<number, string[]>();
  tasks.forEach((task, index) => {
    members.set(root(index), [...(members.get(root(index)) ?? []), task.id]);
  });
  const groups = [...members.values()]
    .map((ids) => ids.sort())
    .sort((a, b) => ((a[0] as string) < (b[0] as string) ? -1 : 1));
  return Object.fromEntries(groups.map((ids) => [`near-${ids[0]}`, ids]));
}
