/**
 * The time model against published runs. They are of other models and lengths than ours; each says how close it comes.
 */
import { describe, expect, it } from "vitest";
import { peaksOf } from "../../../schemas/gpu-peaks.ts";
import { INSTANCES } from "../../../schemas/instance.ts";
import { MODELS, type Model } from "../../../schemas/model.ts";
import type { Values } from "./assumptions.ts";
import { rlLayout } from "./fixture.ts";
import { spread } from "./spread.ts";
import { type RlWork, rlStep, sftStep } from "./steps.ts";

const h100 = peaksOf(INSTANCES["p5.48xlarge"]);
const qwen32b = MODELS["Qwen/Qwen3-32B"];
const llama70b: Model = {
  ...qwen32b,
  name: "meta-llama/Llama-3.3-70B-Instruct",
  ...{ parameters: 70_550_000_000, activeParameters: 70_550_000_000, layers: 80, fullAttentionLayers: 80 },
  ...{ hiddenSize: 8192, ffnSize: 28_672, attentionHeads: 64, kvHeads: 8, headDim: 128 },
};
const qwen30bA3b: Model = {
  ...qwen32b,
  name: "Qwen/Qwen3-30B-A3B",
  ...{ parameters: 30_530_000_000, activeParameters: 3_350_000_000, layers: 48, fullAttentionLayers: 48 },
  ...{ hiddenSize: 2048, ffnSize: 768, attentionHeads: 32, kvHeads: 4, experts: { count: 128, perToken: 8 } },
};

/** One question, one answer: no environment to wait for. */
const singleTurn = (values: Values): Values => ({ ...values, turnSeconds: 0, attemptSeconds: 0 });

/** NeMo-RL v0.4's table: 2,048 answers a step, full training, KL penalty on, at most 4,096 tokens. */
const answers = (tokens: number, async: boolean): RlWork => ({
  contextTokens: 4096,
  batch: {
    attempts: 2048,
    atOnce: null,
    mean: { tokens, generated: tokens - 100, turns: 1 },
    slowest: { tokens: 4096, generated: 3996, turns: 1 },
  },
  training: { lora: false, recompute: false },
  referencePass: true,
  async,
});

describe("the time model", () => {
  it("puts LoRA on 8 H100 with Llama 70B near NVIDIA Automodel's published 26.92 s", () => {
    // Automodel docs/performance-summary.md: 32 sequences of 4,096, TP2 PP4.
    const { range } = spread((values) => {
      const degrees = { tensorParallel: 2, contextParallel: 1, pipelineParallel: 4, expertParallel: 1 };
      const train = { ...degrees, dataParallel: 1, sequenceParallel: false };
      const layout = { kind: "sft", nodes: 1, gpusPerNode: 8, train, microBatch: 1 } as const;
      const training = { lora: true, recompute: true };
      return sftStep(llama70b, h100, layout, { sequences: 32, tokens: 4096, training }, values).seconds;
    });
    expect(range.low).toBeLessThan(26.92);
    expect(range.high).toBeGreaterThan(26.92);
    expect(range.expected / 26.92).toBeGreaterThan(0.8);
    expect(range.expected / 26.92).toBeLessThan(1.25);
  });

  // NeMo-RL docs/about/performance-summary.md, v0.4, DGX-H100. Nothing is recomputed at 4,096 tokens.
  it.each([
    { what: "Qwen3-32B on 32 GPUs, colocated", model: qwen32b, nodes: 4, apart: 0, tokens: 3206, published: 393 },
    { what: "Qwen3-32B on 64 GPUs, one step off", model: qwen32b, nodes: 8, apart: 4, tokens: 3207, published: 215 },
    {
      what: "Qwen3-30B-A3B on 32 GPUs, colocated",
      model: qwen30bA3b,
      nodes: 4,
      apart: 0,
      tokens: 3154,
      published: 225,
    },
  ])("covers NeMo-RL's published step: $what", ({ model, nodes, apart, tokens, published }) => {
    const layout = rlLayout(nodes, 4, 256, apart);
    const work = answers(tokens, apart > 0);
    const { range } = spread((values) => rlStep(model, h100, layout, work, singleTurn(values)).seconds);
    expect(range.low).toBeLessThan(published);
    expect(range.high).toBeGreaterThan(published);
    expect(range.expected / published).toBeGreaterThan(0.8);
    expect(range.expected / published).toBeLessThan(1.5);
  });

  it("comes within a factor of four below DeepSWE's agentic steps: 200 in six days on 64 H100", () => {
    // together.ai/blog/deepswe and rLLM's examples/swe/train_deepswe_32b.sh: 8 tasks × 8 attempts, at most 50 turns and
    // 36,864 tokens, TP8. Eager mode and weights offloaded to the CPU, which this model does not know, cost them time.
    const base = rlLayout(8, 2, 20);
    const layout = { ...base, generation: { ...base.generation, tensorParallel: 8 } };
    const work: RlWork = {
      contextTokens: 36_864,
      batch: {
        attempts: 64,
        atOnce: null,
        mean: { tokens: 25_000, generated: 12_000, turns: 40 },
        slowest: { tokens: 36_864, generated: 30_000, turns: 50 },
      },
      training: { lora: false, recompute: true },
      referencePass: false,
      async: false,
    };
    const { range } = spread((values) => rlStep(qwen32b, h100, layout, work, values).seconds);
    const published = (6 * 86_400) / 200;
    expect(published / range.expected).toBeGreaterThan(1);
    expect(published / range.expected).toBeLessThan(4);
  });
});
