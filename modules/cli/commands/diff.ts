/**
 * uplift diff: two versions of the project, or two recipe files → what the change means, for a reviewer. Plans both
 * sides, each with its own code, run apart; reads and changes nothing else. Exit code 1 where --fail-on is met.
 */
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { relative, resolve } from "node:path";
import type { Command } from "commander";
import { fromZod, UserError } from "../../../schemas/error.ts";
import { LeaderboardFacts, type Review } from "../../../schemas/review.ts";
import {
  COMMENT_CHARACTERS,
  failures,
  LEAST_CHARACTERS,
  parseFailOn,
  renderReviewMarkdown,
  renderReviewText,
} from "../../review/index.ts";
import { parseRange } from "../git-trees.ts";
import { PROJECT_DIR } from "../project.ts";
import { type ReviewRequest, reviewFiles, reviewRange } from "../review-sides.ts";
import { example, print, type TargetOptions, withTarget } from "./options.ts";

interface DiffOptions extends TargetOptions {
  readonly markdown: boolean;
  readonly out?: string;
  readonly maxCharacters: string;
  readonly verbose: boolean;
  readonly failOn?: string;
  readonly leaderboard?: string;
}

const CONDITIONS = `
Conditions of --fail-on, looked at recipe by recipe:
  cost>N%       the expected dollars of a run rise by more than N percent
  cost>$N       they rise by more than N dollars
  incomparable  rows can no longer be ranked with earlier ones: preset, tasks, expert, server or its settings changed
  unfit         it does not plan and that is new, or a stage needs more memory than a GPU has
  warnings      the plan has a warning that it did not have
  data          anything in the section Data: tasks, splits, expert, data rules, or a recipe whose solved tasks are dropped
A new recipe has no former price: cost>N% cannot be checked and the output says so; against cost>$N its whole price
counts. It has no earlier rows, so incomparable never meets it; all of its warnings are new.
Whatever the conditions, it fails when no recipe at all could be planned.`;

/** Registers the command. */
export function diffCommand(program: Command): void {
  const command = program
    .command("diff <base..head> [recipes...]")
    .description(
      "say what a change means: training, data, evaluation, infrastructure, cost, comparability. Give BASE..HEAD (git " +
        "refs; no HEAD is the working tree; three dots begin where HEAD left BASE), or two recipe files",
    )
    .option("--markdown", "print Markdown for a pull-request comment", false)
    .option("-o, --out <file>", "write what --markdown or --json gives to this file, and print the page")
    .option(
      "--max-characters <n>",
      "longest comment: GitHub takes 65536, GitLab 1000000",
      String(COMMENT_CHARACTERS.github),
    )
    .option("--fail-on <conditions>", "exit with 1 on any of: cost>20%, cost>$500, incomparable, unfit, warnings, data")
    .option("--verbose", "also list what the numbers rest on and the rendered configurations' keys", false)
    .option("--leaderboard <file>", "what `uplift leaderboard --json` printed: counts the rows a change concerns");
  command.addHelpText("after", CONDITIONS);
  withTarget(command).action(async (what: string, recipes: string[], options: DiffOptions) => {
    const conditions = options.failOn === undefined ? null : parseFailOn(options.failOn);
    const maxCharacters = parseCharacters(options.maxCharacters);
    checkOptions(options);
    const request: ReviewRequest = {
      projectDir: PROJECT_DIR.replace(/\/$/, ""),
      recipes: recipes.map(inProject),
      target: options.target,
      rows: options.leaderboard === undefined ? undefined : await readLeaderboard(options.leaderboard),
      progress: (line) => process.stderr.write(`${line}\n`),
    };
    const compared = await compare(what, recipes, request);
    const review = { ...compared, verdict: conditions === null ? null : failures(compared, conditions) };
    await show(review, options, maxCharacters);
    if (review.verdict !== null && review.verdict.failed.length > 0) process.exitCode = 1;
  });
  example(
    command,
    "diff main...",
    "diff HEAD~1..HEAD recipes/quickstart-rl.ts --target local",
    "diff recipes/quickstart-rl.ts recipes/quickstart-sft-rl.ts",
    "diff origin/main...HEAD --markdown --fail-on 'cost>20%,incomparable,unfit'",
  );
}

async function compare(what: string, recipes: readonly string[], request: ReviewRequest): Promise<Review> {
  const [other] = recipes;
  if (existsSync(what) && other !== undefined && recipes.length === 1) return reviewFiles([what, other], request);
  const range = existsSync(what) ? null : parseRange(what);
  if (range !== null) return reviewRange(range, request);
  throw new UserError({
    code: "diff-arguments",
    path: what,
    asked: "two sides are compared",
    found: existsSync(what)
      ? `one file, and ${recipes.length === 0 ? "no second one" : `${recipes.length} more`}`
      : "there is no such file, and there are no dots between two refs",
    allowed: "BASE..HEAD, BASE...HEAD, BASE.., or two files",
    todo: "uplift diff main... compares the working tree with where it left main",
  });
}

async function show(review: Review, options: DiffOptions, maxCharacters: number): Promise<void> {
  const page = renderReviewText(review, options).trimEnd();
  if (!options.json && !options.markdown) return print(page);
  const asked = options.json ? `${JSON.stringify(review)}\n` : renderReviewMarkdown(review, { maxCharacters });
  if (options.out === undefined) return print(asked.trimEnd());
  await writeFile(options.out, asked);
  print(page);
}

function checkOptions({ json, markdown, out }: DiffOptions): void {
  const contradiction = (path: string, asked: string, found: string, todo: string) =>
    new UserError({ code: "option-invalid", path, asked, found, allowed: "--markdown, --json, or neither", todo });
  if (json && markdown) throw contradiction("--json", "JSON is printed", "--markdown is given, too", "leave one out");
  if (out !== undefined && !json && !markdown)
    throw contradiction("--out", `${out} is written`, "neither --markdown nor --json says what", "add one of them");
}

/** A recipe as it is called in both trees: its path from the project's folder. */
function inProject(recipe: string): string {
  const path = relative(PROJECT_DIR, resolve(recipe));
  // From another folder, "recipes/a.ts" still means the project's.
  return path.startsWith("..") && !existsSync(resolve(recipe)) ? recipe : path;
}

function parseCharacters(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= LEAST_CHARACTERS) return number;
  throw new UserError({
    code: "option-invalid",
    path: "--max-characters",
    asked: `${text} characters`,
    found: "that is no whole number a comment could have",
    allowed: `${LEAST_CHARACTERS} or more`,
    todo: `leave it out for GitHub; ${COMMENT_CHARACTERS.gitlab} for GitLab`,
  });
}

async function readLeaderboard(file: string): Promise<LeaderboardFacts> {
  const unreadable = (found: string) =>
    new UserError({
      code: "leaderboard-file-invalid",
      path: file,
      asked: "this file is read as a leaderboard",
      found,
      allowed: "what `uplift leaderboard --json` prints",
      todo: "write it again: uplift leaderboard --json > FILE",
    });
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw unreadable(error.code === "ENOENT" ? "there is no such file" : `it cannot be read (${error.code})`);
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw unreadable("it is not JSON");
  }
  const parsed = LeaderboardFacts.safeParse(value);
  if (parsed.success) return parsed.data;
  throw fromZod(parsed.error, file, "leaderboard-file-invalid");
}
