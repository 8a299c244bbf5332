/**
 * Merge command: a base model and an adapter → the process that merges them into a full model. Pure.
 * The merge itself is the trainer's (`uplift_trl merge`): whoever wrote an adapter knows how to fold it in.
 */
import { join } from "node:path";

/** A process to run. */
export interface Command {
  command: string;
  args: string[];
  env: Record<string, string>;
}

/** The merge of a LoRA adapter into its base; `output` then holds a full model with its rendering probe. */
export function mergeCommand(input: {
  python: string;
  projectDir: string;
  base: string;
  adapter: string;
  output: string;
}): Command {
  return {
    command: input.python,
    args: ["-m", "uplift_trl", "merge", "--base", input.base, "--adapter", input.adapter, "--output", input.output],
    env: {
      PYTHONPATH: join(input.projectDir, "modules", "trainers", "trl"),
      // More threads than free cores are far slower than one.
      OMP_NUM_THREADS: "1",
      HF_HUB_OFFLINE: "1",
    },
  };
}
