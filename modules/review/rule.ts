/**
 * Rule: one thing a reviewer wants to be told of two plans, and the fields of the plan it tells. Pure.
 * A rule tells a field only where its own words change with it: what is lost in rounding is listed as it is.
 */
import type { Plan } from "../../schemas/plan.ts";
import type { ReviewLine, ReviewSection } from "../../schemas/review.ts";
import { type LeafChange, matchesPath, valueAt } from "./leaf-changes.ts";
import { printable, showArrow, showValue } from "./show.ts";

/** What a reviewer is told. */
export interface Rule {
  readonly section: ReviewSection;
  readonly subject: string;
  /** Patterns of the fields it tells (leaf-changes.ts); none for what is worked out from fields that others tell. */
  readonly paths: readonly string[];
  /** The words; null where the plan has no such thing. */
  tell(plan: Plan): string | null;
  /** The words for both sides, where what one says depends on the other; else `tell` of each. */
  tellBoth?(base: Plan, head: Plan): readonly [string | null, string | null];
  /** Said behind the change, e.g. "+$412, +33.4%". */
  note?(before: Plan, after: Plan): string;
  /** Chosen by somebody who edits a recipe or a target, not a consequence: such a change leads the headline. */
  readonly chosen?: boolean;
}

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

/** A rule of a list of sentences: those that both sides have are left out. */
export function sentences(section: ReviewSection, subject: string, path: string): Rule {
  const at = (plan: Plan) => (valueAt(plan, path) as readonly string[] | undefined) ?? [];
  const tell = (plan: Plan): string | null => (at(plan).length === 0 ? null : at(plan).map(ended).join(" "));
  const tellBoth = (base: Plan, head: Plan) => {
    const [old, now] = [at(base), at(head)];
    const own = [old.filter((one) => !now.includes(one)), now.filter((one) => !old.includes(one))] as const;
    // The same sentences in another order, or one of them twice: all of them, to see it.
    if (own[0].length + own[1].length === 0) return [tell(base), tell(head)] as const;
    const words = (some: readonly string[]) => (some.length === 0 ? null : some.map(ended).join(" "));
    return [words(own[0]), words(own[1])] as const;
  };
  return { section, subject, paths: [path], tell, tellBoth };
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
    const words = rule.tellBoth?.(before, after) ?? [rule.tell(before), rule.tell(after)];
    const [old, now] = words.map((text) => (text === null ? null : printable(text)));
    if (old === undefined || now === undefined || old === now) return [];
    const note = rule.note?.(before, after) ?? "";
    return [
      {
        rule,
        line: lineOf(
          rule,
          old,
          now,
          note,
          matched.map(({ path }) => path),
        ),
      },
    ];
  });
}

/** "context 128k → 256k", "KL penalty: 0.01 (new)", "RoPE: yarn × 2 (gone)". */
function lineOf(
  { section, subject }: Rule,
  before: string | null,
  after: string | null,
  note: string,
  paths: string[],
): ReviewLine {
  const change =
    before === null ? `: ${after} (new)` : after === null ? `: ${before} (gone)` : ` ${showArrow(before, after)}`;
  return { section, subject, before, after, text: `${subject}${change}${note === "" ? "" : ` (${note})`}`, paths };
}
