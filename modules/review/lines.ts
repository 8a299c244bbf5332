/**
 * What changed of a plan's lists (jobs, tasks that do not fit, warnings), and what no sentence tells → lines of a
 * review. Pure.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { Plan, Warning } from "../../schemas/plan.ts";
import { type ReviewLine, ReviewSection } from "../../schemas/review.ts";
import { type LeafChange, matchesPath } from "./leaf-changes.ts";
import { countOf, printable, showNumber, showValue, someOf } from "./show.ts";

/** Where a field that no sentence tells belongs. */
const PLACES: readonly (readonly [string, ReviewSection])[] = [
  ["jobs.*.config.**", "rendered"],
  ["jobs.*.launch.**", "rendered"],
  ["recipe.tasks.**", "data"],
  ["recipe.expert.**", "data"],
  ["taskSet.**", "data"],
  ["recipe.evaluation.**", "evaluation"],
  ["serving.**", "evaluation"],
  ["recipe.sft.**", "training"],
  ["recipe.rl.**", "training"],
  ["target.**", "infrastructure"],
  ["layouts.**", "infrastructure"],
  ["estimate.cost.**", "cost"],
  ["warnings.**", "warnings"],
];

/** A change that no sentence tells: "path old → new". */
export function listedLine({ segments, path, before, after }: LeafChange): ReviewLine {
  const section = PLACES.find(([pattern]) => matchesPath(segments, pattern))?.[1] ?? "other";
  const [old, now] = [showValue(before), showValue(after)];
  const subject = printable(path);
  const text = `${subject} ${old} → ${now}`;
  return { section, role: "consequence", subject, before: old, after: now, text, paths: [path] };
}

/** Jobs that are new or gone, each with all of its fields. */
export function jobLine(base: Plan, head: Plan): ReviewLine | null {
  const { gone, added } = membersMoved(base.jobs, head.jobs);
  if (gone.length + added.length === 0) return null;
  const parts = [
    added.length > 0 ? `new: ${someOf(added, 12)}` : "",
    gone.length > 0 ? `gone: ${someOf(gone, 12)}` : "",
  ];
  return {
    ...{ section: "training", role: "consequence" },
    subject: "jobs",
    before: gone.length > 0 ? gone.join(", ") : null,
    after: added.length > 0 ? added.join(", ") : null,
    text: `jobs ${parts.filter((part) => part !== "").join("; ")}`,
    paths: [...added, ...gone].map((id) => `jobs.${id}`),
  };
}

/** "18 more tasks fit", "2 tasks no longer fit, 1 of them held out (a, b)". */
export function tooLongLine(base: Plan, head: Plan): ReviewLine | null {
  const [old, now] = [base.taskSet.tooLong, head.taskSet.tooLong];
  const { gone, added } = membersMoved(old, now);
  if (gone.length + added.length === 0) return null;
  return {
    ...{ section: "data", role: "consequence" },
    subject: "tasks that do not fit the context",
    before: gone.length > 0 ? someOf(gone, 5) : null,
    after: added.length > 0 ? someOf(added, 5) : null,
    text:
      base.taskSet.digest === head.taskSet.digest
        ? fitChange(gone, added, now)
        : `tasks that do not fit the context ${showNumber(old.length)} → ${showNumber(now.length)}`,
    // A list that became empty, or is no longer, is a leaf of its own.
    paths: [
      ...(old.length * now.length === 0 ? ["taskSet.tooLong"] : []),
      ...[...gone, ...added].map((id) => `taskSet.tooLong.${id}`),
    ],
  };
}

function fitChange(fit: readonly string[], noLonger: readonly string[], now: Plan["taskSet"]["tooLong"]): string {
  const lost = new Set(noLonger);
  const heldOut = now.filter(({ id, split }) => split === "held-out" && lost.has(id)).length;
  const parts = [
    fit.length > 0 ? `${showNumber(fit.length)} more ${fit.length === 1 ? "task fits" : "tasks fit"}` : "",
    noLonger.length > 0
      ? `${countOf(noLonger.length, "task")} no longer ${noLonger.length === 1 ? "fits" : "fit"}, ${showNumber(heldOut)} of them held out (${someOf(noLonger, 5)})`
      : "",
  ];
  return parts.filter((part) => part !== "").join(", ");
}

function membersMoved(
  old: readonly { id: string }[],
  now: readonly { id: string }[],
): { gone: string[]; added: string[] } {
  const [before, after] = [new Set(old.map(({ id }) => id)), new Set(now.map(({ id }) => id))];
  return { gone: [...before].filter((id) => !after.has(id)), added: [...after].filter((id) => !before.has(id)) };
}

/** What became of a plan's warnings; one of the same code and place that says something else is neither new nor gone. */
export interface WarningChange {
  readonly gained: Warning[];
  readonly lost: Warning[];
  readonly reworded: readonly { readonly before: Warning; readonly after: Warning }[];
}

/** Compares two plans' warnings. */
export function warningChange(base: Plan, head: Plan): WarningChange {
  const without = (from: readonly Warning[], others: readonly Warning[]) => {
    const known = new Set(others.map((one) => canonicalJson(one)));
    return from.filter((one) => !known.has(canonicalJson(one)));
  };
  const gained = without(head.warnings, base.warnings);
  const lost = without(base.warnings, head.warnings);
  const reworded: { before: Warning; after: Warning }[] = [];
  for (const after of [...gained]) {
    const before = lost.find((one) => one.code === after.code && one.path === after.path);
    if (before === undefined) continue;
    reworded.push({ before, after });
    gained.splice(gained.indexOf(after), 1);
    lost.splice(lost.indexOf(before), 1);
  }
  return { gained, lost, reworded };
}

/** A line for each of them. */
export function warningLines({ gained, lost, reworded }: WarningChange): ReviewLine[] {
  const textOf = (one: Warning): string => printable(`${one.path}: ${one.message}. To do: ${one.todo}. [${one.code}]`);
  const line = (before: Warning | null, after: Warning | null): ReviewLine => {
    const [old, now] = [before, after].map((one) => (one === null ? null : textOf(one)));
    const text = old == null ? `new: ${now}` : now == null ? `no longer: ${old}` : `now: ${now}; it was: ${old}`;
    const subject = printable((after ?? before)?.code ?? "");
    const sides = { before: old ?? null, after: now ?? null };
    return { section: "warnings", role: "consequence", subject, ...sides, text, paths: ["warnings"] };
  };
  return [
    ...gained.map((one) => line(null, one)),
    ...lost.map((one) => line(one, null)),
    ...reworded.map(({ before, after }) => line(before, after)),
  ];
}

/** Lines in the order of reading. */
export function inSections(lines: readonly ReviewLine[]): ReviewLine[] {
  return ReviewSection.options.flatMap((section) => lines.filter((line) => line.section === section));
}
