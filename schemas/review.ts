/**
 * Review: what a change to recipes, targets or shared code means, recipe by recipe, in the words of a reviewer.
 * `uplift diff --json` prints it; the page and the pull-request comment are rendered from it and from nothing else.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { ServingSettings } from "./endpoint.ts";
import { Issue } from "./error.ts";
import { Warning } from "./plan.ts";
import { Preset } from "./preset.ts";

/** What a line is about; the order is the order of reading. */
export const ReviewSection = z.enum([
  "training",
  "data",
  "evaluation",
  "infrastructure",
  "cost",
  "warnings",
  /** What figures and layouts rest on: terms of memory, reasons, assumptions. */
  "arithmetic",
  /** Keys of the trainers' own configurations, as rendered. */
  "rendered",
  "other",
]);
export type ReviewSection = z.infer<typeof ReviewSection>;

/** What a line is to a reviewer. */
export const ReviewLineRole = z.enum([
  /** Makes rows incomparable with earlier ones. */
  "measurement",
  /** Chosen by whoever edits a recipe or a target. */
  "setting",
  /** Follows from something else. */
  "consequence",
]);
export type ReviewLineRole = z.infer<typeof ReviewLineRole>;

/** One thing that changed. */
export const ReviewLine = z.strictObject({
  section: ReviewSection,
  role: ReviewLineRole,
  /** e.g. "context", "SFT learning rate", or a path of the plan that no sentence covers. */
  subject: z.string(),
  /** Null where the side has no such thing. */
  before: z.string().nullable(),
  after: z.string().nullable(),
  /** The line: "context 128k → 256k". Whole but for long arithmetic, of which it shows where the sides differ. */
  text: z.string(),
  /** Fields of the plan whose change this line tells; empty for what is worked out from others. */
  paths: z.array(z.string()),
});
export type ReviewLine = z.infer<typeof ReviewLine>;

/** Whether numbers measured before and after may stand on one board. */
export const ReviewComparability = z.strictObject({
  same: z.boolean(),
  /** What of the measurement changed: "preset", "task set", "serving" …; empty where the key is the same. */
  changed: z.array(z.string()),
  /** Existing rows that are measured alike, before and after; null where no leaderboard was given. */
  rows: z.strictObject({ before: z.number().int(), after: z.number().int() }).nullable(),
  /** The sentence: "rows of this recipe can no longer be ranked with 12 existing ones: preset changed". */
  text: z.string(),
});
export type ReviewComparability = z.infer<typeof ReviewComparability>;

/** Whether a run of the new plan may go on from a stage's checkpoints of the old one. */
export const StageResume = z.strictObject({
  stage: z.enum(["sft", "rl"]),
  resumes: z.boolean(),
  /** Why not, one reason each; empty where it does. */
  because: z.array(z.string()),
});
export type StageResume = z.infer<typeof StageResume>;

const Sides = z.strictObject({ before: z.number().nullable(), after: z.number().nullable() });

export const RecipeReview = z.strictObject({
  /** The recipe's name, or its file's where it has never planned. */
  recipe: z.string(),
  /** Path in the project; null where only plans were given. */
  file: z.string().nullable(),
  outcome: z.enum([
    /** The same plan, or refused for the same reasons. */
    "unchanged",
    "changed",
    "added",
    "removed",
    /** It planned before and does not now. */
    "no-longer-plans",
    /** It did not plan before and does now. */
    "plans-now",
    /** It is new, or was refused for other reasons. */
    "does-not-plan",
  ]),
  /** Of a changed plan: the recipe's own file, or code and files that recipes share. Null where that is not known. */
  cause: z.enum(["recipe", "shared-code"]).nullable(),
  /** The leading change with its consequences, on one line. */
  headline: z.string(),
  /** Parts of the headline behind the leading change: what follows from it, beside money … */
  consequences: z.array(z.string()),
  /** … and what else a reviewer should know: tasks that fit, warnings, checkpoints. */
  remarks: z.array(z.string()),
  lines: z.array(ReviewLine),
  /** Null where there are not two plans to compare. */
  comparability: ReviewComparability.nullable(),
  resumes: z.array(StageResume),
  /** Expected, of one run; null where a side has no plan or no price. */
  cost: z.strictObject({ dollars: Sides, gpuHours: Sides }),
  warnings: z.strictObject({ gained: z.array(Warning), lost: z.array(Warning) }),
  /** Why the change makes a run impossible: it does not plan, or a stage needs more memory than there is. */
  unfit: z.array(z.string()),
  /** Mistakes of the sides that do not plan. */
  issues: z.strictObject({ before: z.array(Issue), after: z.array(Issue) }),
  digests: z.strictObject({ before: Digest.nullable(), after: Digest.nullable() }),
});
export type RecipeReview = z.infer<typeof RecipeReview>;

/** How the code of recipes was kept apart while it was planned. */
export const ReviewIsolation = z.strictObject({
  /** e.g. "bubblewrap: no network, …"; how each of them is kept away. */
  how: z.string(),
  /** What its code could read, beside the machine's own programs, e.g. "its side's files". */
  reads: z.array(z.string()),
  network: z.boolean(),
  files: z.boolean(),
  secrets: z.boolean(),
  /** What is not kept apart, one sentence each. */
  notIsolated: z.array(z.string()),
});
export type ReviewIsolation = z.infer<typeof ReviewIsolation>;

const Judged = z.array(
  // Null: the review as a whole.
  z.strictObject({ recipe: z.string().nullable(), condition: z.string(), text: z.string() }),
);

/** What `--fail-on` says. */
export const ReviewVerdict = z.strictObject({
  /** What was looked at, as written. */
  conditions: z.array(z.string()),
  failed: Judged,
  /** Conditions that could not be looked at, and why: they let the change pass. */
  unchecked: Judged,
});
export type ReviewVerdict = z.infer<typeof ReviewVerdict>;

export const Review = z.strictObject({
  schemaVersion: z.literal(1),
  target: z.string(),
  /** What was compared: "main (a1b2c3d4e5f6)", "working tree", a file. */
  before: z.string(),
  after: z.string(),
  /** In the order of their files' names. */
  recipes: z.array(RecipeReview),
  /** Files whose change can change plans, beside the recipes' own; empty where two files were compared. */
  sharedFiles: z.array(z.string()),
  /** What a reader should know of this comparison. */
  notes: z.array(z.string()),
  /** Null where nothing had to be run. */
  isolation: ReviewIsolation.nullable(),
  /** Null where no condition was given. */
  verdict: ReviewVerdict.nullable(),
});
export type Review = z.infer<typeof Review>;

/** What a review needs of a leaderboard: `uplift leaderboard --json` has it. */
export const LeaderboardFacts = z.object({
  boards: z.array(
    z.object({
      family: z.string(),
      preset: Preset,
      serving: ServingSettings,
      taskSetDigest: Digest,
      rows: z.array(z.object({ evaluationId: z.string() })),
    }),
  ),
});
export type LeaderboardFacts = z.infer<typeof LeaderboardFacts>;
