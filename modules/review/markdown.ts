/**
 * Review → a comment for a pull request. Pure. A forge cuts or refuses what is too long, and the summary is what a
 * reviewer must not lose (pulumi/actions#26, #1387): it comes first and is always whole; details are folded, and where
 * they do not fit the largest are left out, which the comment says.
 */
import type { Review } from "../../schemas/review.ts";
import { grouped, type ToRead } from "./groups.ts";
import { countOf, someOf } from "./show.ts";
import {
  type Block,
  blocksOf,
  groupBlocks,
  groupHeadline,
  isolationLines,
  memberLine,
  recipesToRead,
  remarksOf,
  summaryOf,
  unchangedLines,
  verdictOf,
} from "./text.ts";

/** First line of the comment: who updates it finds it by this. */
export const REVIEW_MARKER = "<!-- uplift-review -->";

/** What the forges take, characters. */
export const COMMENT_CHARACTERS = { github: 65_536, gitlab: 1_000_000 } as const;

/** Longest text in the title, characters before escaping, which may make six of one. */
const LONGEST_TITLE = 200;
const LONGEST_SIDE = 40;
/** Longest headline in the list of recipes, characters before escaping. */
const LONGEST_HEADLINE = 600;
/** Room for the sentence that says what was left out. */
const LEFT_OUT_CHARACTERS = 1400;
/** Fewer cannot hold a summary: a title of escapes alone, a third for recipes, a tenth each for verdict and notes. */
export const LEAST_CHARACTERS = 10_000;

/** The comment, never longer than `maxCharacters` (at least 10,000). */
export function renderReviewMarkdown(review: Review, options: { readonly maxCharacters: number }): string {
  const most = Math.max(LEAST_CHARACTERS, options.maxCharacters);
  const toRead = grouped(recipesToRead(review));
  const sides = [review.before, review.after, review.target].map((name) => inline(cut(name, LONGEST_SIDE)));
  const title = `${REVIEW_MARKER}\n## Uplift: ${inline(cut(summaryOf(review), LONGEST_TITLE))}\n\n${sides[0]} → ${sides[1]} on ${sides[2]}\n`;
  const verdict = within(
    verdictOf(review).map((line) => `- ${inline(cut(line))}\n`),
    most / 10,
  );
  const summary = within(
    toRead.flatMap((one) => summaryLines(one, review)),
    most / 3,
  );
  const remarks = [...unchangedLines(review), ...remarksOf(review), ...isolationLines(review)];
  const foot = fold(
    "Notes on this comparison",
    within(
      remarks.map((remark) => `- ${inline(cut(remark))}\n`),
      most / 10,
    ),
  );
  const head = [title, verdict, summary].filter((part) => part !== "").join("\n");
  const { details, leftOut } = withinBudget(
    toRead.flatMap(detailsOf),
    most - head.length - foot.length - LEFT_OUT_CHARACTERS,
  );
  const missing = leftOut.length === 0 ? "" : `\n${leftOutText(leftOut)}\n`;
  return `${head}${details.join("")}${missing}${foot}`;
}

interface Details {
  readonly recipe: string;
  readonly text: string;
}

/** A recipe's line; a group's, and below it one for each of its recipes. */
function summaryLines(one: ToRead, review: Review): string[] {
  if (one.kind === "recipe") return [`- **${inline(one.review.recipe)}**: ${inline(cut(one.review.headline))}\n`];
  return [
    `- **${inline(countOf(one.recipes.length, "recipe"))}**: ${inline(cut(groupHeadline(one, review)))}\n`,
    ...one.own.map((own) => `  - **${inline(own.recipe)}**: ${inline(cut(memberLine(own)))}\n`),
  ];
}

/** A recipe's details; a group's, and those that some of its recipes have beside them, each to be left out alone. */
function detailsOf(one: ToRead): Details[] {
  if (one.kind === "recipe") {
    const { review } = one;
    const name = `${review.recipe}${review.file === null ? "" : ` (${review.file})`}`;
    return [{ recipe: review.recipe, text: fold(titled(name, review.lines.length), blocksText(blocksOf(review))) }];
  }
  const { common, own } = groupBlocks(one);
  const all = `${countOf(one.recipes.length, "recipe")} (${namesOf(one.recipes.map(({ recipe }) => recipe))})`;
  return [
    { recipe: all, text: fold(titled(all, one.common.lines.length), blocksText(common)) },
    ...own.map(({ names, count, blocks }) => {
      const also = `${namesOf(names)} also`;
      return { recipe: namesOf(names), text: fold(titled(also, count), blocksText(blocks)) };
    }),
  ];
}

function namesOf(names: readonly string[]): string {
  return someOf(names, 12);
}

function titled(name: string, changes: number): string {
  return changes > 0 ? `${name}: ${countOf(changes, "change")}` : name;
}

function blocksText(blocks: readonly Block[]): string {
  return blocks
    .map(({ title, lines }) => `**${inline(title)}**\n\n${lines.map((line) => `- ${inline(line)}\n`).join("")}\n`)
    .join("");
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
  const names = leftOut.slice(0, 3).map(({ recipe }) => inline(cut(recipe, LONGEST_SIDE)));
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
