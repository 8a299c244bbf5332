/**
 * Review → the page `uplift diff` prints. Pure.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import { renderIssue } from "../../schemas/error.ts";
import { type RecipeReview, type Review, ReviewSection } from "../../schemas/review.ts";
import { grouped, type ReviewGroup } from "./groups.ts";
import { leadingChanges } from "./headline.ts";
import { andOf, countOf, printable, showDollarChange, showDollars, showPercentChange, someOf } from "./show.ts";

/** What a section is called. */
const SECTION_TITLES: Readonly<Record<ReviewSection, string>> = {
  training: "Training",
  data: "Data",
  evaluation: "Evaluation",
  infrastructure: "Infrastructure",
  cost: "Cost of a run, expected [low–high]",
  warnings: "Warnings",
  arithmetic: "What it rests on",
  rendered: "Rendered configuration and launch",
  other: "Other",
};

/** A section's lines, plain text. */
export interface Block {
  readonly title: string;
  /** Says why and how, behind what a reviewer decides by. */
  readonly behind?: boolean;
  readonly lines: readonly string[];
}

/** Sections that say why and how, behind what a reviewer decides by. */
const LAST: readonly ReviewSection[] = ["arithmetic", "rendered", "other"];

/** Everything there is to say of one recipe below its headline. */
export function blocksOf(review: RecipeReview): Block[] {
  const blockOf = (section: ReviewSection): Block => ({
    title: SECTION_TITLES[section],
    lines: review.lines.filter((line) => line.section === section).map(({ text }) => text),
  });
  const resumes = review.resumes.map(
    ({ stage, resumes, because }) =>
      `${stage === "sft" ? "SFT" : "RL"}: ${resumes ? "yes" : `no, other ${because.map(printable).join("; ")}`}`,
  );
  const changed = review.outcome === "changed";
  const refused = review.outcome === "no-longer-plans" || review.outcome === "does-not-plan";
  const blocks = [
    ...ReviewSection.options.filter((section) => !LAST.includes(section)).map(blockOf),
    { title: "Resumes old checkpoints", lines: changed ? resumes : [] },
    { title: "Comparability", lines: changed && review.comparability !== null ? [review.comparability.text] : [] },
    { title: "Does not fit", lines: refused ? [] : review.unfit },
    { title: "Why it does not plan", lines: review.issues.after.map((issue) => printable(renderIssue(issue))) },
    { title: "Why it did not plan before", lines: review.issues.before.map((issue) => printable(renderIssue(issue))) },
    ...LAST.map((section) => ({ ...blockOf(section), behind: true })),
  ];
  return blocks.filter(({ lines }) => lines.length > 0);
}

/** Recipes that a reader has to look at: of an unchanged plan, too, where there is something to say of it. */
export function recipesToRead({ recipes }: Review): RecipeReview[] {
  return recipes.filter(isToRead);
}

function isToRead({ outcome, lines }: RecipeReview): boolean {
  return outcome !== "unchanged" || lines.length > 0;
}

/** What a group's recipes share, in one line: "evaluation temperature 1 → 0.8 (by shared code: a.ts); rows of …". */
export function groupHeadline({ common }: ReviewGroup, { sharedFiles }: Review): string {
  const lead = leadingChanges(common.lines);
  const first = common.lines[0]?.text ?? "";
  const more = common.lines.length - 1;
  const what = lead.length > 0 ? lead.join(", ") : `${first}${more > 0 ? ` and ${countOf(more, "more change")}` : ""}`;
  const files = sharedFiles.length > 0 ? `: ${someOf(sharedFiles, 4)}` : "";
  const by = common.cause === "shared-code" ? ` (by shared code${files})` : "";
  const follows = common.consequences.length > 0 ? `: ${common.consequences.join(", ")}` : "";
  const { comparability } = common;
  const ranks = comparability !== null && !comparability.same ? [ofAll(comparability.text)] : [];
  return [`${what}${by}${follows}`, ...common.remarks, ...ranks].join("; ");
}

/** What one recipe of a group costs, and what it has beside the rest: "$3,418 a run, as before; also RL steps …". */
export function memberLine(own: RecipeReview): string {
  const also = [...leadingChanges(own.lines), ...own.consequences];
  const { comparability } = own;
  const ranks = comparability !== null && !comparability.same ? [comparability.text] : [];
  return [moneyOf(own), ...(also.length > 0 ? [`also ${also.join(", ")}`] : []), ...own.remarks, ...ranks].join("; ");
}

/** "$3,418 → $3,830 a run (+$412, +12.1%)". */
function moneyOf({ cost: { dollars } }: RecipeReview): string {
  const { before, after } = dollars;
  if (before === null || after === null)
    return after !== null ? `${showDollars(after)} a run, no price before` : "no price of a run";
  const change = showDollarChange(before, after);
  if (change === null) return `${showDollars(after)} a run, as before`;
  const by = [change, showPercentChange(before, after)].filter((part) => part !== "").join(", ");
  return `${showDollars(before)} → ${showDollars(after)} a run (${by})`;
}

