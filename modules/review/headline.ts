/**
 * What changed → one line: the leading change, its consequences in the order a reviewer asks for them, what it does to
 * tasks, checkpoints and comparability. Pure.
 */
import type { Plan } from "../../schemas/plan.ts";
import type { RecipeReview, ReviewLine, StageResume } from "../../schemas/review.ts";
import { LAID_OUT_STAGES, STAGE_LABELS, stageLayout } from "./infrastructure-rules.ts";
import type { Told } from "./rule.ts";
import { andOf, countOf, showContext, showDollarChange, showDollars, showNumber, showRounded } from "./show.ts";

/** Leading changes that are named; the others are counted. */
const LEADS = 3;

/** What a headline is made of. */
export interface HeadlineParts {
  readonly base: Plan;
  readonly head: Plan;
  readonly told: readonly Told[];
  /** "18 more tasks fit"; empty where none does or no longer does. */
  readonly tasks: string;
  readonly review: Pick<RecipeReview, "cause" | "comparability" | "resumes" | "warnings" | "unfit" | "lines">;
}

/** The line without the recipe's name, and what stands in it behind the leading change. */
export function headlineOf({
  base,
  head,
  told,
  tasks,
  review,
}: HeadlineParts): Pick<RecipeReview, "headline" | "consequences" | "remarks"> {
  const consequences = [
    lineText(told, "KV per sequence"),
    concurrency(told),
    ...LAID_OUT_STAGES.map((stage) => layoutChange(base, head, stage)),
  ].filter((part) => part !== null);
  const money = costChange(base, head);
  const follows = money === null ? consequences : [...consequences, money];
  const lead = leadOf(review, follows);
  const { comparability, warnings, resumes, unfit } = review;
  const showsResume = resumes.some((one) => !one.resumes) || review.lines.some(({ section }) => section === "training");
  const remarks = [
    tasks,
    unfit.length > 0 ? `does not fit: ${unfit.join(", ")}` : "",
    warnings.gained.length > 0 ? countOf(warnings.gained.length, "new warning") : "",
    resumes.length > 0 && showsResume ? resumeText(resumes) : "",
  ].filter((part) => part !== "");
  const first = follows.length === 0 ? lead : lead === "" ? follows.join(", ") : `${lead}: ${follows.join(", ")}`;
  const ranks = comparability !== null && !comparability.same ? comparability.text : "";
  const headline = [first, ...remarks, ranks].filter((part) => part !== "").join("; ");
  return { headline, consequences, remarks };
}

/** What lines are led by: all that makes rows incomparable, then what else was chosen; empty where nobody chose. */
export function leadingChanges(lines: readonly ReviewLine[]): string[] {
  const measured = lines.filter(({ role }) => role === "measurement");
  const chosen = lines.filter(({ role }) => role === "setting");
  const room = Math.max(1, LEADS - measured.length);
  const more = chosen.length > room ? [countOf(chosen.length - room, "more setting")] : [];
  return [...[...measured, ...chosen.slice(0, room)].map(({ text }) => text), ...more];
}

/** "resumes old checkpoints: no"; where stages differ, "SFT yes, RL no". */
export function resumeText(resumes: readonly StageResume[]): string {
  const word = (resumes: boolean) => (resumes ? "yes" : "no");
  const alike = resumes.every((one) => one.resumes === resumes[0]?.resumes);
  const answer = alike
    ? word(resumes[0]?.resumes ?? true)
    : resumes.map((one) => `${STAGE_LABELS[one.stage]} ${word(one.resumes)}`).join(", ");
  return `resumes old checkpoints: ${answer}`;
}

/** "SFT, then RL of Qwen/Qwen3.8-27B, context 128k, SFT 2 nodes, RL 4 nodes, $1,234 a run": a plan in one line. */
export function planInOneLine(plan: Plan): string {
  const stages = plan.recipe.kind === "rl" ? "RL only" : "SFT, then RL";
  const nodes = (["sft", "rl"] as const).flatMap((stage) => {
    const layout = stageLayout(plan, stage)?.layout;
    return layout === undefined ? [] : [`${STAGE_LABELS[stage]} ${countOf(layout.nodes, "node")}`];
  });
  const { cost } = plan.estimate;
  return [
    `${stages} of ${plan.baseModel.name}`,
    `context ${showContext(plan.contextTokens)}`,
    ...nodes,
    ...(cost === null ? [] : [`${showDollars(cost.dollars.expected)} a run`]),
  ].join(", ");
}

