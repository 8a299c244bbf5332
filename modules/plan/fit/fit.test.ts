import { describe, expect, test } from "vitest";
import { INSTANCES, type InstanceName } from "../../../schemas/instance.ts";
import type { RlLayout } from "../../../schemas/layout.ts";
import { MODELS } from "../../../schemas/model.ts";
import { choose, instanceNames, recipe, shape, stageOf } from "./fixture.ts";
import type { FitInput } from "./index.ts";
import { fits } from "./memory.ts";
import { rlMemory } from "./rl-memory.ts";

describe("the reference case: Qwen3.8-27B, adapters, colocated rollouts", () => {
  test.each([
    ["p5.48xlarge", 131_072, "2: TP1 CP16 PP1 DP1", "1: TP8 CP1 PP1 DP1", 34, 52],
    ["p5.48xlarge", 262_144, "4: TP1 CP32 PP1 DP1", "2: TP8 CP2 PP1 DP1", 36, 26],
    ["p5en.48xlarge", 131_072, "1: TP1 CP8 PP1 DP1", "1: TP4 CP1 PP1 DP2", 76, 108],
    ["p5en.48xlarge", 262_144, "2: TP1 CP16 PP1 DP1", "1: TP8 CP1 PP1 DP1", 38, 54],
    ["p6-b200.48xlarge", 131_072, "1: TP1 CP4 PP1 DP2", "1: TP4 CP1 PP1 DP2", 104, 142],
    ["p6-b200.48xlarge", 262_144, "1: TP1 CP8 PP1 DP1", "1: TP8 CP1 PP1 DP1", 52, 72],
  ] as const)("%s at %i tokens: SFT on %s, GRPO on %s", (name, contextTokens, sft, rl, rollouts, sequences) => {
    const result = choose({ instance: INSTANCES[name], contextTokens });
    expect(result.issues).toEqual([]);
    expect(shape(stageOf(result, "sft"))).toBe(sft);
    expect(shape(stageOf(result, "rl"))).toBe(rl);
    expect(stageOf(result, "rl").layout).toMatchObject({ generation: { concurrentSequences: rollouts } });
    expect(shape(stageOf(result, "serving"))).toBe("TP4 DP2");
    expect(stageOf(result, "serving").layout).toMatchObject({ engine: { concurrentSequences: sequences } });
  });

  test("every term of the SFT step is there with its arithmetic, the largest first", () => {
    const { fit } = stageOf(choose(), "sft");
    expect(fit.terms.map(({ name, gib }) => [name, gib])).toEqual([
      ["saved activations", 25],
      ["context-parallel gather", 6],
      ["framework", 5],
      ["embedding and head", 4.74],
      ["weights", 3.23],
      ["one layer's working set", 2.69],
      ["gathered layers", 2.16],
      ["loss", 0.31],
      ["adapters", 0.19],
    ]);
    expect(fit.terms[0]?.how).toBe("5 vectors a layer × 8192 tokens (131072 / CP16) × 5120 × 2 bytes × 64 layers");
    expect([fit.totalGib, fit.limitGib]).toEqual([49.33, 76]);
  });

  test("the plan says what the nearest cheaper layout lacked, and how sure it is", () => {
    const { fit } = stageOf(choose(), "sft");
    expect(fit.why).toEqual([
      "2 nodes, TP1 × CP16 × DP1: 49.33 of 76 GiB a GPU (train step), 35.1 % free",
      "The nearest cheaper one, 2 nodes, TP1 × CP8 × DP2, needs 77.33 of 76 GiB (train step), 50 of them saved activations",
      "Derived: arithmetic on sourced sizes with 35.1 % free; no run like it is known",
    ]);
    expect(fit.notes).toEqual(["2 nodes talk over 32 EFA interfaces each"]);
  });

  test("a dense Qwen3.5 with packed sequences under Megatron is unproven, with or without context parallelism", () => {
    const result = choose({ contextTokens: 262_144 });
    const why =
      "Unproven: of a dense Qwen3.5 with packed sequences under Megatron, NVIDIA ships only the 9B in FP8 at 4,096 tokens (its bf16 recipe leaves packing off); longer packed runs are of other models";
    expect(stageOf(choose(), "rl").fit).toMatchObject({ confidence: "unproven", why: expect.arrayContaining([why]) });
    expect(stageOf(result, "rl").fit.why.at(-1)).toBe(
      `${why}, and context parallelism it lists for Qwen3.5's mixtures alone`,
    );
    expect(result.warnings.map(({ code, path }) => [code, path])).toEqual([
      ["lora-merged-rollouts", "rl.lora"],
      ["colocated-vision-model", "rl.rollouts.placement"],
      ["layout-unproven", "rl"],
    ]);
  });

  test("frozen base weights stay on the GPU while rollouts are generated, so the plan counts them", () => {
    expect(stageOf(choose(), "rl").fit.notes.join("\n")).toContain("10.22 GiB of training stay on each GPU");
    const full = choose({ recipe: recipe({ rl: { lora: undefined } }) });
    expect(stageOf(full, "rl").fit.notes.join("\n")).toContain("3.86 GiB of training stay on each GPU");
  });
});

