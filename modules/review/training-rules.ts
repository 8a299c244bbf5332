/**
 * What a change means for training: model, context, stages, optimiser, rollouts, checkpoints reported. Pure.
 */
import type { Plan } from "../../schemas/plan.ts";
import { field, type Rule } from "./rule.ts";
import { showContext, showGib, showNumber, showValue } from "./show.ts";

const STAGES = { sft: "SFT", rl: "RL" } as const;
type StageName = keyof typeof STAGES;

const plain = (text: string): string => text;
const stageOf = ({ recipe }: Plan, stage: StageName) =>
  stage === "rl" ? recipe.rl : recipe.kind === "sft-rl" ? recipe.sft : null;

/** The rules of training, the most leading first. */
export const trainingRules: readonly Rule[] = [
  field("training", "model", "recipe.model", plain),
  field("training", "model revision", "recipe.modelRevision", plain),
  { ...field("training", "context", "contextTokens", showContext), chosen: true },
  {
    section: "training",
    subject: "RoPE",
    paths: ["recipe.rope.**"],
    chosen: true,
    tell({ recipe: { rope } }) {
      if (rope === undefined) return null;
      const theta = rope.theta === undefined ? "" : `, theta ${showNumber(rope.theta)}`;
      const ramp = `ramp ${showNumber(rope.betaFast)} to ${showNumber(rope.betaSlow)}`;
      return `${rope.type} × ${showNumber(rope.factor)} over ${showContext(rope.originalMaxTokens)}, ${ramp}${theta}`;
    },
  },
  field("training", "stages", "recipe.kind", (kind: Plan["recipe"]["kind"]) =>
    kind === "rl" ? "RL only" : "SFT, then RL",
  ),
  ...stageRules("sft"),
  field("training", "SFT trajectories a step", "recipe.sft.batchSize"),
  ...stageRules("rl"),
  field("training", "RL tasks a step", "recipe.rl.promptsPerStep"),
  field("training", "rollouts a task", "recipe.rl.rolloutsPerPrompt"),
  field("training", "KL penalty", "recipe.rl.klPenalty"),
  {
    section: "training",
    subject: "clip",
    paths: ["recipe.rl.clip.low", "recipe.rl.clip.high"],
    chosen: true,
    tell: ({ recipe: { rl } }) => `${showNumber(rl.clip.low)} below, ${showNumber(rl.clip.high)} above`,
  },
  field("training", "rollout temperature", "recipe.rl.temperature"),
  field("training", "turns of a rollout", "recipe.rl.maxTurns"),
  field("training", "tokens of a rollout's turn", "recipe.rl.maxTokensPerTurn"),
  {
    section: "training",
    subject: "rollouts",
    paths: ["recipe.rl.rollouts.**"],
    chosen: true,
    tell({ recipe: { rl } }) {
      if (rl.rollouts.placement === "colocated") return "on the trainer's GPUs";
      const { nodes, async } = rl.rollouts;
      const age =
        async === undefined ? "in turns" : `async, weights at most ${showNumber(async.maxAgeSteps)} steps old`;
      return `on dedicated nodes: ${showNumber(nodes)}, ${age}`;
    },
  },
  field("training", "seed", "recipe.seed"),
  {
    section: "training",
    subject: "checkpoints reported",
    paths: ["recipe.report.**"],
    chosen: true,
    tell: ({ recipe }) => recipe.report.map(({ stage, step }) => `${stage} ${step}`).join(", "),
  },
  field("training", "training rollouts in all", "estimate.attempts.rollouts"),
  field("training", "SFT trainer", "jobs.sft.trainer", plain),
  field("training", "RL trainer", "jobs.rl.trainer", plain),
  field("training", "base model's files", "baseModel.digest"),
  field("training", "base model's size", "baseModel.bytes", showGib),
  field("training", "RL starts from", "jobs.rl.startFrom", plain),
  { ...field("training", "description", "recipe.description"), chosen: false },
  field("training", "recipe's name", "name", plain),
];

function stageRules(stage: StageName): Rule[] {
  const label = STAGES[stage];
  const at = (name: string) => `recipe.${stage}.${name}`;
  return [
    field("training", `${label} steps`, at("steps")),
    field("training", `${label} learning rate`, at("learningRate")),
    field("training", `${label} schedule`, at("schedule"), plain),
    field("training", `${label} warm-up steps`, at("warmupSteps")),
    field("training", `${label} weight decay`, at("weightDecay")),
    field("training", `${label} gradient norm`, at("maxGradNorm")),
    {
      section: "training",
      subject: `${label} LoRA`,
      paths: [at("lora.**")],
      chosen: true,
      tell(plan) {
        const settings = stageOf(plan, stage);
        if (settings === null) return null;
        if (settings.lora === undefined) return "none: all weights are trained";
        const { rank, alpha } = settings.lora;
        return `rank ${showNumber(rank)}, alpha ${alpha === undefined ? "2 × rank" : showNumber(alpha)}`;
      },
    },
    field("training", `${label} saves every`, at("saveEverySteps"), (steps: number) => `${showNumber(steps)} steps`),
    {
      section: "training",
      subject: `${label} parallelism asked for`,
      paths: [at("parallelism.**")],
      chosen: true,
      tell(plan) {
        const asked = stageOf(plan, stage)?.parallelism;
        return asked === undefined ? null : showValue(asked);
      },
    },
  ];
}
