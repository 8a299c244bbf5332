import { describe, expect, it } from "vitest";
import { MODELS } from "../../schemas/model.ts";
import { Recipe } from "../../schemas/recipe.ts";
import { checkContext } from "./check-context.ts";

const model = MODELS["Qwen/Qwen3-32B"];
const rope = { type: "yarn", factor: 4, originalMaxTokens: 32_768 };

function codes(context: unknown, block: object | undefined): string[] {
  const recipe = Recipe.parse({
    ...{ kind: "rl", model: model.name, context, rope: block },
    tasks: { kind: "generated", family: "chores", seed: 1, count: 100, split: { heldOut: 8 } },
    rl: {
      ...{ steps: 10, promptsPerStep: 4, rolloutsPerPrompt: 4, learningRate: 1e-5, maxTurns: 4, maxTokensPerTurn: 64 },
      saveEverySteps: 5,
    },
    report: [{ stage: "rl", step: 10 }],
    evaluation: {
      ...{ name: "p", attempts: 8, temperature: 1, topP: 1, maxTurns: 4, maxTokensPerTurn: 64, seed: 0 },
      failureRule: { retries: 3, exhausted: "counts-as-failure" },
    },
  });
  return checkContext({ recipe, model, nativeContextTokens: model.nativeContextTokens }).map(({ code }) => code);
}

describe("a context beyond the model's own", () => {
  it("needs a RoPE block, and the vendor's block is accepted", () => {
    expect(codes("128k", undefined)).toEqual(["context-beyond-model"]);
    expect(codes("128k", rope)).toEqual([]);
    expect(codes(40_960, undefined)).toEqual([]);
  });

  it("is told the block that fits, from what the model was trained on", () => {
    const recipe = { context: "128k", model: model.name } as unknown as Recipe;
    const [mistake] = checkContext({ recipe, model, nativeContextTokens: model.nativeContextTokens });
    expect(mistake?.todo).toContain("factor: 4, originalMaxTokens: 32768");
  });

  it("has a block that reaches it, is the model's, and has its ramp the right way round", () => {
    expect(codes("128k", { ...rope, factor: 2 })).toEqual(["rope-too-short"]);
    expect(codes("256k", rope)).toEqual(["rope-too-short"]);
    expect(codes("128k", { ...rope, originalMaxTokens: 1_000_000, factor: 4 })).toEqual(["rope-not-the-models"]);
    expect(codes("128k", { ...rope, theta: 5 })).toEqual(["rope-not-the-models"]);
    expect(codes("128k", { ...rope, betaFast: 1, betaSlow: 32 })).toEqual(["rope-ramp-reversed"]);
  });
});

it("a block within the model's own context is refused: stretching changes short texts too", () => {
  expect(codes(32_768, rope)).toEqual(["rope-not-needed"]);
});
