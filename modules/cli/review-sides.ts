/**
 * A range of refs, or two files → the review of all recipes they have. Exports both trees to a temporary folder, which
 * is always removed, and plans each recipe with its own side's code.
 */
import { rmSync } from "node:fs";
import { lstat, mkdtemp, readFile, realpath, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { LeaderboardFacts, Review } from "../../schemas/review.ts";
import { reviewPlans, reviewRecipes, type Side } from "../review/index.ts";
import { GitTrees, type ProjectTree, type RefRange } from "./git-trees.ts";
import { type PlannedRequests, type PlanRequest, planRequests } from "./planned-sides.ts";

/** What is compared. */
export interface ReviewRequest {
  readonly projectDir: string;
  /** Paths of recipes from the project's folder; none for all there are. */
  readonly recipes: readonly string[];
  readonly target: string;
  readonly rows?: LeaderboardFacts;
  /** A line for whoever waits. */
  readonly progress: (line: string) => void;
}

/** Longest wait for files that are being written when the command is stopped. */
const LAST_WRITES_MS = 500;
const RECIPE_FILE = /\.([cm]?ts|ya?ml)$/;
const NO_RECIPE_FILE = /\.(test|d)\.[cm]?ts$/;
/** What can change no plan. Everything else counts: a file too many costs a second, one too few a wrong review. */
const NO_PART_OF_A_PLAN = /^(docs|bench|test|\.github|\.gitlab)\/|(^|\/)[A-Z]+(\.md)?$|\.md$|\.test\.tsx?$/;

/** Reviews what changed between two refs, or a ref and the working tree. */
export async function reviewRange(range: RefRange, request: ReviewRequest): Promise<Review> {
  return inTemporaryFolder(async (temporary, onStop) => {
    const trees = await GitTrees.open(request.projectDir, temporary);
    onStop(() => trees.stop());
    const { base, head, notes } = await trees.sides(range);
    const changed = await trees.changedFiles(base, head);
    const relevant = changed.filter((path) => !NO_PART_OF_A_PLAN.test(path));
    // With nothing different that a plan is made from, both sides are one, and are planned once.
    const folders = { base: join(temporary, "base"), head: join(temporary, relevant.length === 0 ? "base" : "head") };
    const packages = await packagesOf(request.projectDir);
    request.progress(`exporting ${base.label} and ${head.label}`);
    await exportTree(trees, base, folders.base, packages);
    if (relevant.length > 0) await exportTree(trees, head, folders.head, packages);

    const recipes = await recipesIn(trees, [base, head], folders, request.recipes);
    const neither = recipes.filter(({ inBase, inHead }) => !inBase && !inHead);
    if (neither.length > 0) throw missingRecipes(neither, base, head);
    const planned = await planBoth(recipes, { base, head }, folders, packages, request);
    const named = new Set(request.recipes);
    const reviewed = recipes.map((recipe) => ({
      recipe,
      base: planned.of("base", recipe),
      head: planned.of("head", recipe),
    }));
    const isLeftOut = (one: (typeof reviewed)[number]) =>
      !named.has(one.recipe.path) && [one.base, one.head].every((side) => side.kind === "absent" || isNoRecipe(side));
    const leftOut = reviewed.filter(isLeftOut).map(({ recipe }) => recipe.path);
    const reviews = reviewRecipes(
      reviewed
        .filter((one) => !isLeftOut(one))
        .map((one) => ({ base: one.base, head: one.head, file: one.recipe, rows: request.rows })),
    );
    return {
      schemaVersion: 1,
      target: request.target,
      before: base.label,
      after: head.label,
      recipes: reviews,
      sharedFiles: relevant.filter((path) => !recipes.some((recipe) => recipe.path === path)),
      notes: [
        ...notes,
        ...planned.notes,
        ...(leftOut.length > 0 ? [`no recipes, and left out: ${leftOut.join(", ")}`] : []),
        ...(changed.includes("package-lock.json")
          ? ["package-lock.json differs: both sides were planned with the packages installed here"]
          : []),
      ],
      isolation: planned.isolation,
      verdict: null,
    };
  });
}

/** A recipe's file in the two trees. */
interface RecipeInTrees {
  readonly path: string;
  readonly inBase: boolean;
  readonly inHead: boolean;
  readonly sameBytes: boolean;
}

/** The recipes asked for; without any, every file of either side's recipes/ that may be one. */
async function recipesIn(
  trees: GitTrees,
  [base, head]: readonly [ProjectTree, ProjectTree],
  folders: Readonly<Record<"base" | "head", string>>,
  asked: readonly string[],
): Promise<RecipeInTrees[]> {
  const [before, after] = [await trees.files(base, asked), await trees.files(head, asked)];
  const paths =
    asked.length > 0 ? [...new Set(asked)] : await recipeFiles([folders.base, folders.head], [before, after]);
  return paths.map((path) => ({
    path,
    inBase: before.has(path),
    inHead: after.has(path),
    sameBytes: before.get(path) === after.get(path),
  }));
}

/** Plans every recipe on each side that has it. */
async function planBoth(
  recipes: readonly RecipeInTrees[],
  trees: Readonly<Record<"base" | "head", ProjectTree>>,
  folders: Readonly<Record<"base" | "head", string>>,
  packages: string | null,
  request: ReviewRequest,
): Promise<{
  of(side: "base" | "head", recipe: RecipeInTrees): Side;
  readonly isolation: Review["isolation"];
  readonly notes: readonly string[];
}> {
  const readable = [...(packages === null ? [] : [packages]), ...targetOutside(request)];
  const shared = { target: targetIn(request), readable, hidden: [] };
  const requests = recipes.flatMap(({ path, inBase, inHead }) =>
    (["base", "head"] as const)
      .filter((side) => (side === "base" ? inBase : inHead && folders.head !== folders.base))
      .map((side): PlanRequest => ({ folder: folders[side], label: trees[side].label, recipe: path, ...shared })),
  );
  const { sides, isolation } = await planAll(requests, folders.head, request);
  const answers = new Map(requests.map(({ folder, recipe }, index) => [`${folder} ${recipe}`, sides[index]]));
  const answer = (side: "base" | "head", path: string): Side =>
    answers.get(`${folders[side]} ${path}`) ?? { kind: "absent" };
  // A target that only the base lacks is new: nothing was planned for it, so the base has nothing to compare with.
  const [missing] = sides.flatMap((side) => targetIssues(side, shared.target));
  const of = (side: "base" | "head", { path, inHead }: RecipeInTrees): Side => {
    const found = answer(side, path);
    return side === "base" && inHead && targetIssues(found, shared.target).length > 0 ? { kind: "absent" } : found;
  };
  const notes =
    missing === undefined
      ? []
      : [
          `${trees.base.label} cannot load the target ${request.target} (${missing.code}: ${missing.found}): every recipe counts as new`,
        ];
  return { of, isolation, notes };
}

/** Why a side was refused, where it is the target's fault: no recipe can be planned for it. */
function targetIssues(side: Side, target: string): readonly Issue[] {
  if (side.kind !== "refused") return [];
  return side.issues.filter(
    ({ code, path }) =>
      code === "target-missing" || code === "target-invalid" || (code === "file-does-not-load" && path === target),
  );
}

/** Reviews two recipe files, both planned by the project's code as it lies here. */
export async function reviewFiles(files: readonly [string, string], request: ReviewRequest): Promise<Review> {
  const { projectDir } = request;
  const packages = await packagesOf(projectDir);
  const requests = files.map(
    (file): PlanRequest => ({
      folder: projectDir,
      label: file,
      recipe: resolve(file),
      target: targetIn(request),
      readable: [...(packages === null ? [] : [packages]), dirname(resolve(file)), ...targetOutside(request)],
      // State, keys and history of the project are no part of a recipe.
      hidden: [".git", ".uplift", ".env"].map((name) => join(projectDir, name)),
    }),
  );
  const { sides, isolation } = await planAll(requests, projectDir, request);
  const [base, head] = sides;
  if (base === undefined || head === undefined) throw new TypeError("two files have two answers");
  return {
    schemaVersion: 1,
    target: request.target,
    before: files[0],
    after: files[1],
    recipes: [{ ...reviewPlans({ base, head, rows: request.rows }), file: files[1] }],
    sharedFiles: [],
    notes: [],
    isolation,
    verdict: null,
  };
}

/** Plans them all. A target that the head's code cannot load is a mistake of the command, told with the first answer. */
function planAll(
  requests: readonly PlanRequest[],
  headFolder: string,
  { progress }: ReviewRequest,
): Promise<PlannedRequests> {
  return planRequests(
    requests,
    ({ recipe, label }, number) =>
      progress(`planning ${basename(recipe)} at ${label} (${number} of ${requests.length})`),
    ({ folder, label, target }, side) => {
      const issues = folder === headFolder ? targetIssues(side, target) : [];
      if (issues.length > 0)
        throw new UserError(issues.map((issue) => ({ ...issue, found: `${issue.found} (${label})` })));
    },
  );
}

/** A folder that is gone afterwards, also when the command is interrupted. */
async function inTemporaryFolder<T>(
  work: (folder: string, onStop: (end: () => Promise<void>) => void) => Promise<T>,
): Promise<T> {
  // The real path: git and a sandbox would resolve a link on the way to it, and not mean the same folder.
  const folder = await mkdtemp(join(await realpath(tmpdir()), "uplift-diff-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  let end = async (): Promise<void> => {};
  let stopping = false;
  const running = work(folder, (other) => {
    end = other;
  });
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) return;
    stopping = true;
    // What writes there ends first. Planning only reads, is not waited for, and ends with this process.
    const settled = running.then(
      () => {},
      () => {},
    );
    void end()
      .then(() => Promise.race([settled, sleep(LAST_WRITES_MS)]))
      .then(() => {
        remove();
        process.exit(signal === "SIGINT" ? 130 : 143);
      });
  };
  // Not `once`: a listener that is gone by then lets other libraries end the process by the signal at once.
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  try {
    return await running;
  } finally {
    // The work broke off because it was stopped: the exit is on its way.
    if (stopping) await new Promise<never>(() => {});
    process.off("SIGINT", stop);
    process.off("SIGTERM", stop);
    remove();
  }
}

async function exportTree(trees: GitTrees, tree: ProjectTree, folder: string, packages: string | null): Promise<void> {
  await trees.export(tree, folder);
  if (packages === null) return;
  await symlink(packages, join(folder, "node_modules")).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

/** Where the project's packages really lie; null where none are installed. */
async function packagesOf(projectDir: string): Promise<string | null> {
  return realpath(join(projectDir, "node_modules")).catch(() => null);
}

/** Files of either side's recipes/ that may be recipes, by name. */
async function recipeFiles(folders: [string, string], files: ReadonlyMap<string, string>[]): Promise<string[]> {
  const all = new Set(files.flatMap((side) => [...side.keys()]));
  const candidates = [...all].filter((path) => RECIPE_FILE.test(path) && !NO_RECIPE_FILE.test(path)).sort();
  const answers = await Promise.all(
    candidates.map(async (path) => {
      const sides = await Promise.all(folders.map((folder) => mayBeRecipe(join(folder, path))));
      return sides.some((answer) => answer) ? [path] : [];
    }),
  );
  return answers.flat();
}

/** Whether a file has what a recipe has at least; its code is not run for that. */
async function mayBeRecipe(file: string): Promise<boolean> {
  const found = await lstat(file).catch(() => null);
  if (found === null) return false;
  // Where a link leads is for its own side's code to see.
  if (!found.isFile()) return true;
  const text = await readFile(file, "utf8");
  return file.endsWith("ts")
    ? /\bexport\s+default\b|\bexport\s*\{[^}]*\bdefault\b/.test(text)
    : /^["']?kind["']?\s*:/m.test(text);
}

/** Whether a side was refused because the file exports something else: a preset, a list of tasks. */
function isNoRecipe(side: Side): boolean {
  if (side.kind !== "refused") return false;
  return side.issues.every(
    ({ code, path }) =>
      code === "recipe-no-default-export" || (code === "recipe-invalid" && /: (kind|\(the recipe\))$/.test(path)),
  );
}

/** The target as each side's code is asked for it: its own file of that name. */
function targetIn({ target, projectDir }: ReviewRequest): string {
  if (!isPath(target)) return target;
  const inside = relative(projectDir, resolve(target));
  return inside.startsWith("..") ? resolve(target) : inside;
}

/** A target file that lies outside of the project is the same for both sides. */
function targetOutside({ target, projectDir }: ReviewRequest): string[] {
  return isPath(target) && relative(projectDir, resolve(target)).startsWith("..") ? [dirname(resolve(target))] : [];
}

function isPath(target: string): boolean {
  return target.includes(sep) || target.endsWith(".ts");
}

function missingRecipes(recipes: readonly RecipeInTrees[], base: ProjectTree, head: ProjectTree): UserError {
  return new UserError(
    recipes.map(({ path }) => ({
      code: "recipe-missing",
      path,
      asked: "this recipe is compared",
      found: `neither ${base.label} nor ${head.label} has such a file`,
      allowed: "the path of a recipe from the project's folder, e.g. recipes/quickstart-rl.ts",
      todo: "check the path; without any, all recipes are compared",
    })),
  );
}
