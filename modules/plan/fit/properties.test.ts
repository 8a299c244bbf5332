import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { INSTANCES } from "../../../schemas/instance.ts";
import { type RlLayout, type SftLayout, StageLayout } from "../../../schemas/layout.ts";
import { MODELS, type ModelName } from "../../../schemas/model.ts";
import { ROOM } from "./constants.ts";
import { choose, instanceNames, lora, recipe } from "./fixture.ts";
import type { FitInput } from "./index.ts";
import { fits, load } from "./memory.ts";
import { isAllowed, sequenceDivisor, type TrainRequest } from "./rules.ts";
import { type Candidate, isRoomy, worst } from "./search.ts";
import { rlCandidates, sftCandidates } from "./train-layouts.ts";

const anyInput = fc.record({
  model: fc.constantFrom(...(Object.keys(MODELS) as ModelName[])).map((name) => MODELS[name]),
  contextTokens: fc.integer({ min: 1, max: 256 }).map((units) => units * 1024),
  instance: fc.constantFrom(...instanceNames).map((name) => INSTANCES[name]),
  maxNodes: fc.integer({ min: 1, max: 6 }),
  readGbPerSecond: fc.constantFrom(0.5, 1, 4),
  sharedMemoryGib: fc.constant(64),
  recipe: fc
    .record({
      sft: fc.record({ batchSize: fc.integer({ min: 1, max: 48 }), lora: fc.constantFrom(lora, undefined) }),
      rl: fc.record({
        ...{ promptsPerStep: fc.integer({ min: 1, max: 48 }), lora: fc.constantFrom(lora, undefined) },
        rollouts: fc.constantFrom({ placement: "colocated" as const }, { placement: "dedicated" as const, nodes: 1 }),
      }),
    })
    .map(recipe),
});

function requestOf(stage: "sft" | "rl", input: FitInput): TrainRequest {
  const { recipe: of, model, contextTokens, instance, maxNodes } = input;
  if (of.kind !== "sft-rl") throw new Error("the recipes here train by SFT too");
  const { rl, sft } = of;
  const dedicated = rl.rollouts.placement === "dedicated" ? rl.rollouts.nodes : 0;
  return {
    ...{ stage, model, contextTokens, instance, maxNodes, given: {} },
    batch: stage === "sft" ? sft.batchSize : rl.promptsPerStep * rl.rolloutsPerPrompt,
    loraRank: (stage === "sft" ? sft : rl).lora?.rank ?? null,
    generationNodes: stage === "sft" ? 0 : dedicated,
  };
}

describe("for any recipe, model and node", () => {
  test("a chosen layout obeys every rule, fits in every phase, and its terms add up", () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        for (const stage of choose(input).layouts) {
          expect(StageLayout.parse(stage)).toEqual(stage);
          const { fit, layout } = stage;
          expect(fit.totalGib).toBeLessThanOrEqual(fit.limitGib);
          expect(fit.limitGib).toBeLessThan(input.instance.gpuMemoryMib / 1024);
          expect(fit.terms.reduce((sum, { gib }) => sum + gib, 0)).toBeCloseTo(fit.totalGib, 0);
          expect(fit.terms.map(({ gib }) => gib)).toEqual(fit.terms.map(({ gib }) => gib).sort((a, b) => b - a));
          if (layout.kind === "serving") continue;
          checkTraining(input, layout);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("no cheaper layout keeps the room, and one is refused only if none fits", () => {
    fc.assert(
      fc.property(anyInput, fc.constantFrom("sft" as const, "rl" as const), (input, kind) => {
        const request = requestOf(kind, input);
        const all: Candidate<unknown>[] = [...(kind === "sft" ? sftCandidates(request) : rlCandidates(request))];
        const chosen = choose(input).layouts.find(({ stage }) => stage === kind);
        const fitting = all.filter(({ phases }) => phases.every(fits));
        if (chosen === undefined) {
          expect(fitting).toEqual([]);
          return;
        }
        const roomy = fitting.filter(isRoomy);
        const isRoomyChosen = load(chosen.fit) <= 1 - ROOM;
        const nodes = "nodes" in chosen.layout ? chosen.layout.nodes : 0;
        const fewest = Math.min(...(isRoomyChosen ? roomy : fitting).map((each) => each.nodes));
        expect(nodes).toBe(fewest);
        // A tight one is taken only where a roomy one would cost more than twice as many nodes.
        if (!isRoomyChosen) expect(roomy.every((each) => each.nodes > 2 * nodes)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  test("the same input gives the same bytes", () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        expect(JSON.stringify(choose(input))).toBe(JSON.stringify(choose(structuredClone(input))));
      }),
      { numRuns: 20 },
    );
  });

  test("more context never takes less memory under the same layout", () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        const request = requestOf("rl", input);
        const longer = { ...request, contextTokens: request.contextTokens * 2 };
        const [first] = rlCandidates(request);
        const [second] = rlCandidates(longer);
        if (first === undefined || second === undefined) return;
        expect(worst(second).totalGib).toBeGreaterThanOrEqual(worst(first).totalGib);
      }),
      { numRuns: 30 },
    );
  });
});

function checkTraining(input: FitInput, layout: SftLayout | RlLayout): void {
  const { instance, contextTokens, maxNodes } = input;
  const { tensorParallel, contextParallel, pipelineParallel, dataParallel } = layout.train;
  const generationNodes = layout.kind === "rl" ? layout.generationNodes : 0;
  const trainNodes = layout.nodes - generationNodes;
  expect(layout.nodes).toBeLessThanOrEqual(maxNodes);
  expect(tensorParallel * contextParallel * pipelineParallel * dataParallel).toBe(trainNodes * instance.gpus);
  expect(isAllowed(requestOf(layout.kind, input), layout.train, trainNodes)).toBe(true);
  expect(contextTokens % sequenceDivisor(layout.train)).toBe(0);
  if (layout.kind !== "rl") return;
  const { generation } = layout;
  const generationGpus = (generationNodes || trainNodes) * instance.gpus;
  expect(generation.tensorParallel * generation.dataParallel).toBe(generationGpus);
  expect(generation.concurrentSequences).toBeGreaterThanOrEqual(1);
}
