/**
 * Recipe + target + facts → plan. Pure: no disk, clock, randomness or environment; whoever calls it has read the
 * recipe file, generated the task set or read its index, hashed the base model, and brings the trainers' adapters.
 */
import { canonicalJson, digestJson } from "../../schemas/digest.ts";
import type { ServingSettings } from "../../schemas/endpoint.ts";
import { type Issue, located, UserError } from "../../schemas/error.ts";
import type { Cost } from "../../schemas/estimate.ts";
import type { TrainJob } from "../../schemas/job.ts";
import type { Launch } from "../../schemas/launch.ts";
import type { StageLayout } from "../../schemas/layout.ts";
import { type Model, modelFolder } from "../../schemas/model.ts";
import { type Plan, PlanBody, type TaskSetSummary, type Warning } from "../../schemas/plan.ts";
import { contextTokensOf, type Recipe } from "../../schemas/recipe.ts";
import type { StageInput } from "../../schemas/stage.ts";
import { type ClusterTarget, instanceOf, type LocalTarget, planned, type Target } from "../../schemas/target.ts";
import { checkRecipe } from "./check.ts";
import { estimateCost } from "./cost/index.ts";
import { chooseLayouts } from "./fit/index.ts";
import { type EvaluatedSplit, jobGraph } from "./job-graph.ts";
import { warnOf } from "./recipe-warnings.ts";

/** A trainer of one machine, as planning sees it. */
export interface LocalTrainer {
  renderConfig(recipe: Recipe, stage: "sft" | "rl"): Record<string, unknown>;
  /** What this trainer cannot do of a recipe. */
  check(recipe: Recipe): Issue[];
}

/** A trainer of a cluster, as planning sees it: configuration, launch, and everything wrong with either. */
export interface ClusterTrainer {
  readonly name: "automodel" | "nemo-rl";
  renderConfig(stage: StageInput): Record<string, unknown>;
  launch(stage: StageInput): Launch;
  check(
    stage: StageInput,
    rendered: { config: Record<string, unknown>; launch: Launch },
  ): { issues: Issue[]; warnings: Warning[] };
}

/** The adapters a plan is rendered with; handed in, so that planning knows no trainer. */
export interface Trainers {
  readonly local: LocalTrainer;
  readonly sft: ClusterTrainer;
  readonly rl: ClusterTrainer;
}

/** Mistakes after which sizing and rendering would only say the same in other words. */
const UNSIZED = new Set(["model-unsized", "context-beyond-model", "rope-too-short"]);

/** More attempts at once than this ask more of the environment service than of a node's engines. */
const MOST_ATTEMPTS_AT_ONCE = 64;

/** What a plan is made from. */
export interface PlanInputs {
  /** The recipe, parsed. */
  readonly recipe: Recipe;
  /** A field's path → where it is written, for messages, e.g. "recipes/r.yaml:12:5: rl.steps". */
  readonly locate: (path: string) => string;
  /** The recipe's name when it gives none itself: its file's name. */
  readonly defaultName: string;
  readonly target: Target;
  readonly taskSet: TaskSetSummary;
  readonly baseModel: PlanBody["baseModel"];
  /** The model's row; null for one that is only a folder. */
  readonly model: Model | null;
  readonly nativeContextTokens: number | null;
  readonly harness: string;
  /** Version of the expert: it decides which held-out tasks count as solvable. */
  readonly expert: string;
  /** Tasks that are evaluated: the held-out ones, or the validation ones while settings are tuned. */
  readonly split: EvaluatedSplit;
  readonly trainers: Trainers;
}

/** What a target's kind decides of a plan. */
interface Placed {
  readonly serving: ServingSettings;
  readonly layouts: StageLayout[];
  readonly cost: Cost | null;
  readonly warnings: Warning[];
  readonly issues: Issue[];
  /** Attempts at once of an evaluation; left to the harness on one machine. */
  readonly attemptsAtOnce?: number;
  train(stage: "sft" | "rl", startFrom: string): Pick<TrainJob, "trainer" | "config" | "launch">;
}