function leadOf(review: HeadlineParts["review"], consequences: readonly string[]): string {
  const by = review.cause === "shared-code" ? "by shared code, " : "";
  const shown = leadingChanges(review.lines);
  // What no line tells of the measurement (the harness) leads by its name.
  const untold = review.comparability?.same === false && !review.lines.some(({ role }) => role === "measurement");
  if (shown.length > 0 && untold) shown.unshift(`${andOf(review.comparability?.changed ?? [])} changed`);
  if (shown.length > 0) return `${by}${shown.join(", ")}`;
  // Nobody chose anything: what shared code does to the plan is the news, and the consequences say it if they can.
  if (consequences.length > 0) return by === "" ? "" : "by shared code";
  const [first] = review.lines;
  if (first === undefined) return "";
  const more = review.lines.length - 1;
  return `${by}${first.text}${more > 0 ? ` and ${countOf(more, "more change")}` : ""}`;
}

function lineText(told: readonly Told[], subject: string): string | null {
  const line = told.find((one) => one.line.subject === subject)?.line;
  return line === undefined || line.before === null || line.after === null ? null : line.text;
}

/** Of the endpoints, else of the rollouts. */
function concurrency(told: readonly Told[]): string | null {
  const line = told.find(({ line }) => line.subject.endsWith("concurrent sequences a node"))?.line;
  const serving = told.find(({ line }) => line.subject === "concurrent sequences a node")?.line ?? line;
  if (serving === undefined || serving.before === null || serving.after === null) return null;
  return `${serving.before} → ${serving.after} ${serving.subject}`;
}

/** "SFT context parallel 8 → 16 (2 → 4 nodes)". */
function layoutChange(before: Plan, after: Plan, stage: (typeof LAID_OUT_STAGES)[number]): string | null {
  const [old, now] = [stageLayout(before, stage), stageLayout(after, stage)];
  if (old === null || now === null) return null;
  const nodes = old.layout.nodes === now.layout.nodes ? null : `${old.layout.nodes} → ${now.layout.nodes} nodes`;
  const fit = old.fit.confidence === now.fit.confidence ? null : `fit ${old.fit.confidence} → ${now.fit.confidence}`;
  const degrees =
    old.layout.kind === "serving" || now.layout.kind === "serving"
      ? []
      : (["tensor", "context", "pipeline"] as const).flatMap((kind) => {
          const [from, to] = [old.layout, now.layout].map((layout) =>
            layout.kind === "serving" ? 0 : layout.train[`${kind}Parallel`],
          );
          return from === to ? [] : [`${kind} parallel ${from} → ${to}`];
        });
  const label = STAGE_LABELS[stage];
  if (degrees.length === 0) {
    const rest = [nodes, fit].filter((part) => part !== null);
    return rest.length === 0 ? null : `${label} ${rest.join(", ")}`;
  }
  const behind = [nodes, fit].filter((part) => part !== null);
  return `${label} ${degrees.join(" and ")}${behind.length > 0 ? ` (${behind.join(", ")})` : ""}`;
}

/** "+$412 a run"; GPU-hours where nothing has a price. */
function costChange(before: Plan, after: Plan): string | null {
  const [old, now] = [before.estimate.cost, after.estimate.cost];
  if (old === null || now === null) return null;
  const dollars = showDollarChange(old.dollars.expected, now.dollars.expected);
  if (dollars !== null) return `${dollars} a run`;
  const hours = now.gpuHours.expected - old.gpuHours.expected;
  const shown = showRounded(Math.abs(hours));
  return shown === showNumber(0) ? null : `${hours > 0 ? "+" : "-"}${shown} GPU-hours a run`;
}
