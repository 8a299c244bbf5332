/**
 * Stage: what a trainer's adapter renders one stage's configuration from. Paths begin with `${RUN_DIR}`, the run's
 * folder on shared storage, which is not known before the run is submitted.
 */
import { z } from "zod";
import { RlLayout, SftLayout } from "./layout.ts";
import { Model } from "./model.ts";
import { Recipe } from "./recipe.ts";
import { ClusterTarget } from "./target.ts";

export const StageInput = z.strictObject({
  recipe: Recipe,
  /** The recipe's name, always set. */
  name: z.string(),
  stage: z.enum(["sft", "rl"]),
  model: Model,
  contextTokens: z.number().int().positive(),
  /** Path of the full model the stage starts from, as jobs see it. */
  startFrom: z.string(),
  layout: z.discriminatedUnion("kind", [SftLayout, RlLayout]),
  target: ClusterTarget,
  /** Slurm's limit of one job of the stage, seconds. */
  walltimeSeconds: z.number().int().positive(),
  /** Id of the run in Weights & Biases, "${RUN_ID}-rl": a restart goes on in the same one. Jobs have RUN_ID in their environment. */
  identity: z.string(),
});
export type StageInput = z.infer<typeof StageInput>;
