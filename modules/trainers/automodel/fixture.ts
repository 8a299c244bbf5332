/**
 * Fixture: an SFT stage of Qwen3.8-27B on AWS H100 nodes, as planning would hand it over; for tests only.
 */
import { modelFacts } from "../../../schemas/model.ts";
import { Recipe, type SftRlRecipe } from "../../../schemas/recipe.ts";
import { StageInput } from "../../../schemas/stage.ts";
import { ClusterTarget } from "../../../schemas/target.ts";

const digest = `sha256:${"0".repeat(64)}`;

/** What a test may change. */
export interface StageChanges {
  readonly model?: string;
  readonly sft?: Partial<SftRlRecipe["sft"]>;
  readonly recipe?: Partial<SftRlRecipe>;
  readonly tensorParallel?: number;
  readonly contextParallel?: number;
  readonly pipelineParallel?: number;
  readonly nodes?: number;
  readonly wandb?: boolean;
}

/** LoRA of rank 32 at 131,072 tokens, 8 trajectories a step, on one node of 8 GPUs that share each sequence. */
export function stageInput(changes: StageChanges = {}): StageInput & { recipe: SftRlRecipe } {
  const { tensorParallel = 1, contextParallel = 8, pipelineParallel = 1, nodes = 1 } = changes;
  const name = changes.model ?? "Qwen/Qwen3.8-27B";
  const recipe = Recipe.parse({
    kind: "sft-rl",
    name: "github-sft-rl",
    model: name,
    context: "128k",
    tasks: { kind: "dataset", family: "github", index: "tasks.json", digest, split: { heldOut: 46 } },
    sft: {
      ...{ steps: 20, batchSize: 8, learningRate: 1e-4, warmupSteps: 2, lora: { rank: 32, alpha: 64 } },
      ...{ saveEverySteps: 10, ...changes.sft },
    },
    rl: {
      ...{ steps: 40, promptsPerStep: 16, rolloutsPerPrompt: 8, learningRate: 1e-5, lora: { rank: 32 } },
      ...{ maxTurns: 100, maxTokensPerTurn: 8192, saveEverySteps: 10 },
    },
    report: [
      { stage: "sft", step: 20 },
      { stage: "rl", step: 40 },
    ],
    evaluation: {
      ...{ name: "agentic", attempts: 8, temperature: 1, topP: 1, maxTurns: 100, maxTokensPerTurn: 8192, seed: 0 },
      failureRule: { retries: 3, exhausted: "counts-as-failure" },
    },
    ...changes.recipe,
  });
  const input = StageInput.parse({
    recipe,
    name: "github-sft-rl",
    stage: "sft",
    model: modelFacts(name),
    contextTokens: 131_072,
    startFrom: `/fsx/models/${name.replace("/", "--")}`,
    layout: {
      kind: "sft",
      nodes,
      gpusPerNode: 8,
      train: {
        ...{ tensorParallel, contextParallel, pipelineParallel, expertParallel: 1 },
        dataParallel: (nodes * 8) / (tensorParallel * contextParallel * pipelineParallel),
        sequenceParallel: tensorParallel > 1,
      },
      microBatch: 1,
    },
    target: ClusterTarget.parse({
      kind: "aws",
      name: "aws-p5",
      region: "us-east-1",
      zones: ["us-east-1a"],
      instance: "p5.48xlarge",
      maxNodes: 8,
      pricing: { kind: "on-demand" },
      images: { automodel: `nemo-automodel@${digest}`, nemoRl: `nemo-rl@${digest}`, vllm: `vllm@${digest}` },
      storage: {},
      environments: { host: "environments", port: 9601 },
      ...(changes.wandb ? { wandb: { entity: "lab", project: "uplift" } } : {}),
    }),
    walltimeSeconds: 4 * 3600,
    identity: "${" + "RUN_ID}-sft",
  });
  return { ...input, recipe: recipe as SftRlRecipe };
}