describe("a recipe's own degrees", () => {
  test("are kept, and the rest is chosen", () => {
    const given = choose({ recipe: recipe({ rl: { parallelism: { tensorParallel: 4, nodes: 2 } } }) });
    expect(shape(stageOf(given, "rl"))).toBe("2: TP4 CP4 PP1 DP1");
    expect(stageOf(given, "rl").fit.notes).toContain("The recipe gives nodes 2, tensorParallel 4");
  });

  test("are proven where NVIDIA ships the same on as large GPUs, and no longer where they ask for more of a GPU", () => {
    const confidenceOf = (contextParallel: number, instance: InstanceName) =>
      stageOf(
        choose({
          ...{ model: MODELS["Qwen/Qwen3-32B"], instance: INSTANCES[instance], maxNodes: 16 },
          recipe: recipe({ sft: { lora: undefined, parallelism: { nodes: 16, contextParallel } } }),
        }),
        "sft",
      ).fit;
    expect(confidenceOf(16, "p5.48xlarge").confidence).toBe("proven");
    expect(confidenceOf(16, "p5.48xlarge").why.at(-1)).toBe(
      "Proven: Automodel examples/long_context_validation/qwen3_32b asks at least as much of a GPU and runs",
    );
    expect(confidenceOf(16, "p5en.48xlarge").confidence).toBe("proven");
    expect(confidenceOf(8, "p5en.48xlarge").confidence).toBe("derived");
  });

  test("may use up the room a chosen layout would keep, and are called unproven then", () => {
    const parallelism = { tensorParallel: 4, contextParallel: 2, nodes: 1 };
    const { layout, fit } = stageOf(choose({ recipe: recipe({ rl: { parallelism } }) }), "rl");
    expect(layout).toMatchObject({ nodes: 1, sequenceDivisor: 16, logprobChunkTokens: 2048 });
    expect(fit.confidence).toBe("unproven");
  });

  test.each<[string, Parameters<typeof recipe>[0], string[]]>([
    [
      "tensor parallel 16: over two nodes, and 24 heads",
      { rl: { parallelism: { tensorParallel: 16 } } },
      [
        "tensor-parallel-across-nodes rl.parallelism.tensorParallel",
        "heads-not-divisible rl.parallelism.tensorParallel",
      ],
    ],
    [
      "tensor parallel 8 × context parallel 4: 16 DeltaNet key heads",
      { rl: { parallelism: { tensorParallel: 8, contextParallel: 4 } } },
      ["delta-net-heads-not-divisible rl.parallelism.contextParallel"],
    ],
    [
      "tensor parallel 8 for SFT: Automodel splits 4 KV heads and repeats none",
      { sft: { parallelism: { tensorParallel: 8 } } },
      ["heads-not-divisible sft.parallelism.tensorParallel"],
    ],
    [
      "pipeline parallel 3: 64 layers",
      { rl: { parallelism: { pipelineParallel: 3, nodes: 3, tensorParallel: 8 } } },
      ["layers-not-divisible rl.parallelism.pipelineParallel"],
    ],
    [
      "context parallel 16 on one node: 16 GPUs are not 8",
      { sft: { parallelism: { contextParallel: 16, nodes: 1 } } },
      ["gpus-not-divisible sft.parallelism.nodes"],
    ],
    [
      "a batch of 3 on two groups",
      { sft: { batchSize: 3, parallelism: { contextParallel: 8, nodes: 2 } } },
      ["batch-not-divisible sft.batchSize"],
    ],
    [
      "9 nodes where the target has 8",
      { sft: { parallelism: { nodes: 9 } } },
      ["too-many-nodes sft.parallelism.nodes"],
    ],
    [
      "two of two nodes that only generate",
      { rl: { parallelism: { nodes: 2 }, rollouts: { placement: "dedicated", nodes: 2 } } },
      ["no-training-node rl.rollouts.nodes"],
    ],
  ])("are refused by the rule they break: %s", (_, parts, codes) => {
    expect(choose({ recipe: recipe(parts) }).issues.map(({ code, path }) => `${code} ${path}`)).toEqual(codes);
  });

  test("all mistakes of both stages are reported together", () => {
    const parallelism = { tensorParallel: 16 };
    const { issues, layouts } = choose({ recipe: recipe({ sft: { parallelism }, rl: { parallelism } }) });
    expect(issues.map(({ path }) => path.split(".")[0])).toEqual(["sft", "sft", "rl", "rl"]);
    expect(layouts.map(({ stage }) => stage)).toEqual(["serving"]);
  });

  test("a context that no padding divides is one mistake of both stages, with the rounder neighbour that suits both", () => {
    expect(choose({ contextTokens: 131_071 }).issues).toEqual([
      {
        ...{ code: "context-not-divisible", path: "context", asked: "a context of 131071 tokens" },
        found:
          "SFT pads sequences to a multiple of 2: 2 × context parallel 1; GRPO pads sequences to a multiple of 2: 2 × context parallel 1",
        ...{ allowed: "a multiple of 2, for both", todo: "use 131072 tokens" },
      },
    ]);
    expect(choose({ contextTokens: 8193 }).issues.map(({ todo }) => todo)).toEqual(["use 8192 tokens"]);
  });

  test("stages that pad differently are given a context that suits both", () => {
    const parts = { sft: { parallelism: { contextParallel: 8 } }, rl: { parallelism: { tensorParallel: 8 } } };
    const { issues } = choose({ recipe: recipe(parts), contextTokens: 131_000 });
    expect(issues.map(({ allowed, todo }) => [allowed, todo])).toEqual([
      ["a multiple of 16, for both", "use 131008 tokens"],
    ]);
    const one = choose({ recipe: recipe({ rl: parts.rl }), contextTokens: 131_000 });
    const issue = one.issues.find(({ code }) => code === "context-not-divisible");
    expect(issue?.found).toBe("GRPO pads sequences to a multiple of 16: 2 × context parallel 1 × tensor parallel 8");
    expect(issue?.allowed).toBe("a multiple of 16");
  });

  test("that are refused themselves are not advised on: tensor parallel 3 asks for no context or nodes that it divides", () => {
    const { issues } = choose({ recipe: recipe({ rl: { parallelism: { tensorParallel: 3, nodes: 1 } } }) });
    expect(issues.map(({ code, path }) => `${code} ${path}`)).toEqual([
      "heads-not-divisible rl.parallelism.tensorParallel",
      "delta-net-heads-not-divisible rl.parallelism.contextParallel",
    ]);
  });
});

