/**
 * What an estimate is made from, and what comes out. Types only.
 */
import type { Issue } from "../../../schemas/error.ts";
import type { Cost, Range, StageCost } from "../../../schemas/estimate.ts";
import type { Instance } from "../../../schemas/instance.ts";
import type { StageLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import type { TaskSetSummary, Warning } from "../../../schemas/plan.ts";
import type { Pricing } from "../../../schemas/pricing.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import type { Spread } from "./spread.ts";

/** A recipe, where it runs, and how its stages lie on GPUs. */
export interface CostInput {
  readonly recipe: Recipe;
  readonly model: Model;
  readonly contextTokens: number;
  readonly instance: Instance;
  readonly pricing: Pricing;
  readonly taskSet: TaskSetSummary;
  readonly layouts: readonly StageLayout[];
  /** Region of the nodes; null outside AWS. */
  readonly region: string | null;
  /** The partition's limit of one job. */
  readonly maxWalltimeSeconds: number;
  /** Sustained read of one node from shared storage, GB/s. Default 1. */
  readonly readGbPerSecond?: number;
  /** Nodes the target may use: what a capacity block must hold. Default: those of the widest stage. */
  readonly maxNodes?: number;
  /** Tasks one evaluation measures. Default: the task set's held-out ones. */
  readonly evaluatedTasks?: number;
  /** Attempts an evaluation has under way at once. Default 16, as modules/evaluation. */
  readonly evaluationAtOnce?: number;
}

/** Money and time of a plan, with every mistake and warning found on the way. */
export interface CostEstimate {
  readonly cost: Cost;
  /** Slurm's limit for one job of the stage. */
  readonly walltimeSeconds: { sft?: number; rl: number };
  readonly issues: Issue[];
  readonly warnings: Warning[];
}

/** A stage's estimate before it is priced and rounded. */
export interface StageEstimate {
  readonly stage: StageCost["stage"];
  readonly nodes: number;
  readonly gpus: number;
  readonly stepSeconds: Range;
  readonly seconds: Spread;
  /** Slurm's limit for one of its jobs; null where no batch job is made. */
  readonly walltimeSeconds: number | null;
  /** Shortest limit under which one of its jobs gets as far as a saved step; null as above. */
  readonly leastWalltimeSeconds: number | null;
  readonly why: string[];
}
