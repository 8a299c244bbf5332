/**
 * Fixture: the reference case's recipe on H100 nodes, with changes, and how tests write a layout down.
 */
import { INSTANCES, type InstanceName } from "../../../schemas/instance.ts";
import type { StageLayout } from "../../../schemas/layout.ts";
import { MODELS } from "../../../schemas/model.ts";
import { Recipe, type RecipeInput } from "../../../schemas/recipe.ts";
import { chooseLayouts, type FitInput, type FitResult } from "./index.ts";

/** Every instance there is. */
export const instanceNames = Object.keys(INSTANCES) as InstanceName[];

type Rl = Extract<RecipeInput, { kind: "rl" }>["rl"];
type Sft = Extract<RecipeInput, { kind: "sft-rl" }>["sft"];

/** The adapters of the reference case. */
export const lora = { rank: 32 };

/** The reference case's recipe, with changes to its stages. */
export function recipe({ sft = {}, rl = {} }: { sft?: Partial<Sft>; rl?: Partial<Rl> } = {}): Recipe {
  return Recipe.parse({
    ...{ kind: "sft-rl", model: "Qwen/Qwen3.8-27B", context: "128k" },
    tasks: { kind: "generated", family: "any", seed: 1, count: 100, split: { heldOut: 10 } },
    sft: { steps: 40, batchSize: 16, learningRate: 1e-4, saveEverySteps: 20, lora, ...sft },
    rl: {
      ...{ steps: 40, promptsPerStep: 16, rolloutsPerPrompt: 8, learningRate: 1e-5, saveEverySteps: 20, lora },
      ...{ maxTurns: 40, maxTokensPerTurn: 4096, ...rl },
    },
    report: [{ stage: "rl", step: 40 }],
    evaluation: {
      ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 40, maxTokensPerTurn: 4096, seed: 0 },
      failureRule: { retries: 3, exhausted: "counts-as-failure" },
    },
  });
}

/** What is chosen for it on H100 nodes, with changes. */
export function choose(changes: Partial<FitInput> = {}): FitResult {
  return chooseLayouts({
    ...{ recipe: recipe(), model: MODELS["Qwen/Qwen3.8-27B"], contextTokens: 131_072 },
    ...{ instance: INSTANCES["p5.48xlarge"], maxNodes: 8, readGbPerSecond: 1, sharedMemoryGib: 512, ...changes },
  });
}

/** The layout of one stage. */
export function stageOf({ layouts }: FitResult, stage: StageLayout["stage"]): StageLayout {
  const found = layouts.find((each) => each.stage === stage);
  if (found === undefined) throw new Error(`no layout of ${stage}`);
  return found;
}

/** "2: TP8 CP2 PP1 DP1", nodes and degrees. */
export function shape({ layout }: StageLayout): string {
  if (layout.kind === "serving") return `TP${layout.engine.tensorParallel} DP${layout.engine.dataParallel}`;
  const { tensorParallel, contextParallel, pipelineParallel, dataParallel } = layout.train;
  return `${layout.nodes}: TP${tensorParallel} CP${contextParallel} PP${pipelineParallel} DP${dataParallel}`;
}
