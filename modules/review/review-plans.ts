/**
 * Two sides of one recipe → what the change means. Pure. Nothing that differs between two plans is left out: what no
 * sentence tells is listed as "path old → new".
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { Issue } from "../../schemas/error.ts";
import { Plan } from "../../schemas/plan.ts";
import type { LeaderboardFacts, RecipeReview, ReviewLine } from "../../schemas/review.ts";
import { compareMeasurement, measuredPaths, rowsLike } from "./comparability.ts";
import { costRules } from "./cost-rules.ts";
import { dataRules, evaluationRules } from "./data-rules.ts";
import { headlineOf, planInOneLine } from "./headline.ts";
import { infrastructureRules, LAID_OUT_STAGES, STAGE_LABELS, stageLayout } from "./infrastructure-rules.ts";
import { isBelow, type LeafChange, leafChanges, matchesPath, valueAt } from "./leaf-changes.ts";
import { inSections, jobLine, listedLine, tooLongLine, warningChange, warningLines } from "./lines.ts";
import { repeatedPath } from "./repeats.ts";
import { stageResumes } from "./resume.ts";
import { applyRules, type Told } from "./rule.ts";
import { countOf, printable, showRounded, someOf } from "./show.ts";
import { trainingRules } from "./training-rules.ts";

/** What one side has of a recipe. */
export type Side =
  | { readonly kind: "plan"; readonly plan: Plan }
  /** A plan of another version of Uplift, which this one does not know: compared field by field. */
  | { readonly kind: "foreign"; readonly plan: unknown; readonly why: string }
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly issues: readonly Issue[] };

/** One recipe before and after. */
export interface ReviewInputs {
  readonly base: Side;
  readonly head: Side;
  /** The recipe's file in the project, and whether its own bytes are the same on both sides. */
  readonly file?: { readonly path: string; readonly sameBytes: boolean };
  /** The leaderboard, to say how many of its rows this concerns. */
  readonly rows?: LeaderboardFacts;
}

/** A plan that was read → a side of this version, or of another. */
export function sideOf(json: unknown): Side {
  const parsed = Plan.safeParse(json);
  if (parsed.success) return { kind: "plan", plan: parsed.data };
  const [first] = parsed.error.issues;
  const where = first?.path.map(String).join(".") || "(the plan)";
  return { kind: "foreign", plan: json, why: `${where}: ${first?.message ?? "another shape"}` };
}

/** What the change means. */
export function reviewPlans(inputs: ReviewInputs): RecipeReview {
  const { base, head } = inputs;
  if (base.kind === "plan" && head.kind === "plan") return bothPlan(inputs, base.plan, head.plan);
  if (isPlanned(base) && isPlanned(head)) return foreign(inputs, base, head);
  return oneSided(inputs);
}

/** What is in every review. */
function blank({ base, head, file }: ReviewInputs): RecipeReview {
  const plan = (side: Side) => (side.kind === "plan" ? side.plan : null);
  const cost = (side: Side, what: "dollars" | "gpuHours") => plan(side)?.estimate.cost?.[what].expected ?? null;
  const issues = (side: Side) => (side.kind === "refused" ? [...side.issues] : []);
  const digest = (side: Side) => (isPlanned(side) ? digestIn(side.plan) : null);
  return {
    recipe: printable(nameIn(head) ?? nameIn(base) ?? nameOfFile(file?.path ?? "recipe")),
    file: file?.path ?? null,
    outcome: "unchanged",
    cause: null,
    headline: "no change of the plan",
    ...{ consequences: [], remarks: [] },
    lines: [],
    comparability: null,
    resumes: [],
    cost: {
      dollars: { before: cost(base, "dollars"), after: cost(head, "dollars") },
      gpuHours: { before: cost(base, "gpuHours"), after: cost(head, "gpuHours") },
    },
    warnings: { gained: [], lost: [] },
    unfit: head.kind === "refused" ? [`it does not plan (${countOf(head.issues.length, "mistake")})`] : [],
    issues: { before: issues(base), after: issues(head) },
    digests: { before: digest(base), after: digest(head) },
  };
}

