/**
 * Review → a comment for a pull request. Pure. A forge cuts or refuses what is too long, and the summary is what a
 * reviewer must not lose (pulumi/actions#26, #1387): it comes first and is always whole; details are folded, and where
 * they do not fit the largest are left out, which the comment says.
 */
import type { RecipeReview, Review } from "../../schemas/review.ts";
import { countOf } from "./show.ts";
import { blocksOf, recipesToRead, remarksOf, summaryOf, unchangedLines, verdictOf } from "./text.ts";

/** First line of the comment: who updates it finds it by this. */
export const REVIEW_MARKER = "<!-- uplift-review -->";

/** What the forges take, characters. */
export const COMMENT_CHARACTERS = { github: 65_536, gitlab: 1_000_000 } as const;

/** Longest headline in the list of recipes, characters before escaping. */
const LONGEST_HEADLINE = 600;
/** Room for the sentence that says what was left out. */
const LEFT_OUT_CHARACTERS = 1200;
/** Fewer cannot hold a summary. */
const LEAST_CHARACTERS = 8000;

/** The comment, never longer than `maxCharacters` (at least 8,000). */
export function renderReviewMarkdown(review: Review, options: { readonly maxCharacters: number }): string {
  const most = Math.max(LEAST_CHARACTERS, options.maxCharacters);
  const toRead = recipesToRead(review);
  const sides = [review.before, review.after, review.target].map((name) => inline(cut(name, 80)));
  const title = `${REVIEW_MARKER}\n## Uplift: ${inline(summaryOf(review))}\n\n${sides[0]} → ${sides[1]} on ${sides[2]}\n`;
  const verdict = within(
    verdictOf(review).map((line) => `- ${inline(cut(line))}\n`),
    most / 8,
  );
  const summary = within(toRead.map(summaryLine), most / 2);
  const remarks = [...unchangedLines(review), ...remarksOf(review)];
  const foot = fold(
    "Notes on this comparison",
    within(
      remarks.map((remark) => `- ${inline(cut(remark))}\n`),
      most / 8,
    ),
  );
  const head = [title, verdict, summary].filter((part) => part !== "").join("\n");
  const { details, leftOut } = withinBudget(
    toRead.map(detailsOf),
    most - head.length - foot.length - LEFT_OUT_CHARACTERS,
  );
  const missing = leftOut.length === 0 ? "" : `\n${leftOutText(leftOut)}\n`;
  return `${head}${details.join("")}${missing}${foot}`;
}

interface Details {
  readonly recipe: string;
  readonly text: string;
}

function summaryLine({ recipe, headline }: RecipeReview): string {
  return `- **${inline(recipe)}**: ${inline(cut(headline))}\n`;
}

function detailsOf(review: RecipeReview): Details {
  const blocks = blocksOf(review).map(
    ({ title, lines }) => `**${inline(title)}**\n\n${lines.map((line) => `- ${inline(line)}\n`).join("")}\n`,
  );
  const count = review.lines.length;
  const title = `${review.recipe}${review.file === null ? "" : ` (${review.file})`}${count > 0 ? `: ${countOf(count, "change")}` : ""}`;
  return { recipe: review.recipe, text: blocks.length === 0 ? "" : fold(title, blocks.join("")) };
}

function fold(title: string, body: string): string {
  return body === "" ? "" : `\n<details><summary>${summaryText(title)}</summary>\n\n${body}\n</details>\n`;
}

/** All details that fit; while they don't, the largest goes. */
function withinBudget(all: readonly Details[], budget: number): { details: string[]; leftOut: Details[] } {
  const leftOut = new Set<Details>();
  let length = all.reduce((sum, { text }) => sum + text.length, 0);
  for (const one of [...all].sort((a, b) => b.text.length - a.text.length)) {
    if (length <= budget) break;
    leftOut.add(one);
    length -= one.text.length;
  }
  return { details: all.filter((one) => !leftOut.has(one)).map(({ text }) => text), leftOut: [...leftOut] };
}

function leftOutText(leftOut: readonly Details[]): string {
  const characters = leftOut.reduce((sum, { text }) => sum + text.length, 0);
  const names = leftOut.slice(0, 3).map(({ recipe }) => inline(cut(recipe, 60)));
  const more = leftOut.length > names.length ? ` and ${leftOut.length - names.length} more` : "";
  return `_Details of ${names.join(", ")}${more} left out: ${characters} characters more than a comment may have. The job's output has all of it._`;
}

/** A character of no width: what stands on both sides of it is not one word. */
const NOTHING = "\u200b";

/** The first lines that fit, and how many do not. */
function within(lines: readonly string[], budget: number): string {
  let text = "";
  for (const [index, line] of lines.entries()) {
    if (text.length + line.length > budget)
      return `${text}- … and ${lines.length - index} more: see the job's output\n`;
    text += line;
  }
  return text;
}

function cut(text: string, most = LONGEST_HEADLINE): string {
  if (text.length <= most) return text;
  // Not through the middle of a character that takes two units.
  return `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "")}… (${text.length - most} characters more)`;
}

const HTML: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/**
 * Text on one line that a forge shows as it is. A recipe is written by whoever opens the pull request, so nothing in it
 * may make markup or a link, call a person, refer to an issue or start a command ("/merge" at a line's start).
 */
function inline(text: string): string {
  return html(text)
    .replace(/[\\`*_[\]|~$]/g, "\\$&")
    .replace(/^(\s*)([-+#/=]|\d+[.)])/, `$1${NOTHING}$2`);
}

/** The same inside <summary>: whether Markdown is read there differs by forge, so its signs are written as entities. */
function summaryText(text: string): string {
  return html(text).replace(/[\\`*_[\]|~$]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** No HTML, and nothing that a forge turns into a link, a mention or a reference. */
function html(text: string): string {
  return text
    .replace(/[\r\n]+/g, " ")
    .replace(/([@#!%~&])(?=[\w"])/g, `$1${NOTHING}`)
    .replace(/:\/\//g, `:${NOTHING}//`)
    .replace(/\b(www)\./gi, `$1${NOTHING}.`)
    .replace(/[&<>]/g, (character) => HTML[character] ?? character);
}