/** The same inputs give the same plan, byte for byte, on any machine. Throws one UserError with all mistakes. */
export function compilePlan(inputs: PlanInputs): Plan {
  const { recipe, target } = inputs;
  const name = recipe.name ?? inputs.defaultName;
  const mistakes = [...checkRecipe(inputs), ...checkRlTasks(inputs)];
  const refuse = (issues: readonly Issue[]) => {
    // Two stages may find the same of one field.
    const once = new Map(issues.map((issue) => [canonicalJson(issue), issue]));
    if (once.size > 0) throw new UserError(located([...once.values()], inputs.locate));
  };
  // Without the model's row or its context there is nothing to size.
  if (mistakes.some(({ code }) => UNSIZED.has(code))) refuse(mistakes);
  const placed = target.kind === "local" ? placeLocally(inputs, target) : placeOnCluster(inputs, target, name);
  const { attemptsAtOnce } = placed;
  const jobs = jobGraph({
    ...{ recipe, name, train: placed.train, expert: inputs.expert, split: inputs.split },
    ...(attemptsAtOnce === undefined ? {} : { attemptsAtOnce }),
  });
  // What a trainer says of a field whose mistake is already named is the same mistake.
  const named = new Set(mistakes.map(({ path }) => path));
  refuse([...mistakes, ...placed.issues.filter(({ path }) => !named.has(path))]);

  const { taskSet } = inputs;
  const sizes = { train: taskSet.train, validation: taskSet.validation, "held-out": taskSet.heldOut };
  const evaluatedTasks = inputs.split === "held-out" ? taskSet.heldOut : taskSet.validation;
  const evaluations = jobs.filter((job) => job.kind === "evaluate").length;
  const body = PlanBody.parse({
    schemaVersion: 1,
    recipe,
    name,
    target: planned(target),
    contextTokens: contextTokensOf(recipe.context),
    baseModel: inputs.baseModel,
    taskSet,
    serving: placed.serving,
    layouts: placed.layouts,
    jobs,
    measurementKey: digestJson({
      preset: recipe.evaluation,
      taskSet: taskSet.digest,
      split: inputs.split,
      expert: { ...recipe.expert, version: inputs.expert },
      environments: taskSet.familyDigest,
      harness: inputs.harness,
      serving: placed.serving,
    }),
    estimate: {
      attempts: {
        expert: sum(
          jobs.flatMap((job) => (job.kind === "collect" ? job.splits.map((one) => sizes[one] * job.attempts) : [])),
        ),
        probe: sum(jobs.map((job) => (job.kind === "probe" ? sizes.train * job.attempts : 0))),
        rollouts: recipe.rl.steps * recipe.rl.promptsPerStep * recipe.rl.rolloutsPerPrompt,
        evaluation: evaluations * evaluatedTasks * recipe.evaluation.attempts,
      },
      cost: placed.cost,
    },
    warnings: [...warnOf(inputs), ...taskWarnings(taskSet), ...placed.warnings],
  });
  return { ...body, digest: digestJson(body) };
}

function placeLocally({ recipe, trainers }: PlanInputs, target: LocalTarget): Placed {
  return {
    serving: {
      server: recipe.server ?? target.server,
      contextTokens: contextTokensOf(recipe.context),
      dtype: "float32",
      toolCallParser: "hermes",
    },
    ...{ layouts: [], cost: null, warnings: [], issues: trainers.local.check(recipe) },
    train: (stage) => ({ trainer: "trl", config: trainers.local.renderConfig(recipe, stage), launch: null }),
  };
}