/** What some recipes of a group have beside the rest, the same in each. */
interface OwnBlocks {
  readonly names: string[];
  /** Lines that changed, in each. */
  readonly count: number;
  readonly blocks: readonly Block[];
}

/** A group's blocks: of all its recipes, then of those that have more, together where it is the same. */
export function groupBlocks(group: ReviewGroup): { common: Block[]; own: OwnBlocks[] } {
  const common = blocksOf(group.common).map((block) => ({ ...block, lines: block.lines.map(ofAll) }));
  const own = new Map<string, OwnBlocks>();
  for (const review of group.own) {
    const blocks = blocksOf(review);
    if (blocks.length === 0) continue;
    const key = canonicalJson(blocks);
    const same = own.get(key) ?? { names: [], count: review.lines.length, blocks };
    same.names.push(review.recipe);
    own.set(key, same);
  }
  return { common, own: [...own.values()] };
}

function ofAll(text: string): string {
  return text.replace(/^rows of this recipe\b/, "rows of these recipes");
}

/** "1 of 6 recipes changed, +$412 (+12.1%) in all …, most a +$412 (+12.1%)"; "6 recipes: no plan changed". */
export function summaryOf(review: Review): string {
  const toRead = recipesToRead(review);
  if (review.recipes.length === 0) return "no recipes";
  if (toRead.length === 0)
    return unchangedOf(review)
      .map(({ count, what }) => `${count}${what}`)
      .join(", ");
  const changed = review.recipes.filter(({ outcome }) => outcome !== "unchanged").length;
  return `${changed} of ${countOf(review.recipes.length, "recipe")} changed${moneyInAll(review)}`;
}

/** The sum, and the recipe that changes most: a sum may hide it. */
function moneyInAll({ recipes }: Review): string {
  const priced = recipes.flatMap(({ recipe, cost: { dollars } }) =>
    dollars.before === null || dollars.after === null
      ? []
      : [
          {
            recipe,
            before: dollars.before,
            after: dollars.after,
            change: showDollarChange(dollars.before, dollars.after),
          },
        ],
  );
  const changed = priced.filter(({ change }) => change !== null);
  if (changed.length === 0) return "";
  const sum = (side: "before" | "after") => priced.reduce((total, one) => total + one[side], 0);
  const withPercent = (change: string | null, before: number, after: number) => {
    const percent = showPercentChange(before, after);
    return `${change ?? "no dollar more or less"}${change === null || ["", "+0%", "-0%"].includes(percent) ? "" : ` (${percent})`}`;
  };
  const total = withPercent(showDollarChange(sum("before"), sum("after")), sum("before"), sum("after"));
  if (priced.length === 1) return `, ${total} for a run`;
  const share = ({ before, after }: (typeof changed)[number]) => (before === 0 ? Infinity : after / before - 1);
  // By share: a rise before a fall of the same size.
  const [most] = [...changed].sort((a, b) => Math.abs(share(b)) - Math.abs(share(a)) || share(b) - share(a));
  const named = most === undefined ? "" : `, most ${most.recipe} ${withPercent(most.change, most.before, most.after)}`;
  return `, ${total} in all for a run of each that had a price${named}`;
}

/** Recipes there is nothing to read of: those with the same plan, and those refused as before. */
function unchangedOf({ recipes }: Review): { count: string; what: string; names: string[] }[] {
  const unchanged = recipes.filter((review) => !isToRead(review));
  const refused = unchanged.filter(({ issues }) => issues.after.length > 0);
  const same = unchanged.filter(({ issues }) => issues.after.length === 0);
  const codes = (review: RecipeReview) =>
    [...new Set(review.issues.after.map(({ code }) => printable(code)))].join(", ");
  const groups = [
    { of: same, what: ": no plan changed", names: same.map(({ recipe }) => recipe) },
    { of: refused, what: " refused as before", names: refused.map((one) => `${one.recipe}: ${codes(one)}`) },
  ];
  return groups
    .filter(({ of }) => of.length > 0)
    .map(({ of, what, names }) => ({ count: countOf(of.length, "recipe"), what, names }));
}

/** "3 recipes: no plan changed (a, b, c)"; none where every recipe is to be read, or the summary says all of it. */
export function unchangedLines(review: Review): string[] {
  const groups = unchangedOf(review);
  if (
    recipesToRead(review).length === 0 &&
    groups.length < 2 &&
    review.recipes.every(({ issues }) => issues.after.length === 0)
  )
    return [];
  return groups.map(({ count, what, names }) => `${count}${what} (${someOf(names, 12)})`);
}