describe("packing", () => {
  const packingOf = (changes: Partial<FitInput>) => {
    const { layout } = stageOf(choose(changes), "rl");
    if (layout.kind !== "rl") throw new Error("not a layout of RL");
    return layout.packing;
  };
  const padded = (contextTokens: number, train: RlLayout["train"], gpuGib: number) =>
    rlMemory({
      ...{ model: MODELS["Qwen/Qwen3.8-27B"], contextTokens, gpuGib, train, loraRank: 32, colocated: true },
      ...{ packing: false, logprobChunkTokens: 2048 },
    });
  const train = {
    ...{ tensorParallel: 8, contextParallel: 1, pipelineParallel: 1, expertParallel: 1, dataParallel: 1 },
    sequenceParallel: true,
  };

  test("is on beyond 8,192 tokens and with context parallelism; below, only Qwen3.5 is left padded, as NVIDIA's recipe does", () => {
    expect(packingOf({})).toBe(true);
    expect(packingOf({ contextTokens: 8200 })).toBe(true);
    expect(packingOf({ contextTokens: 8192 })).toBe(false);
    expect(packingOf({ contextTokens: 8192, model: MODELS["Qwen/Qwen3-32B"] })).toBe(true);
    const parallelism = { contextParallel: 2 };
    expect(packingOf({ contextTokens: 8192, recipe: recipe({ rl: { parallelism } }) })).toBe(true);
  });

  test("padded sequences cost Megatron's mask: 9 bytes a pair of positions, half a GiB at 8k, 144 GiB at 128k, 576 at 256k", () => {
    const maskOf = (contextTokens: number) =>
      padded(contextTokens, train, 80).terms.find(({ name }) => name === "attention mask");
    expect([8192, 131_072, 262_144].map((tokens) => maskOf(tokens)?.gib)).toEqual([0.56, 144, 576]);
    expect(maskOf(131_072)?.how).toBe("131072² pairs of positions × 9 bytes, because sequences are not packed");
    expect(stageOf(choose(), "rl").fit.terms.map(({ name }) => name)).not.toContain("attention mask");
    expect(stageOf(choose({ contextTokens: 8192 }), "rl").fit.terms).toContainEqual(
      expect.objectContaining({ name: "attention mask", gib: 0.56 }),
    );
  });

  test("128k without it fits no GPU of 80 or 141 GiB under any split, 256k none that there is", () => {
    const memoryOf = (name: InstanceName) => INSTANCES[name].gpuMemoryMib / 1024;
    for (const tensorParallel of [1, 2, 4, 8])
      for (const contextParallel of [1, 2, 4, 8, 16, 32])
        for (const pipelineParallel of [1, 2, 4, 8]) {
          const split = { ...train, tensorParallel, contextParallel, pipelineParallel };
          for (const name of ["p5.48xlarge", "p5en.48xlarge"] as const)
            expect(fits(padded(131_072, split, memoryOf(name)))).toBe(false);
          for (const name of instanceNames) expect(fits(padded(262_144, split, memoryOf(name)))).toBe(false);
        }
  });
});