function bothPlan(inputs: ReviewInputs, base: Plan, head: Plan): RecipeReview {
  const all = leafChanges(base, head);
  const comparability = compareMeasurement(base, head, inputs.rows);
  const review = blank(inputs);
  if (all.length === 0) return { ...review, comparability, unfit: unfitStages(head) };
  // A digest follows from the rest; alone it is a plan that was tampered with, and is listed.
  const changes = all.length > 1 ? all.filter(({ path }) => path !== "digest") : all;

  const jobs = jobLine(base, head);
  const tooLong = tooLongLine(base, head);
  const warnings = warningChange(base, head);
  const ofLists = [jobs, tooLong, ...warningLines(warnings)].filter((line) => line !== null);
  // The measurement key is told by the sentence on comparability.
  const listPaths = ["measurementKey", ...ofLists.flatMap(({ paths }) => paths)];
  const open = changes.filter(({ segments }) => !listPaths.some((path) => isBelow(segments, path)));
  const told = tell(base, head, open);
  const taken = new Set(told.flatMap(({ line }) => line.paths));
  const listed = open.filter(({ path }) => !taken.has(path)).map(listedLine);
  const lines = withMeasurement([...told.map(({ line }) => line), ...ofLists, ...listed], comparability.changed);
  const done: RecipeReview = {
    ...review,
    outcome: "changed",
    cause: causeOf(inputs),
    lines: inSections(lines),
    comparability,
    resumes: stageResumes(base, head, changes),
    warnings: { gained: warnings.gained, lost: warnings.lost },
    unfit: unfitStages(head),
  };
  return { ...done, ...headlineOf({ base, head, told, tasks: tooLong?.text ?? "", review: done }) };
}

/** The lines with those marked that make rows incomparable: what somebody chose, else what follows from shared code. */
function withMeasurement(lines: readonly ReviewLine[], changed: readonly string[]): ReviewLine[] {
  const patterns = measuredPaths(changed);
  const decides = ({ paths }: ReviewLine) =>
    paths.some((path) => patterns.some((pattern) => matchesPath(path.split("."), pattern)));
  const chosen = lines.some((line) => line.role === "setting" && decides(line));
  return lines.map((line) =>
    (line.role === "setting" || !chosen) && decides(line) ? { ...line, role: "measurement" } : line,
  );
}

/** What the rules tell of the changes; what says the same again is told with what it repeats. */
function tell(base: Plan, head: Plan, changes: readonly LeafChange[]): Told[] {
  const byPath = new Map(changes.map((change) => [change.path, change]));
  const repeats = new Map(
    changes.flatMap((change) => {
      const source = repeatedPath(change, byPath, base, head);
      return source === null ? [] : [[change.path, source]];
    }),
  );
  const rules = [
    ...trainingRules,
    ...dataRules,
    ...evaluationRules,
    ...infrastructureRules(base, head),
    ...costRules(base, head),
  ];
  const original = changes.filter(({ path }) => !repeats.has(path));
  return applyRules(rules, base, head, original).map(({ rule, line }) => {
    const more = [...repeats].filter(([, source]) => line.paths.includes(source)).map(([path]) => path);
    return { rule, line: { ...line, paths: [...line.paths, ...more] } };
  });
}

function causeOf({ file }: ReviewInputs): RecipeReview["cause"] {
  if (file === undefined) return null;
  return file.sameBytes ? "shared-code" : "recipe";
}

