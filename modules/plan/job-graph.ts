/**
 * Recipe → the graph of jobs: collect, select, probe, train, checkpoint, evaluate, publish. Pure.
 */
import type { Job, TrainJob } from "../../schemas/job.ts";
import type { Recipe } from "../../schemas/recipe.ts";

/** A stage's trainer, configuration and launch; adapters are handed in, so that planning knows no trainer. */
export type RenderTrainJob = (
  stage: "sft" | "rl",
  startFrom: string,
) => Pick<TrainJob, "trainer" | "config" | "launch">;

/** Attempts at once of one machine's environment service: enough to keep two cores busy, few enough to stay in memory. */
const CONCURRENCY = 16;

/** Tasks an evaluation may use. */
export type EvaluatedSplit = "held-out" | "validation";

/** What a graph is made from. */
export interface JobGraphInputs {
  readonly recipe: Recipe;
  readonly name: string;
  /** Version of the expert that acts. */
  readonly expert: string;
  readonly split: EvaluatedSplit;
  readonly train: RenderTrainJob;
  /** Attempts at once where it is not one machine's. */
  readonly attemptsAtOnce?: number;
}

/** Id of the checkpoint job of a stage's step. */
function checkpointJobId(stage: "sft" | "rl", step: number): string {
  return `${stage}-${step}`;
}

/** The jobs of a recipe, each after the ones it needs. */
export function jobGraph(inputs: JobGraphInputs): Job[] {
  const { recipe, split } = inputs;
  const probed = probedCheckpoint(recipe);
  const startFrom = recipe.kind === "sft-rl" ? checkpointJobId("sft", recipe.sft.steps) : "base";
  return [
    { id: "base", kind: "checkpoint", needs: [], name: recipe.model, stage: "base", step: 0, train: null },
    collectJob(inputs),
    {
      ...{ id: "select", kind: "select", needs: ["collect"], evaluated: split, sft: sftRule(recipe) },
      rl: probed === null ? rlRule(recipe, recipe.rl.tasks.passRateBand.of) : null,
    },
    ...(recipe.kind === "sft-rl" ? stageJobs(inputs, recipe.sft, "sft", "base", "select") : []),
    ...(probed === null ? [] : probeJobs(inputs, probed)),
    ...stageJobs(inputs, recipe.rl, "rl", startFrom, probed === null ? "select" : "select-rl"),
    ...evaluationJobs(inputs),
  ];
}

/** The checkpoint job whose pass rates the run itself has to measure; null where they are known from elsewhere. */
function probedCheckpoint(recipe: Recipe): string | null {
  const { of } = recipe.rl.tasks.passRateBand;
  if (of === "base") return "base";
  if (of !== "sft") return null;
  if (recipe.kind !== "sft-rl") throw new TypeError("an RL-only recipe has no SFT checkpoint to probe");
  return checkpointJobId("sft", recipe.sft.steps);
}

/** The expert acts on training tasks only where something is made of it: SFT's data, or the choice of RL's tasks. */
function collectJob({ recipe, expert, split, attemptsAtOnce = CONCURRENCY }: JobGraphInputs): Job {
  const usesTraining = recipe.kind === "sft-rl" || recipe.rl.tasks.passRateBand.of === "expert";
  return {
    id: "collect",
    kind: "collect",
    needs: [],
    expert,
    splits: usesTraining ? ["train", split] : [split],
    attempts: recipe.expert.attempts,
    seed: recipe.expert.seed,
    concurrency: attemptsAtOnce,
  };
}

function sftRule(recipe: Recipe): Extract<Job, { kind: "select" }>["sft"] {
  if (recipe.kind !== "sft-rl") return null;
  const { maxPerTask, maxLengthRatio, maxTrajectories } = recipe.sft.data;
  return { maxPerTask, maxLengthRatio, maxTrajectories: maxTrajectories ?? null };
}

function rlRule({ rl }: Recipe, of: string): Extract<Job, { kind: "select" }>["rl"] {
  const { min, max } = rl.tasks.passRateBand;
  return { of, min, max, dropAlwaysSolvedBy: rl.tasks.dropAlwaysSolvedBy ?? null };
}

/** A checkpoint on the training tasks, then RL's choice by what it solved. */
function probeJobs({ recipe, attemptsAtOnce }: JobGraphInputs, checkpoint: string): Job[] {
  const id = `probe-${checkpoint}`;
  return [
    {
      id,
      kind: "probe",
      needs: [checkpoint],
      checkpoint,
      attempts: recipe.expert.attempts,
      concurrency: attemptsAtOnce,
    },
    // After `select`: both write the run's one selection, this one the part that is still open.
    { id: "select-rl", kind: "select", needs: ["select", id], evaluated: null, sft: null, rl: rlRule(recipe, id) },
  ];
}

/** A stage's training, and its checkpoints that somebody needs: reported ones, and SFT's last, where RL begins. */
function stageJobs(
  { recipe, name, train }: JobGraphInputs,
  { steps, saveEverySteps }: { readonly steps: number; readonly saveEverySteps: number },
  stage: "sft" | "rl",
  startFrom: string,
  selection: string,
): Job[] {
  const { trainer, config, launch } = train(stage, startFrom);
  const reported = recipe.report.filter((one) => one.stage === stage).map((one) => one.step);
  return [
    {
      ...{ id: stage, kind: "train", needs: [startFrom, selection], stage, trainer, startFrom },
      ...{ steps, saveEverySteps, config, launch },
    },
    ...unique(stage === "sft" ? [...reported, steps] : reported).map(
      (step): Job => ({
        id: checkpointJobId(stage, step),
        kind: "checkpoint",
        needs: [],
        name: `${name} ${stage === "sft" ? "SFT" : "RL"} step ${step}`,
        stage,
        step,
        train: stage,
      }),
    ),
  ];
}

/** What is measured: the base model and every declared checkpoint. */
function evaluationJobs({ recipe, split, attemptsAtOnce }: JobGraphInputs): Job[] {
  const evaluated = ["base", ...recipe.report.map((one) => checkpointJobId(one.stage, one.step))];
  return unique(evaluated).flatMap((id): Job[] => [
    { id: `evaluate-${id}`, kind: "evaluate", needs: [id, "select"], checkpoint: id, concurrency: attemptsAtOnce },
    // What is tuned on validation tasks has no place on a leaderboard.
    ...(split === "validation"
      ? []
      : [{ id: `publish-${id}`, kind: "publish" as const, needs: [`evaluate-${id}`], evaluate: `evaluate-${id}` }]),
  ]);
}

function unique<T>(items: readonly T[]): T[] {
  return [...new Set(items)];
}