/** What a reader should know of the comparison itself. */
export function remarksOf(review: Review): string[] {
  const { notes, sharedFiles } = review;
  // A group says so itself.
  const shared = grouped(recipesToRead(review)).flatMap((one) =>
    one.kind === "recipe" && one.review.cause === "shared-code" ? [one.review.recipe] : [],
  );
  const files = sharedFiles.length > 0 ? ` (${someOf(sharedFiles, 8)})` : "";
  return [...(shared.length > 0 ? [`changed by shared code${files}: ${someOf(shared, 12)}`] : []), ...notes].map(
    printable,
  );
}

/** How the recipes' code was kept apart, in one line; none where nothing ran. The JSON has every detail. */
export function isolationLines({ isolation }: Review): string[] {
  if (isolation === null) return [];
  const { how, network, secrets, files, reads, notIsolated } = isolation;
  const kept = [network ? "no network" : "", secrets ? "no secrets" : "", files ? "nothing written" : ""];
  const from = kept.filter((part) => part !== "").join(", ");
  // Kept from all three, what is left is what it reads and how much it takes; else every gap is named.
  const open =
    network && secrets && files
      ? `it can read ${andOf(reads)}, no limit on memory or processors`
      : notIsolated.join(", ");
  return [printable(`planned in ${how}: ${[from, open].filter((part) => part !== "").join("; ")}`)];
}

/** "does not pass cost>20%: github-rl, +$412 a run (+33.4%)"; what could not be looked at is said too. */
export function verdictOf({ verdict }: Review): string[] {
  if (verdict === null) return [];
  const lines = [
    ...judged(verdict.unchecked, (condition) => `${condition} could not be checked`),
    ...judged(verdict.failed, (condition) => `does not pass ${condition}`),
    ...(verdict.failed.length === 0 ? [`passes ${verdict.conditions.join(", ")}`] : []),
  ];
  return lines.map(printable);
}

/** Recipes that are judged alike, in one line. */
function judged(all: NonNullable<Review["verdict"]>["failed"], words: (condition: string) => string): string[] {
  const groups = new Map<string, { names: string[]; condition: string; text: string }>();
  for (const { recipe, condition, text } of all) {
    const key = canonicalJson([condition, text]);
    const group = groups.get(key) ?? { names: [], condition, text };
    if (recipe !== null) group.names.push(recipe);
    groups.set(key, group);
  }
  return [...groups.values()].map(({ names, condition, text }) => {
    const who = names.length > 1 ? `${countOf(names.length, "recipe")} (${someOf(names, 12)}), ` : "";
    return `${words(condition)}: ${names.length === 1 ? `${names[0]}, ` : who}${names.length > 1 ? ofAll(text) : text}`;
  });
}

/** Lines of a section that the page shows without being asked for more, where the section stands behind. */
const SHOWN_BEHIND = 3;

/** The page. What only explains is counted, and listed when `verbose`. */
export function renderReviewText(review: Review, { verbose = false } = {}): string {
  const lines = [`${review.before} → ${review.after} on ${review.target}: ${summaryOf(review)}`];
  const add = (blocks: readonly Block[], indent: string): void => {
    for (const { title, lines: inner, behind } of blocks) {
      if (behind && !verbose && inner.length > SHOWN_BEHIND)
        lines.push(`${indent}${title}: ${countOf(inner.length, "change")} (--verbose lists them)`);
      else lines.push(`${indent}${title}`, ...inner.map((line) => `${indent}  ${line}`));
    }
  };
  for (const one of grouped(recipesToRead(review))) {
    if (one.kind === "recipe") {
      lines.push("", titleOf(one.review), `  ${one.review.headline}`);
      add(blocksOf(one.review), "  ");
      continue;
    }
    const { common, own } = groupBlocks(one);
    lines.push("", `${countOf(one.recipes.length, "recipe")}: ${groupHeadline(one, review)}`);
    lines.push(...one.own.map((recipe) => `  ${titleOf(recipe)}: ${memberLine(recipe)}`));
    add(common, "  ");
    for (const { names, blocks } of own) {
      lines.push(`  ${names.join(", ")} also`);
      add(blocks, "    ");
    }
  }
  const unchanged = unchangedLines(review);
  if (unchanged.length > 0) lines.push("", ...unchanged);
  const remarks = [...remarksOf(review).map((remark) => `Note: ${remark}`), ...isolationLines(review)];
  if (remarks.length > 0) lines.push("", ...remarks);
  // Last, where a terminal's reader looks first.
  const verdict = verdictOf(review);
  if (verdict.length > 0) lines.push("", ...verdict);
  return `${lines.join("\n")}\n`;
}

function titleOf({ recipe, file }: RecipeReview): string {
  return `${recipe}${file === null ? "" : `  (${file})`}`;
}
