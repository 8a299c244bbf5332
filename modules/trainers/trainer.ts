/**
 * Trainer: the interface behind which every trainer's adapter hides.
 * Takes a recipe's stage, returns configuration, a command line, and what the trainer has written so far.
 */
import type { Recipe } from "../../schemas/recipe.ts";

/** A process to start: nothing of it is a secret. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** One optimiser step as the trainer logged it. */
export interface StepMetrics {
  readonly step: number;
  readonly steps: number;
  readonly loss: number | null;
  readonly reward: number | null;
  /** Rollouts that the infrastructure broke for good: masked, not trained on; null where the trainer does not say. */
  readonly attemptsLost: number | null;
  /** Null where it cannot be told: of the first step after a start, from a log with a time on each line. */
  readonly seconds: number | null;
}

/** How one rollout of RL ended; `infrastructure` is nobody's answer. */
export interface RolloutOutcome {
  readonly step: number;
  readonly taskId: string;
  readonly outcome: "passed" | "failed" | "infrastructure";
}

/** What is known of a training job from its folder alone. */
export interface TrainingProgress {
  /** loading, training, saving, done; null before the trainer wrote anything. */
  readonly phase: string | null;
  readonly metrics: readonly StepMetrics[];
}

/** Where a cluster's training job leaves what it says of itself. */
export interface StageLog {
  /** What the batch script and, of SFT, the trainer print. */
  readonly logPath: string;
  /** The stage's last step. */
  readonly steps: number;
}

/** Progress of one job. It keeps its place in the logs, so that looking again reads only what is new. */
export interface ProgressReader {
  read(): Promise<TrainingProgress>;
}

/** What only the controller knows: paths and addresses of this machine. */
export interface TrainingInputs {
  /** Folder of the full model to start from. */
  readonly model: string;
  /** SFT: file of trajectories. */
  readonly trajectories?: string;
  /** RL: the tasks, their prompts, and the service that plays them. */
  readonly tasks?: readonly string[];
  readonly prompts?: Readonly<Record<string, string>>;
  readonly tools?: readonly unknown[];
  readonly environment?: { readonly url: string; readonly taskSet: string };
  readonly threads: number;
}

/** One trainer. */
export interface Trainer {
  /** The part of the configuration that is in the plan. */
  renderConfig(recipe: Recipe, stage: "sft" | "rl"): Record<string, unknown>;
  /** The whole configuration file, as it will lie beside the job. */
  completeConfig(config: Record<string, unknown>, inputs: TrainingInputs): Record<string, unknown>;
  trainCommand(options: {
    readonly python: string;
    readonly codeDir: string;
    readonly stage: "sft" | "rl";
    readonly configPath: string;
    readonly outputDir: string;
    readonly threads: number;
  }): Command;
  readProgress(outputDir: string): Promise<TrainingProgress>;
  /** Every rollout of an RL stage so far; none before its first step. */
  readOutcomes(outputDir: string): Promise<RolloutOutcome[]>;
}