describe("rollouts on nodes of their own", () => {
  test("take whole nodes beside those that train, and no vLLM sleeps beside the trainer", () => {
    const result = choose({ recipe: recipe({ rl: { rollouts: { placement: "dedicated", nodes: 2 } } }) });
    const { layout, fit } = stageOf(result, "rl");
    expect(layout).toMatchObject({
      ...{ nodes: 3, generationNodes: 2, gpusPerNode: 8 },
      generation: { tensorParallel: 4, dataParallel: 4, gpuMemoryUtilization: 0.8 },
    });
    expect(fit.terms.map(({ name }) => name)).not.toContain("sleeping vLLM");
    expect(result.warnings.map(({ code }) => code)).toEqual(["lora-merged-rollouts", "layout-unproven"]);
  });
});

describe("warnings", () => {
  test("a rank that vLLM cannot serve as an adapter is named; merged models are not affected", () => {
    const { warnings } = choose({ recipe: recipe({ sft: { lora: { rank: 24 } } }) });
    expect(warnings[0]).toMatchObject({ code: "lora-rank-not-servable", path: "sft.lora.rank" });
  });

  test("nodes without EFA are named", () => {
    const instance = { ...INSTANCES["p5.48xlarge"], efaInterfaces: 0 };
    expect(choose({ instance }).warnings.map(({ code }) => code)).toContain("no-efa");
  });
});
