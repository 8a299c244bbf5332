/**
 * Rule: one thing a reviewer wants to be told of two plans, and the fields of the plan it tells. Pure.
 * A rule tells a field only where its own words change with it: what is lost in rounding is listed as it is.
 */
import type { Plan } from "../../schemas/plan.ts";
import type { ReviewLine, ReviewSection } from "../../schemas/review.ts";
import { type LeafChange, matchesPath, valueAt } from "./leaf-changes.ts";
import { printable, showArrow, showDifference, showValue } from "./show.ts";

/** What a reviewer is told. */
export interface Rule {
  readonly section: ReviewSection;
  readonly subject: string;
  /** Patterns of the fields it tells (leaf-changes.ts); none for what is worked out from fields that others tell. */
  readonly paths: readonly string[];
  /** The words; null where the plan has no such thing. */
  tell(plan: Plan): string | null;
  /** The words of both sides, a line each, where what one says depends on the other; else `tell` of each. */
  tellEach?(base: Plan, head: Plan): readonly Words[];
  /** Said behind the change, e.g. "+$412, +33.4%". */
  note?(before: Plan, after: Plan): string;
  /** Chosen by somebody who edits a recipe or a target, not a consequence: such a change leads the headline. */
  readonly chosen?: boolean;
}

/** What the two sides say. */
type Words = readonly [before: string | null, after: string | null];

/** A rule of one field. */
export function field(
  section: ReviewSection,
  subject: string,
  path: string,
  show: (value: never) => string = showValue,
): Rule {
  const tell = (plan: Plan): string | null => {
    const value = valueAt(plan, path);
    return value === undefined || value === null ? null : show(value as never);
  };
  return { section, subject, paths: [path], tell, chosen: path.startsWith("recipe.") || path.startsWith("target.") };
}

/** A rule of a list of texts: a line for each sentence that changed, beside the one it takes the place of. */
export function sentences(section: ReviewSection, subject: string, path: string): Rule {
  const at = (plan: Plan) => (valueAt(plan, path) as readonly string[] | undefined) ?? [];
  const tell = (plan: Plan): string | null => (at(plan).length === 0 ? null : at(plan).map(ended).join(" "));
  const tellEach = (base: Plan, head: Plan): readonly Words[] => {
    const [old, now] = [base, head].map((plan) => at(plan).flatMap(sentencesOf));
    if (old === undefined || now === undefined) return [];
    const gone = old.filter((one) => !now.includes(one));
    const added = now.filter((one) => !old.includes(one));
    // The same sentences in another order, or one of them twice: all of them, to see it.
    return gone.length + added.length === 0 ? [[tell(base), tell(head)]] : paired(gone, added);
  };
  return { section, subject, paths: [path], tell, tellEach };
}

function sentencesOf(text: string): string[] {
  return ended(text).split(/(?<=[.!?])\s+(?=\p{Lu})/u);
}

/** Each sentence with the one that says the same of other numbers, else with one that begins alike; the rest alone. */
function paired(gone: readonly string[], added: readonly string[]): Words[] {
  const open = [...added];
  const partnerOf = (sentence: string): string | null => {
    const found =
      open.find((one) => withoutNumbers(one) === withoutNumbers(sentence)) ??
      open.find((one) => firstWord(one) === firstWord(sentence));
    if (found !== undefined) open.splice(open.indexOf(found), 1);
    return found ?? null;
  };
  const pairs = gone.map((sentence): Words => [sentence, partnerOf(sentence)]);
  return [...pairs, ...open.map((sentence): Words => [null, sentence])];
}

function withoutNumbers(sentence: string): string {
  return sentence.replace(/[\d.,]+/g, "0");
}

function firstWord(sentence: string): string {
  return withoutNumbers(sentence).split(" ", 1).join("");
}

function ended(sentence: string): string {
  return /[.!?;:]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** A change that a rule tells. */
export interface Told {
  readonly rule: Rule;
  readonly line: ReviewLine;
}

/** What the rules tell of two plans; a rule whose words stay the same tells nothing. */
export function applyRules(rules: readonly Rule[], before: Plan, after: Plan, changes: readonly LeafChange[]): Told[] {
  return rules.flatMap((rule) => {
    const matched = changes.filter(({ segments }) => rule.paths.some((pattern) => matchesPath(segments, pattern)));
    if (rule.paths.length > 0 && matched.length === 0) return [];
    const note = rule.note?.(before, after) ?? "";
    const paths = matched.map(({ path }) => path);
    const lines = rule.tellEach?.(before, after) ?? [[rule.tell(before), rule.tell(after)] as const];
    return lines.flatMap((words) => {
      const [old, now] = words.map((text) => (text === null ? null : printable(text)));
      if (old === undefined || now === undefined || old === now) return [];
      return [{ rule, line: lineOf(rule, old, now, note, paths) }];
    });
  });
}

/** "context 128k → 256k", "KL penalty: 0.01 (new)", "RoPE: yarn × 2 (gone)". */
function lineOf(
  { section, subject, chosen }: Rule,
  before: string | null,
  after: string | null,
  note: string,
  paths: string[],
): ReviewLine {
  const [old, now] =
    section === "arithmetic" ? showDifference(before ?? "", after ?? "") : ([before ?? "", after ?? ""] as const);
  const change = before === null ? `: ${now} (new)` : after === null ? `: ${old} (gone)` : ` ${showArrow(old, now)}`;
  const text = `${subject}${change}${note === "" ? "" : ` (${note})`}`;
  return { section, role: chosen === true ? "setting" : "consequence", subject, before, after, text, paths };
}
