/**
 * Two plans and what changed → whether a stage of the new one may go on from the old one's checkpoints. Pure.
 * Trainers load whatever lies in their folder and do not check that it belongs to the recipe (NeMo-RL#415), so the
 * answer is no unless everything that decides a step is the same: what is not known to be harmless counts.
 */
import { canonicalJson } from "../../schemas/digest.ts";
import type { Plan } from "../../schemas/plan.ts";
import type { StageResume } from "../../schemas/review.ts";
import { type LeafChange, matchesPath } from "./leaf-changes.ts";

const LABELS = { sft: "SFT", rl: "RL" } as const;

type Reason = readonly [reason: string, ...patterns: string[]];

/** Of every stage. */
const SHARED: readonly Reason[] = [
  ["base model", "recipe.model", "recipe.modelRevision", "baseModel.**"],
  ["context", "contextTokens"],
  ["RoPE", "recipe.rope.**"],
  ["seed", "recipe.seed"],
  [
    "training tasks",
    ...["taskSet.digest", "taskSet.familyDigest", "taskSet.train", "recipe.tasks.seed", "recipe.tasks.split.**"],
  ],
  ["expert", "recipe.expert.**", "jobs.collect.expert"],
];

/** Rendered keys that decide how long a trainer runs, when it saves and how it is called, not what a step computes. */
const HARMLESS_KEY =
  /^(checkpoint_must_save_by|save_period|ft_save_period|keep_top_k|ft_keep_latest_k|max_num_steps|max_steps|max_num_epochs|num_epochs|ckpt_every_steps|steps|saveEverySteps|val_period|log_dir|name|id|project|entity)$/;

/** The stages that both plans train. */
export function stageResumes(before: Plan, after: Plan, changes: readonly LeafChange[]): StageResume[] {
  const trains = (plan: Plan, stage: string) => plan.jobs.some((job) => job.kind === "train" && job.stage === stage);
  const stages = (["sft", "rl"] as const).filter((stage) => trains(before, stage) && trains(after, stage));
  const resumes: StageResume[] = [];
  for (const stage of stages) {
    const because = reasonsAgainst(stage, after, changes);
    const sft = stage === "rl" ? resumes.find((one) => one.stage === "sft") : undefined;
    const sftSteps = stage === "rl" && has(changes, "recipe.sft.steps");
    const startFrom = has(changes, "jobs.rl.startFrom");
    if (stage === "rl" && (startFrom || sftSteps || (sft !== undefined && !sft.resumes)))
      because.push("the checkpoint it starts from");
    resumes.push({ stage, resumes: because.length === 0, because });
  }
  return resumes;
}

function reasonsAgainst(stage: "sft" | "rl", after: Plan, changes: readonly LeafChange[]): string[] {
  const label = LABELS[stage];
  const own: readonly Reason[] = [
    stage === "sft"
      ? ["SFT data rule", "recipe.sft.data.**", "jobs.select.sft.**"]
      : ["RL tasks", "recipe.rl.tasks.**", "jobs.select.rl.**", "jobs.select-rl.**", "taskSet.rlTasks"],
    [
      `${label} layout (loading a checkpoint under another one is unproven)`,
      ...["nodes", "gpusPerNode", "train.**", "microBatch", "generationNodes", "sequenceDivisor"].map(
        (path) => `layouts.${stage}.layout.${path}`,
      ),
    ],
    [`${label} trainer`, `jobs.${stage}.trainer`, `jobs.${stage}.launch.image`, "target.nemoRl"],
  ];
  const reasons = [...SHARED, ...own].filter(([, ...patterns]) => patterns.some((pattern) => has(changes, pattern)));
  const settings = changes
    .filter((change) => isSetting(change, stage, after))
    .map((change) => settingName(change, label));
  const found = [...new Set([...reasons.map(([reason]) => reason), ...settings])];
  if (found.length > 0) return found;
  // The rendered configuration follows from what is above; a key that changes alone counts alone.
  return changes.filter((change) => isTellingKey(change, stage, changes)).map(({ path }) => `rendered ${path}`);
}

/** A setting of the stage, apart from what the other reasons name and what only decides when it saves or ends. */
function isSetting({ segments }: LeafChange, stage: "sft" | "rl", after: Plan): boolean {
  const [root, name, key = ""] = segments;
  if (root !== "recipe" || name !== stage) return false;
  if (key === "steps") return scheduleOf(after, stage) !== "constant";
  return !["saveEverySteps", "parallelism", "data", "tasks"].includes(key);
}

/** A longer run with a constant learning rate begins like the shorter one; along a cosine it does not. */
function scheduleOf(plan: Plan, stage: "sft" | "rl"): string | undefined {
  if (stage === "rl") return plan.recipe.rl.schedule;
  return plan.recipe.kind === "sft-rl" ? plan.recipe.sft.schedule : undefined;
}

function settingName({ segments }: LeafChange, label: string): string {
  const words = (segments[2] ?? "").replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return `${label} ${words === "lora" ? "LoRA" : words}`;
}

function isTellingKey(change: LeafChange, stage: string, changes: readonly LeafChange[]): boolean {
  if (!matchesPath(change.segments, `jobs.${stage}.config.**`)) return false;
  if (HARMLESS_KEY.test(change.segments.at(-1) ?? "")) return false;
  // A key that only carries a changed number of steps or of saves on.
  return !changes.some(
    (other) =>
      /^recipe\.(sft|rl)\.(steps|saveEverySteps)$/.test(other.path) &&
      canonicalJson([other.before ?? null, other.after ?? null]) ===
        canonicalJson([change.before ?? null, change.after ?? null]),
  );
}

function has(changes: readonly LeafChange[], pattern: string): boolean {
  return changes.some(({ segments }) => matchesPath(segments, pattern));
}
