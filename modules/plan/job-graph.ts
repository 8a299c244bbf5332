/**
 * Recipe → the graph of jobs: collect, select, train, checkpoint, evaluate, publish. Pure.
 */
import type { Job } from "../../schemas/job.ts";
import type { Recipe } from "../../schemas/recipe.ts";

/** Renders one stage's trainer configuration; a trainer's adapter is handed in, so that planning knows no trainer. */
export type RenderConfig = (recipe: Recipe, stage: "sft" | "rl") => Record<string, unknown>;

/** Attempts at once against one environment service: enough to keep two cores busy, few enough to stay in memory. */
const CONCURRENCY = 16;

/** Tasks an evaluation may use. */
export type EvaluatedSplit = "held-out" | "validation";

/** What a graph is made from. */
interface JobGraphInputs {
  readonly recipe: Recipe;
  readonly name: string;
  readonly render: RenderConfig;
  readonly expert: string;
  readonly split: EvaluatedSplit;
}

/** Id of the checkpoint job of a stage's step. */
function checkpointJobId(stage: "sft" | "rl", step: number): string {
  return `${stage}-${step}`;
}

/** The jobs of a recipe, each after the ones it needs. */
export function jobGraph({ recipe, name, render, expert, split }: JobGraphInputs): Job[] {
  const jobs: Job[] = [
    { id: "base", kind: "checkpoint", needs: [], name: recipe.model, stage: "base", step: 0, train: null },
    {
      id: "collect",
      kind: "collect",
      needs: [],
      expert,
      splits: ["train", split],
      attempts: recipe.expert.attempts,
      seed: recipe.expert.seed,
      concurrency: CONCURRENCY,
    },
    {
      id: "select",
      kind: "select",
      needs: ["collect"],
      evaluated: split,
      sft:
        recipe.kind === "sft-rl"
          ? {
              maxPerTask: recipe.sft.data.maxPerTask,
              maxLengthRatio: recipe.sft.data.maxLengthRatio,
              maxTrajectories: recipe.sft.data.maxTrajectories ?? null,
            }
          : null,
      rl: { min: recipe.rl.tasks.passRateBand.min, max: recipe.rl.tasks.passRateBand.max },
    },
  ];
  const reported = (stage: "sft" | "rl") => recipe.report.filter((r) => r.stage === stage).map((r) => r.step);
  const checkpoint = (stage: "sft" | "rl", step: number): Job => ({
    id: checkpointJobId(stage, step),
    kind: "checkpoint",
    needs: [],
    name: `${name} ${stage === "sft" ? "SFT" : "RL"} step ${step}`,
    stage,
    step,
    train: stage,
  });

  let startFrom = "base";
  if (recipe.kind === "sft-rl") {
    jobs.push({
      id: "sft",
      kind: "train",
      needs: ["base", "select"],
      stage: "sft",
      trainer: "trl",
      startFrom,
      steps: recipe.sft.steps,
      saveEverySteps: recipe.sft.saveEverySteps,
      config: render(recipe, "sft"),
    });
    for (const step of unique([...reported("sft"), recipe.sft.steps])) jobs.push(checkpoint("sft", step));
    startFrom = checkpointJobId("sft", recipe.sft.steps);
  }
  jobs.push({
    id: "rl",
    kind: "train",
    needs: [startFrom, "select"],
    stage: "rl",
    trainer: "trl",
    startFrom,
    steps: recipe.rl.steps,
    saveEverySteps: recipe.rl.saveEverySteps,
    config: render(recipe, "rl"),
  });
  for (const step of unique(reported("rl"))) jobs.push(checkpoint("rl", step));

  const evaluated = ["base", ...recipe.report.map((r) => checkpointJobId(r.stage, r.step))];
  for (const id of unique(evaluated)) {
    jobs.push({ id: `evaluate-${id}`, kind: "evaluate", needs: [id, "select"], checkpoint: id });
    // What is tuned on validation tasks has no place on a leaderboard.
    if (split === "validation") continue;
    jobs.push({ id: `publish-${id}`, kind: "publish", needs: [`evaluate-${id}`], evaluate: `evaluate-${id}` });
  }
  return jobs;
}

function unique<T>(items: readonly T[]): T[] {
  return [...new Set(items)];
}