/** Plans of two versions of Uplift: every field that differs, and what can be said of them without their meaning. */
function foreign(inputs: ReviewInputs, base: Planned, head: Planned): RecipeReview {
  const changes = leafChanges(base.plan, head.plan).filter(({ path }) => path !== "digest");
  const review = blank(inputs);
  const [when, why] =
    base.kind === "foreign" ? ["before", base.why] : ["after", head.kind === "foreign" ? head.why : ""];
  const keys = [base.plan, head.plan].map((plan) => valueAt(plan, "measurementKey"));
  const other = `the plan ${when} is of another version of Uplift (${printable(why)})`;
  const same = typeof keys[0] === "string" && keys[0] === keys[1];
  return {
    ...review,
    outcome: changes.length === 0 ? "unchanged" : "changed",
    cause: changes.length === 0 ? null : causeOf(inputs),
    headline: `${other}: ${countOf(changes.length, "field")} differ, listed as they are`,
    remarks: [other],
    lines: inSections(changes.map(listedLine)),
    comparability: {
      same,
      changed: same ? [] : ["the measurement key"],
      rows: null,
      text: same
        ? "rows of this recipe stay comparable with earlier ones"
        : "rows of this recipe can no longer be ranked with earlier ones: the measurement key changed",
    },
  };
}

/** A side without a plan. */
function oneSided(inputs: ReviewInputs): RecipeReview {
  const { base, head, rows } = inputs;
  const review = blank(inputs);
  if (head.kind === "absent")
    return { ...review, outcome: base.kind === "absent" ? "unchanged" : "removed", headline: "the recipe is gone" };
  if (head.kind === "refused") {
    const mistakes = mistakesOf(head.issues);
    if (isPlanned(base)) return { ...review, outcome: "no-longer-plans", headline: `no longer plans: ${mistakes}` };
    // Not every recipe is for every target: what a change leaves as it was is not the change's fault.
    if (base.kind === "refused" && canonicalJson(base.issues) === canonicalJson(head.issues))
      return { ...review, unfit: [], headline: `does not plan, as before: ${mistakes}` };
    const when = base.kind === "absent" ? "new, and does not plan" : "does not plan, otherwise than before";
    return { ...review, outcome: "does-not-plan", headline: `${when}: ${mistakes}` };
  }
  const plan = head.kind === "plan" ? head.plan : null;
  const gained = plan?.warnings ?? [];
  const what = [
    head.kind === "plan" ? planInOneLine(head.plan) : `a plan of another version of Uplift (${head.why})`,
    plan !== null && rows !== undefined ? `can be ranked with ${countOf(rowsLike(plan, rows), "existing row")}` : "",
    gained.length > 0 ? countOf(gained.length, "warning") : "",
  ];
  const headline = printable(what.filter((part) => part !== "").join("; "));
  const shared = { ...review, warnings: { gained, lost: [] }, unfit: plan === null ? [] : unfitStages(plan) };
  if (base.kind !== "refused") return { ...shared, outcome: "added", headline: `new recipe: ${headline}` };
  const was = `did not before (${mistakesOf(base.issues)})`;
  return { ...shared, outcome: "plans-now", headline: `plans now, ${was}: ${headline}` };
}

/** "2 mistakes, recipe-invalid and rope-missing". */
function mistakesOf(issues: readonly Issue[]): string {
  const codes = [...new Set(issues.map(({ code }) => printable(code)))];
  return `${countOf(issues.length, "mistake")}, ${someOf(codes, 3)}`;
}

type Planned = Extract<Side, { kind: "plan" | "foreign" }>;

function isPlanned(side: Side): side is Planned {
  return side.kind === "plan" || side.kind === "foreign";
}

function nameIn(side: Side): string | null {
  const name = isPlanned(side) ? valueAt(side.plan, "name") : undefined;
  return typeof name === "string" ? name : null;
}

function nameOfFile(path: string): string {
  return path.replace(/^.*\//, "").replace(/\.[^.]+$/, "");
}

function digestIn(plan: unknown): string | null {
  const digest = valueAt(plan, "digest");
  return typeof digest === "string" && /^sha256:[0-9a-f]{64}$/.test(digest) ? digest : null;
}

function unfitStages(plan: Plan): string[] {
  return LAID_OUT_STAGES.flatMap((stage) => {
    const fit = stageLayout(plan, stage)?.fit;
    if (fit === undefined || fit.totalGib <= fit.limitGib) return [];
    return [`${STAGE_LABELS[stage]} needs ${showRounded(fit.totalGib)} GiB of ${showRounded(fit.limitGib)} GiB a GPU`];
  });
}
