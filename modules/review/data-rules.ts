/**
 * What a change means for data and evaluation: tasks, splits, who is the expert, what is left out; preset and serving.
 * Pure.
 */
import type { Plan } from "../../schemas/plan.ts";
import { field, type Rule } from "./rule.ts";
import { showContext, showNumber, showValue } from "./show.ts";

const plain = (text: string): string => text;
const percent = (share: number): string => `${showNumber(share * 100)}%`;

/** Tasks, split, trajectories, RL tasks, expert. */
export const dataRules: readonly Rule[] = [
  field("data", "task family", "recipe.tasks.family", plain),
  field("data", "tasks come from", "recipe.tasks.kind", plain),
  field("data", "task index", "recipe.tasks.index", plain),
  field("data", "task seed", "recipe.tasks.seed"),
  field("data", "tasks generated", "recipe.tasks.count"),
  field("data", "held-out tasks asked for", "recipe.tasks.split.heldOut"),
  field("data", "validation tasks asked for", "recipe.tasks.split.validation"),
  field("data", "task set that is meant", "recipe.tasks.digest"),
  field("data", "task set", "taskSet.digest"),
  field("data", "tools, graders and generator of the family", "taskSet.familyDigest"),
  field("data", "stand-in tasks", "taskSet.standIn"),
  field("data", "tasks", "taskSet.tasks"),
  field("data", "near-copy groups", "taskSet.groups"),
  {
    section: "data",
    subject: "tasks of train / validation / held-out that fit",
    paths: ["taskSet.train", "taskSet.validation", "taskSet.heldOut"],
    tell: ({ taskSet }) => [taskSet.train, taskSet.validation, taskSet.heldOut].map(showNumber).join(" / "),
  },
  field("data", "held-out tasks left out, which the expert never solved", "taskSet.heldOutUnsolved"),
  field("data", "tasks RL trains on", "taskSet.rlTasks"),
  {
    section: "data",
    subject: "shortest known solutions of the tasks that fit",
    paths: ["taskSet.solutionTokens.**"],
    tell({ taskSet: { solutionTokens } }) {
      if (solutionTokens === null) return null;
      const { known, median, p90, max } = solutionTokens;
      return `median ${showNumber(median)}, 90% up to ${showNumber(p90)}, longest ${showNumber(max)} tokens (${showNumber(known)} known)`;
    },
  },
  field("data", "trajectories of one task for SFT", "recipe.sft.data.maxPerTask"),
  field(
    "data",
    "longest trajectory for SFT",
    "recipe.sft.data.maxLengthRatio",
    (ratio: number) => `${showNumber(ratio)} × shortest`,
  ),
  field("data", "trajectories for SFT at most", "recipe.sft.data.maxTrajectories"),
  {
    section: "data",
    subject: "pass rates of RL tasks",
    paths: ["recipe.rl.tasks.passRateBand.**"],
    chosen: true,
    tell({ recipe }) {
      const { of, min, max } = recipe.rl.tasks.passRateBand;
      return `${percent(min)} to ${percent(max)} by ${of}`;
    },
  },
  field("data", "RL leaves out what was always solved by", "recipe.rl.tasks.dropAlwaysSolvedBy", plain),
  field("data", "expert", "recipe.expert.kind", plain),
  field("data", "expert model", "recipe.expert.model", plain),
  field("data", "expert's attempts a task", "recipe.expert.attempts"),
  field("data", "expert's seed", "recipe.expert.seed"),
  field("data", "expert's version", "jobs.collect.expert"),
  field("data", "expert's attempts in all", "estimate.attempts.expert"),
  field("data", "tasks the expert acts on", "jobs.collect.splits", (splits: string[]) => splits.join(", ")),
  field("data", "pass rates are measured of", "jobs.probe.checkpoint", plain),
];

/** Preset and serving. */
export const evaluationRules: readonly Rule[] = [
  field("evaluation", "evaluation preset", "recipe.evaluation.name", plain),
  field("evaluation", "evaluation attempts a held-out task", "recipe.evaluation.attempts"),
  field("evaluation", "evaluation temperature", "recipe.evaluation.temperature"),
  field("evaluation", "evaluation top-p", "recipe.evaluation.topP"),
  field("evaluation", "evaluation turns of an attempt", "recipe.evaluation.maxTurns"),
  field("evaluation", "evaluation tokens of a turn", "recipe.evaluation.maxTokensPerTurn"),
  field("evaluation", "evaluation seed", "recipe.evaluation.seed"),
  field(
    "evaluation",
    "evaluation tries a broken attempt again",
    "recipe.evaluation.failureRule.retries",
    (times: number) => `${showNumber(times)} times`,
  ),
  field("evaluation", "evaluation's attempt that stays broken", "recipe.evaluation.failureRule.exhausted", plain),
  field("evaluation", "evaluated on", "jobs.select.evaluated", (split: string) => `${split} tasks`),
  field("evaluation", "server asked for", "recipe.server", plain),
  { ...field("evaluation", "server", "serving.server", plain), chosen: false },
  field("evaluation", "served context", "serving.contextTokens", showContext),
  field("evaluation", "served precision", "serving.dtype", plain),
  field("evaluation", "tool-call parser", "serving.toolCallParser", plain),
  field("evaluation", "reasoning parser", "serving.reasoningParser", plain),
  field("evaluation", "served KV cache", "serving.kvCacheDtype", plain),
  {
    section: "evaluation",
    subject: "served RoPE",
    paths: ["serving.rope.**"],
    tell: ({ serving }: Plan) => (serving.rope === undefined ? null : showValue(serving.rope)),
  },
  field("evaluation", "evaluation attempts in all", "estimate.attempts.evaluation"),
  {
    section: "evaluation",
    subject: "attempts at once",
    paths: ["jobs.*.concurrency"],
    tell({ jobs }) {
      const all = jobs.flatMap((job) =>
        "concurrency" in job && job.concurrency ? [[job.id, job.concurrency] as const] : [],
      );
      const [first] = all;
      if (first === undefined) return null;
      const alike = all.every(([, number]) => number === first[1]);
      return alike ? showNumber(first[1]) : all.map(([id, number]) => `${id} ${showNumber(number)}`).join(", ");
    },
  },
];
