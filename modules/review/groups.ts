/**
 * Reviews of recipes → those to be read by themselves, and groups that share a change: a preset or a helper that many
 * use is told once, and below it only what each recipe has beside it. Pure. No line is lost: a recipe's lines are those
 * of its group and its own.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { RecipeReview, ReviewLine, ReviewSection } from "../../schemas/review.ts";

/** Recipes that share a change. */
export interface ReviewGroup {
  /** As reviewed, in their order. */
  readonly recipes: readonly RecipeReview[];
  /** What all of them have: a review with only that in it. */
  readonly common: RecipeReview;
  /** What each has beside it, in the same order. */
  readonly own: readonly RecipeReview[];
}

/** A recipe, or a group in the place of its first one. */
export type ToRead =
  | { readonly kind: "recipe"; readonly review: RecipeReview }
  | ({ readonly kind: "group" } & ReviewGroup);

/** By what recipes are alike; money and nodes follow from it, and differ. */
const ALIKE: readonly ReviewSection[] = ["training", "data", "evaluation"];

/** Every recipe once, alone or in a group. */
export function grouped(reviews: readonly RecipeReview[]): ToRead[] {
  const open = new Set(reviews.filter(({ outcome }) => outcome === "changed"));
  const groups = new Map<RecipeReview, ReviewGroup>();
  for (let found = largestGroup([...open]); found !== null; found = largestGroup([...open])) {
    for (const review of found.recipes) {
      open.delete(review);
      groups.set(review, found);
    }
  }
  return reviews.flatMap((review): ToRead[] => {
    const group = groups.get(review);
    if (group === undefined) return [{ kind: "recipe", review }];
    return group.recipes[0] === review ? [{ kind: "group", ...group }] : [];
  });
}

/** The recipes that share the line which most have; null where no line makes a group. */
function largestGroup(reviews: readonly RecipeReview[]): ReviewGroup | null {
  const having = new Map<string, RecipeReview[]>();
  for (const review of reviews)
    for (const key of new Set(linesAlike(review).map(keyOf))) having.set(key, [...(having.get(key) ?? []), review]);
  const candidates = [...having.values()].filter((some) => some.length > 1).sort((a, b) => b.length - a.length);
  for (const some of candidates) {
    const group = groupOf(some);
    if (isGroup(group)) return group;
  }
  return null;
}

/** Not every line in common makes a group: one recipe has no other change, or what they share ends comparability. */
function isGroup({ common, own }: ReviewGroup): boolean {
  return (
    own.some((review) => linesAlike(review).length === 0) || common.lines.some(({ role }) => role === "measurement")
  );
}

function groupOf(recipes: readonly RecipeReview[]): ReviewGroup {
  const [first, ...others] = recipes as [RecipeReview, ...RecipeReview[]];
  const inAll = <T>(of: (review: RecipeReview) => readonly T[], key: (one: T) => string): T[] => {
    const sets = others.map((review) => new Set(of(review).map(key)));
    return of(first).filter((one) => sets.every((set) => set.has(key(one))));
  };
  const asIs = (text: string): string => text;
  const comparability =
    first.comparability !== null && recipes.every((one) => one.comparability?.text === first.comparability?.text)
      ? first.comparability
      : null;
  const common: RecipeReview = {
    ...first,
    cause: recipes.some(({ cause }) => cause === "shared-code") ? "shared-code" : null,
    lines: inAll(({ lines }) => lines, keyOf),
    consequences: inAll(({ consequences }) => consequences, asIs),
    remarks: inAll(({ remarks }) => remarks, asIs),
    unfit: inAll(({ unfit }) => unfit, asIs),
    resumes: commonResumes(recipes),
    comparability,
  };
  return { recipes, common, own: recipes.map((review) => withoutCommon(review, common)) };
}

function withoutCommon(review: RecipeReview, common: RecipeReview): RecipeReview {
  const keys = new Set(common.lines.map(keyOf));
  const stages = new Set(common.resumes.map(({ stage }) => stage));
  return {
    ...review,
    lines: review.lines.filter((line) => !keys.has(keyOf(line))),
    consequences: review.consequences.filter((one) => !common.consequences.includes(one)),
    remarks: review.remarks.filter((one) => !common.remarks.includes(one)),
    unfit: review.unfit.filter((one) => !common.unfit.includes(one)),
    resumes: review.resumes.filter(({ stage }) => !stages.has(stage)),
    comparability: common.comparability === null ? review.comparability : null,
  };
}

/** The answers for a stage that is the same in every recipe that has the stage. */
function commonResumes(recipes: readonly RecipeReview[]): RecipeReview["resumes"] {
  return (["sft", "rl"] as const).flatMap((stage) => {
    const answers = recipes.flatMap(({ resumes }) => resumes.filter((one) => one.stage === stage));
    const alike = new Set(answers.map((answer) => canonicalJson(answer))).size === 1;
    return alike ? answers.slice(0, 1) : [];
  });
}

function linesAlike({ lines }: RecipeReview): ReviewLine[] {
  return lines.filter(({ section }) => ALIKE.includes(section));
}

/** What is read of a line; which fields it stands for may differ. */
function keyOf({ section, role, before, after, text }: ReviewLine): string {
  return canonicalJson([section, role, before, after, text]);
}
