/**
 * Review → the page `uplift diff` prints. Pure.
 */
import { renderIssue } from "../../schemas/error.ts";
import { type RecipeReview, type Review, ReviewSection } from "../../schemas/review.ts";
import { countOf, printable, showDollarChange, showPercentChange, someOf } from "./show.ts";

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
interface Block {
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

/** Recipes that a reader has to look at. */
export function recipesToRead({ recipes }: Review): RecipeReview[] {
  return recipes.filter(({ outcome }) => outcome !== "unchanged");
}

/** "1 of 6 recipes changed, +$412 (+12.1%) for a run of each …"; "6 recipes: no plan changed". */
export function summaryOf(review: Review): string {
  const toRead = recipesToRead(review);
  if (review.recipes.length === 0) return "no recipes";
  if (toRead.length === 0)
    return unchangedOf(review)
      .map(({ count, what }) => `${count}${what}`)
      .join(", ");
  const priced = review.recipes.filter(({ cost: { dollars } }) => dollars.before !== null && dollars.after !== null);
  const sum = (side: "before" | "after") => priced.reduce((total, { cost }) => total + (cost.dollars[side] ?? 0), 0);
  const [before, after] = [sum("before"), sum("after")];
  const change = showDollarChange(before, after);
  const percent = showPercentChange(before, after);
  const money =
    change === null ? "" : `, ${change}${percent === "" ? "" : ` (${percent})`} for a run of each that had a plan`;
  return `${toRead.length} of ${countOf(review.recipes.length, "recipe")} changed${money}`;
}

/** Recipes there is nothing to read of: those with the same plan, and those refused as before. */
function unchangedOf({ recipes }: Review): { count: string; what: string; names: string[] }[] {
  const unchanged = recipes.filter(({ outcome }) => outcome === "unchanged");
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
export function remarksOf({ notes, sharedFiles, recipes, isolation }: Review): string[] {
  const shared = recipes.filter(({ cause }) => cause === "shared-code").map(({ recipe }) => recipe);
  const files = sharedFiles.length > 0 ? ` (${someOf(sharedFiles, 8)})` : "";
  return [
    ...(shared.length > 0 ? [`changed by shared code${files}: ${someOf(shared, 12)}`] : []),
    ...notes,
    ...(isolation === null ? [] : isolationText(isolation)),
  ].map(printable);
}

function isolationText({ how, notIsolated }: NonNullable<Review["isolation"]>): string[] {
  return [`recipes were run apart: ${how}`, ...notIsolated.map((what) => `not isolated: ${what}`)];
}

/** "does not pass cost>20%: github-rl, +$412 a run (+33.4%)"; what could not be looked at is said too. */
export function verdictOf({ verdict }: Review): string[] {
  if (verdict === null) return [];
  return [
    ...verdict.failed.map(({ recipe, condition, text }) => `does not pass ${condition}: ${recipe}, ${text}`),
    ...verdict.unchecked.map(({ recipe, condition, text }) => `${condition} could not be checked: ${recipe}, ${text}`),
  ].map(printable);
}

/** Lines of a section that the page shows without being asked for more, where the section stands behind. */
const SHOWN_BEHIND = 3;

/** The page. What only explains is counted, and listed when `verbose`. */
export function renderReviewText(review: Review, { verbose = false } = {}): string {
  const lines = [`${review.before} → ${review.after} on ${review.target}: ${summaryOf(review)}`];
  for (const recipe of recipesToRead(review)) {
    lines.push("", `${recipe.recipe}${recipe.file === null ? "" : `  (${recipe.file})`}`, `  ${recipe.headline}`);
    for (const { title, lines: inner, behind } of blocksOf(recipe)) {
      if (behind && !verbose && inner.length > SHOWN_BEHIND)
        lines.push(`  ${title}: ${countOf(inner.length, "change")} (--verbose lists them)`);
      else lines.push(`  ${title}`, ...inner.map((line) => `    ${line}`));
    }
  }
  const unchanged = unchangedLines(review);
  if (unchanged.length > 0) lines.push("", ...unchanged);
  const verdict = verdictOf(review);
  if (verdict.length > 0) lines.push("", ...verdict);
  const remarks = remarksOf(review);
  if (remarks.length > 0) lines.push("", ...remarks.map((remark) => `Note: ${remark}`));
  return `${lines.join("\n")}\n`;
}