function placeOnCluster(inputs: PlanInputs, target: ClusterTarget, name: string): Placed {
  const { recipe, model, taskSet } = inputs;
  if (model === null) throw new TypeError("checkRecipe refuses a cluster plan without the model's row");
  const contextTokens = contextTokensOf(recipe.context);
  const instance = instanceOf(target);
  const fit = chooseLayouts({
    ...{ recipe, model, contextTokens, instance, maxNodes: target.maxNodes },
    readGbPerSecond: target.storage.readGbPerSecond,
    sharedMemoryGib: target.slurm.sharedMemoryGib,
  });
  const engine = fit.layouts.flatMap(({ layout }) => (layout.kind === "serving" ? [layout.engine] : []))[0];
  const serving: ServingSettings = {
    ...{ server: "vllm", contextTokens, dtype: "bfloat16", toolCallParser: model.toolCallParser ?? "hermes" },
    ...(model.reasoningParser ? { reasoningParser: model.reasoningParser } : {}),
    ...(recipe.rope ? { rope: recipe.rope } : {}),
    kvCacheDtype: engine?.kvCacheDtype ?? "auto",
  };
  // Without layouts there is nothing to price or render: what does not fit is the mistake to mend first.
  if (fit.issues.length > 0) {
    const train = (stage: "sft" | "rl") => ({ trainer: inputs.trainers[stage].name, config: {}, launch: null });
    return { serving, layouts: [], cost: null, warnings: [], issues: fit.issues, train };
  }
  const attemptsAtOnce = Math.max(1, Math.min(MOST_ATTEMPTS_AT_ONCE, engine?.concurrentSequences ?? 1));
  const money = estimateCost({
    ...{ recipe, model, contextTokens, instance, taskSet, layouts: fit.layouts, pricing: target.pricing },
    region: target.kind === "aws" ? target.region : null,
    maxWalltimeSeconds: Math.floor(target.slurm.maxWalltimeHours * 3600),
    ...{ readGbPerSecond: target.storage.readGbPerSecond, maxNodes: target.maxNodes },
    evaluationAtOnce: attemptsAtOnce,
    evaluatedTasks: inputs.split === "held-out" ? taskSet.heldOut : taskSet.validation,
  });
  const issues = [...money.issues];
  const warnings = [...fit.warnings, ...money.warnings];
  const base = modelFolder(target.storage.mountPath, model.name, inputs.baseModel.revision);
  return {
    ...{ serving, layouts: fit.layouts, cost: money.cost, issues, warnings, attemptsAtOnce },
    train(stage, startFrom) {
      const layout = fit.layouts.find((one) => one.stage === stage)?.layout;
      if (!layout || layout.kind === "serving") throw new TypeError(`no layout of ${stage}`);
      const trainer = inputs.trainers[stage];
      const input: StageInput = {
        ...{ recipe, name, stage, model, contextTokens, layout, target },
        startFrom: startFrom === "base" ? base : `\${RUN_DIR}/checkpoints/${startFrom}`,
        walltimeSeconds: money.walltimeSeconds[stage] ?? Math.floor(target.slurm.maxWalltimeHours * 3600),
        identity: `\${RUN_ID}-${stage}`,
      };
      const config = trainer.renderConfig(input);
      const launch = trainer.launch(input);
      const checked = trainer.check(input, { config, launch });
      // Where the limit holds no step, that no save fits either follows.
      const tooShort = issues.some(({ code }) => code === "walltime-too-short");
      issues.push(...checked.issues.filter(({ code }) => !(tooShort && code === "save-margin-too-short")));
      warnings.push(
        ...checked.warnings.filter((one) => !warnings.some(({ code, path }) => code === one.code && path === one.path)),
      );
      return { trainer: trainer.name, config, launch };
    },
  };
}

/** NeMo-RL drops a last batch that is not full: with fewer tasks than a step takes, it would train nothing. */
function checkRlTasks({ recipe, taskSet: { rlTasks } }: PlanInputs): Issue[] {
  const { promptsPerStep } = recipe.rl;
  if (rlTasks === null || rlTasks >= promptsPerStep) return [];
  return [
    {
      ...{ code: "too-few-rl-tasks", path: "rl.promptsPerStep" },
      asked: `${promptsPerStep} tasks a step`,
      found: `${rlTasks} training tasks lie in the pass-rate band`,
      allowed: `at most ${rlTasks}`,
      todo: "lower promptsPerStep, widen rl.tasks.passRateBand, or add tasks",
    },
  ];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function taskWarnings(taskSet: TaskSetSummary): Warning[] {
  const warnings: Warning[] = [];
  if (taskSet.standIn)
    warnings.push({
      ...{ code: "stand-in-tasks", path: "tasks.index" },
      message: "its tasks are made up: counts and lengths show how a plan reads, and nothing can be run on them",
      todo: "write the index of your own tasks and name it in the recipe",
    });
  const lost = taskSet.tooLong.length;
  if (lost > 0)
    warnings.push({
      ...{ code: "tasks-too-long", path: "context" },
      message: `${lost} of ${taskSet.tasks} tasks are left out: their shortest known solution (up to ${taskSet.tooLong.at(-1)?.shortestSolutionTokens} tokens) does not fit`,
      todo: "taskSet.tooLong of the plan names them; a longer context takes them in",
    });
  return warnings;
}
