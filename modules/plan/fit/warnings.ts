/**
 * Recipe + chosen layouts → what a reader should know before money is spent on them. Pure.
 */
import type { Instance } from "../../../schemas/instance.ts";
import type { StageLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Warning } from "../../../schemas/plan.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { SERVABLE_LORA_RANKS } from "./constants.ts";

/** Warnings about layouts; the order is fixed. */
export function layoutWarnings(
  recipe: Recipe,
  model: Model,
  instance: Instance,
  layouts: readonly StageLayout[],
): Warning[] {
  const warnings: Warning[] = [];
  const stages = [
    ...(recipe.kind === "sft-rl" ? [{ stage: "sft", lora: recipe.sft.lora }] : []),
    { stage: "rl", lora: recipe.rl.lora },
  ];
  for (const { stage, lora } of stages)
    if (lora !== undefined && !SERVABLE_LORA_RANKS.includes(lora.rank))
      warnings.push({
        code: "lora-rank-not-servable",
        path: `${stage}.lora.rank`,
        message: `vLLM loads adapters of rank ${SERVABLE_LORA_RANKS.join(", ")}, not ${lora.rank}; merged models, which is what is served here, are not affected`,
        todo: "use one of these ranks if the adapter itself is to be served some day",
      });
  if (recipe.rl.lora !== undefined)
    warnings.push({
      code: "lora-merged-rollouts",
      path: "rl.lora",
      message:
        "NeMo-RL folds adapters into the bfloat16 base for rollouts, where small updates can be lost to rounding (NVIDIA-NeMo/RL#3696)",
      todo: "watch train/gen_kl_error over the first steps; raise alpha or the learning rate, or train all weights, if it grows",
    });
  if (recipe.rl.rollouts.placement === "colocated" && model.family === "qwen3.5")
    warnings.push({
      code: "colocated-vision-model",
      path: "rl.rollouts.placement",
      message:
        "putting a colocated vLLM to sleep has corrupted weights of vision-language models such as Qwen3.5 (NVIDIA-NeMo/RL#2631)",
      todo: "stop if train/gen_kl_error grows in steps 2 and 3, or use dedicated rollouts",
    });
  for (const { stage, layout, fit } of layouts) {
    if (fit.confidence === "unproven")
      warnings.push({
        code: "layout-unproven",
        path: stage,
        message: fit.why.at(-1) ?? "Unproven",
        todo: "run two steps at full context before the whole run, and look at the memory they used",
      });
    if (layout.nodes > 1 && instance.efaInterfaces === 0)
      warnings.push({
        code: "no-efa",
        path: stage,
        message: `${layout.nodes} nodes of ${instance.name} talk without EFA or another RDMA network the plan knows of`,
        todo: "expect slow steps, or use an instance with EFA interfaces",
      });
  }
  return warnings;
}
