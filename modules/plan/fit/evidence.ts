/**
 * Layouts that are known to run, or not to, with the models they are about. The planner uses them to say "proven"; the
 * tests beside this file hold the memory model against every one of them. Pure data.
 *
 * Rows are nemo.md 6.1 (values re-read in NVIDIA's repositories at the commits named there) and issues where users or
 * NVIDIA report running out of memory. GPUs are 80 GiB H100 where a source does not say otherwise.
 */
import type { Degrees } from "../../../schemas/layout.ts";
import { MODELS, type Model } from "../../../schemas/model.ts";

const H100_GIB = 80;

/** Nobody trains or serves these by us. */
const notOurs = { toolCallParser: null, reasoningParser: null, rotary: null } as const;
const text = { visionParameters: 0, linearAttention: null, ...notOurs } as const;

/** Models that appear only in evidence. `source` says where their sizes are from. */
export const EVIDENCE_MODELS = {
  "Qwen/Qwen3-30B-A3B": {
    ...{ ...text, name: "Qwen/Qwen3-30B-A3B", architecture: "Qwen3MoeForCausalLM", modelType: "qwen3_moe" },
    ...{ family: "qwen3", parameters: 30_532_000_000, activeParameters: 3_350_000_000, nativeContextTokens: 40_960 },
    ...{ layers: 48, fullAttentionLayers: 48, hiddenSize: 2048, ffnSize: 768, attentionHeads: 32, kvHeads: 4 },
    ...{ headDim: 128, vocabularySize: 151_936, experts: { count: 128, perToken: 8 } },
    source: "slime scripts/models/qwen3-30B-A3B.sh; totals from the model's name and card",
  },
  "Qwen/Qwen3-8B": {
    ...{ ...text, name: "Qwen/Qwen3-8B", architecture: "Qwen3ForCausalLM", modelType: "qwen3", family: "qwen3" },
    ...{ parameters: 8_190_000_000, activeParameters: 8_190_000_000, nativeContextTokens: 40_960, layers: 36 },
    ...{ fullAttentionLayers: 36, hiddenSize: 4096, ffnSize: 12_288, attentionHeads: 32, kvHeads: 8, headDim: 128 },
    ...{ vocabularySize: 151_936, experts: null, source: "public config.json" },
  },
  "Qwen/Qwen3-0.6B": {
    ...{ ...text, name: "Qwen/Qwen3-0.6B", architecture: "Qwen3ForCausalLM", modelType: "qwen3", family: "qwen3" },
    ...{ parameters: 596_000_000, activeParameters: 596_000_000, nativeContextTokens: 40_960, layers: 28 },
    ...{ fullAttentionLayers: 28, hiddenSize: 1024, ffnSize: 3072, attentionHeads: 16, kvHeads: 8, headDim: 128 },
    ...{ vocabularySize: 151_936, experts: null, source: "public config.json" },
  },
  "Qwen/Qwen2.5-1.5B": {
    ...{ ...text, name: "Qwen/Qwen2.5-1.5B", architecture: "Qwen2ForCausalLM", modelType: "qwen2", family: "qwen2.5" },
    ...{ parameters: 1_544_000_000, activeParameters: 1_544_000_000, nativeContextTokens: 131_072, layers: 28 },
    ...{ fullAttentionLayers: 28, hiddenSize: 1536, ffnSize: 8960, attentionHeads: 12, kvHeads: 2, headDim: 128 },
    ...{ vocabularySize: 151_936, experts: null, source: "public config.json" },
  },
  "nvidia/Nemotron-3-Nano-30B-A3B": {
    ...{ ...notOurs, name: "nvidia/Nemotron-3-Nano-30B-A3B", architecture: "NemotronHForCausalLM" },
    ...{ modelType: "nemotron_h", family: "nemotron", parameters: 31_600_000_000, activeParameters: 3_500_000_000 },
    ...{ visionParameters: 0, nativeContextTokens: 262_144, layers: 52, fullAttentionLayers: 6, hiddenSize: 2688 },
    ...{ ffnSize: 1856, attentionHeads: 32, kvHeads: 2, headDim: 128, vocabularySize: 131_072 },
    ...{ linearAttention: { keyHeads: 8, valueHeads: 64, headDim: 64 }, experts: { count: 128, perToken: 6 } },
    source:
      "Megatron-LM examples/post_training/modelopt/conf; NVIDIA's sizing guide for totals. Mamba-2 as linear heads",
  },
  "nvidia/Nemotron-3-Super-120B-A12B": {
    ...{ ...notOurs, name: "nvidia/Nemotron-3-Super-120B-A12B", architecture: "NemotronHForCausalLM" },
    ...{ modelType: "nemotron_h", family: "nemotron", parameters: 120_000_000_000, activeParameters: 12_000_000_000 },
    ...{ visionParameters: 0, nativeContextTokens: 262_144, layers: 88, fullAttentionLayers: 8, hiddenSize: 4096 },
    ...{ ffnSize: 2688, attentionHeads: 32, kvHeads: 2, headDim: 128, vocabularySize: 131_072 },
    ...{ linearAttention: { keyHeads: 8, valueHeads: 128, headDim: 64 }, experts: { count: 512, perToken: 22 } },
    source: "Megatron-LM examples/post_training/modelopt/conf; totals from the model's name. Mamba-2 as linear heads",
  },
  "google/gemma-3-27b-it": {
    ...{ ...notOurs, name: "google/gemma-3-27b-it", architecture: "Gemma3ForConditionalGeneration" },
    ...{ modelType: "gemma3", family: "gemma", parameters: 27_432_000_000, activeParameters: 27_432_000_000 },
    ...{ visionParameters: 417_000_000, nativeContextTokens: 131_072, layers: 62, fullAttentionLayers: 10 },
    ...{ hiddenSize: 5376, ffnSize: 21_504, attentionHeads: 32, kvHeads: 16, headDim: 128, linearAttention: null },
    ...{ vocabularySize: 262_208, experts: null, source: "public config.json; every sixth layer sees all tokens" },
  },
  "google/gemma-4-31B": {
    ...{ ...notOurs, name: "google/gemma-4-31B", architecture: "Gemma4ForConditionalGeneration" },
    ...{ modelType: "gemma4", family: "gemma", parameters: 31_000_000_000, activeParameters: 31_000_000_000 },
    ...{ visionParameters: 500_000_000, nativeContextTokens: 262_144, layers: 60, fullAttentionLayers: 10 },
    ...{ hiddenSize: 5376, ffnSize: 21_504, attentionHeads: 32, kvHeads: 16, headDim: 256, linearAttention: null },
    ...{ vocabularySize: 262_144, experts: null },
    source: "slime scripts/models/gemma4-31B.sh; totals from the model's name, vision tower estimated",
  },
  "Qwen/Qwen3.5-35B-A3B": {
    ...{ ...notOurs, name: "Qwen/Qwen3.5-35B-A3B", architecture: "Qwen3_5MoeForConditionalGeneration" },
    ...{ modelType: "qwen3_5_moe", family: "qwen3.5", parameters: 35_000_000_000, activeParameters: 3_000_000_000 },
    ...{ visionParameters: 460_000_000, nativeContextTokens: 262_144, layers: 40, fullAttentionLayers: 10 },
    ...{ hiddenSize: 2048, ffnSize: 512, attentionHeads: 16, kvHeads: 2, headDim: 256, vocabularySize: 248_320 },
    ...{ linearAttention: { keyHeads: 16, valueHeads: 32, headDim: 128 }, experts: { count: 256, perToken: 8 } },
    source: "slime scripts/models/qwen3.5-35B-A3B.sh; totals from the model's name",
  },
  "Qwen/Qwen3.5-122B-A10B": {
    ...{ ...notOurs, name: "Qwen/Qwen3.5-122B-A10B", architecture: "Qwen3_5MoeForConditionalGeneration" },
    ...{ modelType: "qwen3_5_moe", family: "qwen3.5", parameters: 122_000_000_000, activeParameters: 10_000_000_000 },
    ...{ visionParameters: 460_000_000, nativeContextTokens: 262_144, layers: 48, fullAttentionLayers: 12 },
    ...{ hiddenSize: 3072, ffnSize: 1024, attentionHeads: 32, kvHeads: 2, headDim: 256, vocabularySize: 248_320 },
    ...{ linearAttention: { keyHeads: 16, valueHeads: 64, headDim: 128 }, experts: { count: 256, perToken: 8 } },
    source:
      "12 of 48 layers with full attention: fitmygpu.com; 256 experts: transformers docs; widths not confirmed here",
  },
} as const satisfies Record<string, Model>;

/** vLLM beside training or on nodes of its own, in a row. */
interface Generation {
  readonly tensorParallel: number;
  readonly gpuMemoryUtilization: number;
}

/** A training layout with what became of it. */
export interface EvidenceRow {
  readonly id: string;
  readonly source: string;
  readonly trainer: "automodel" | "dtensor" | "megatron";
  readonly model: Model;
  readonly contextTokens: number;
  readonly train: Degrees;
  readonly gpuGib: number;
  readonly loraRank: number | null;
  /** Megatron and DTensor: whether vLLM shares the GPUs; "none" where nothing is generated. */
  readonly placement: "colocated" | "dedicated" | "none";
  readonly generation: Generation | null;
  /** Sequences lie in one row without padding. Megatron refuses context parallelism without it. */
  readonly packing: boolean;
  /** Its source does not say how long sequences were: such a row is no proof. */
  readonly lengthAssumed?: true;
  /** Tokens whose logits are fp32 at once; null where all are. */
  readonly logprobChunkTokens: number | null;
  readonly saveAll: boolean;
  readonly fusedLoss: boolean;
  /** "shipped": NVIDIA ships and tests it. "reported": someone says so. */
  readonly outcome: "shipped" | "reported to run" | "out of memory" | "memory risk";
}

const degrees = (tp: number, cp: number, pp: number, ep: number, dp: number): Degrees => ({
  tensorParallel: tp,
  contextParallel: cp,
  pipelineParallel: pp,
  expertParallel: ep,
  dataParallel: dp,
  sequenceParallel: tp > 1,
});

const shipped = { gpuGib: H100_GIB, loraRank: null, saveAll: false, outcome: "shipped" } as const;
// NeMo-RL's base recipe for GRPO packs, and so does every long-context one; rows that switch it off say so.
const megatron = { ...shipped, trainer: "megatron", packing: true, fusedLoss: false } as const;
const automodel = {
  ...shipped,
  trainer: "automodel",
  placement: "none",
  generation: null,
  packing: false,
  logprobChunkTokens: null,
  fusedLoss: true,
} as const;
const at = (tensorParallel: number, gpuMemoryUtilization: number): Generation => ({
  tensorParallel,
  gpuMemoryUtilization,
});
const E = EVIDENCE_MODELS;
const RL_RECIPES = "NVIDIA-NeMo/RL 7ea279ab examples/configs/recipes/llm";
const GYM_RECIPES = "NVIDIA-NeMo/RL 7ea279ab examples/nemo_gym";

/** Every training layout of nemo.md 6.1, and RL#903. */
export const EVIDENCE: readonly EvidenceRow[] = [
  {
    ...{ ...megatron, id: "30b-a3b-swe1", source: `${GYM_RECIPES}/grpo_qwen3_30ba3b_thinking_swe1.yaml` },
    ...{ model: E["Qwen/Qwen3-30B-A3B"], contextTokens: 131_072, train: degrees(2, 4, 2, 8, 4) },
    ...{ placement: "dedicated", generation: at(2, 0.8), logprobChunkTokens: 2048 },
  },
  {
    ...{ ...megatron, id: "30b-a3b-swe2", source: `${GYM_RECIPES}/grpo_qwen3_30ba3b_thinking_swe2.yaml` },
    ...{ model: E["Qwen/Qwen3-30B-A3B"], contextTokens: 131_072, train: degrees(4, 4, 2, 8, 2) },
    ...{ placement: "dedicated", generation: at(2, 0.8), logprobChunkTokens: 2048 },
  },
  {
    ...{ ...megatron, id: "nano-3n8g", source: `${RL_RECIPES}/grpo-nanov3-30ba3b-3n8g-megatron-dynamo-swe1.yaml` },
    ...{ model: E["nvidia/Nemotron-3-Nano-30B-A3B"], contextTokens: 196_608, train: degrees(4, 2, 1, 8, 2) },
    ...{ placement: "dedicated", generation: at(4, 0.85), logprobChunkTokens: 1024 },
  },
  {
    ...{ ...megatron, id: "super-swe2-20n", source: `${GYM_RECIPES}/nemotron-3-super/small_scale` },
    ...{ model: E["nvidia/Nemotron-3-Super-120B-A12B"], contextTokens: 196_608, train: degrees(8, 16, 1, 16, 1) },
    ...{ placement: "dedicated", generation: at(8, 0.75), logprobChunkTokens: 2048 },
  },
  {
    ...{ ...megatron, id: "super-swe1-64n", source: `${GYM_RECIPES}/nemotron-3-super/stage2_swe1.yaml` },
    ...{ model: E["nvidia/Nemotron-3-Super-120B-A12B"], contextTokens: 131_072, train: degrees(8, 16, 1, 8, 2) },
    ...{ placement: "dedicated", generation: at(8, 0.8), logprobChunkTokens: 2048 },
  },
  {
    ...{ ...megatron, id: "super-swe2-64n", source: `${GYM_RECIPES}/nemotron-3-super/stage2_swe2.yaml` },
    ...{ model: E["nvidia/Nemotron-3-Super-120B-A12B"], contextTokens: 196_608, train: degrees(8, 16, 1, 16, 2) },
    ...{ placement: "dedicated", generation: at(8, 0.75), logprobChunkTokens: 2048 },
  },
  {
    ...{ ...megatron, id: "30b-a3b-40k", source: `${RL_RECIPES}/performance/grpo-qwen3-30ba3b-4n8g-40K.yaml` },
    ...{ model: E["Qwen/Qwen3-30B-A3B"], contextTokens: 40_960, train: degrees(4, 8, 1, 8, 1) },
    ...{ placement: "colocated", generation: at(2, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "1.5b-256k", source: `${RL_RECIPES}/grpo-qwen2.5-1.5B-4n8g-megatron-yarn-256k.yaml` },
    ...{ model: E["Qwen/Qwen2.5-1.5B"], contextTokens: 262_144, train: degrees(1, 32, 1, 1, 1), saveAll: true },
    ...{ placement: "colocated", generation: at(1, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "0.6b-128k", source: `${RL_RECIPES}/sft-qwen3-0.6B-1n8g-megatron-yarn-128k.yaml` },
    ...{ model: E["Qwen/Qwen3-0.6B"], contextTokens: 131_072, train: degrees(1, 8, 1, 1, 1), saveAll: true },
    ...{ placement: "none", generation: null, logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "32b-4n8g", source: `${RL_RECIPES}/performance/grpo-qwen3-32b-4n8g.yaml` },
    ...{ model: MODELS["Qwen/Qwen3-32B"], contextTokens: 4096, train: degrees(4, 1, 4, 1, 2), saveAll: true },
    ...{ placement: "colocated", generation: at(4, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "32b-8n8g", source: `${RL_RECIPES}/performance/grpo-qwen3-32b-8n8g-async-1off.yaml` },
    ...{ model: MODELS["Qwen/Qwen3-32B"], contextTokens: 4096, train: degrees(4, 1, 4, 1, 2), saveAll: true },
    ...{ placement: "dedicated", generation: at(4, 0.8), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "gemma3-27b", source: `${RL_RECIPES}/grpo-gemma3-27b-it-8n8g-fsdp2tp8-actckpt-long.yaml` },
    ...{
      trainer: "dtensor",
      packing: false,
      model: E["google/gemma-3-27b-it"],
      contextTokens: 16_384,
      train: degrees(8, 1, 1, 1, 8),
    },
    ...{ placement: "colocated", generation: at(4, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "9b-4k", source: `${RL_RECIPES}/grpo-qwen3.5-9b-1n8g-megatron.yaml` },
    ...{ packing: false, model: MODELS["Qwen/Qwen3.5-9B"], contextTokens: 4096, train: degrees(4, 1, 1, 1, 2) },
    ...{ placement: "colocated", generation: at(4, 0.7), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "35b-a3b-4k", source: `${RL_RECIPES}/grpo-qwen3.5-35ba3b-2n8g-megatron-ep16tp2cp2.yaml` },
    ...{ model: E["Qwen/Qwen3.5-35B-A3B"], contextTokens: 4096, train: degrees(2, 2, 1, 16, 4) },
    ...{ placement: "colocated", generation: at(4, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "8b-lora", source: `${RL_RECIPES}/grpo-qwen3-8b-base-1n8g-megatron-lora.yaml` },
    // Micro batches of 4 sequences of 2048 tokens count as one of 8192.
    ...{ model: E["Qwen/Qwen3-8B"], contextTokens: 8192, train: degrees(1, 1, 1, 1, 8), loraRank: 128 },
    ...{ packing: false, placement: "colocated", generation: at(1, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "nano-lora", source: `${RL_RECIPES}/grpo-nanov3-30BA3B-2n8g-megatron-lora.yaml` },
    ...{ model: E["nvidia/Nemotron-3-Nano-30B-A3B"], contextTokens: 2048, train: degrees(2, 1, 1, 8, 8) },
    ...{
      packing: false,
      loraRank: 128,
      saveAll: true,
      placement: "colocated",
      generation: at(4, 0.7),
      logprobChunkTokens: null,
    },
  },
  {
    ...{ ...megatron, id: "32b-128k-pr957", source: "NVIDIA-NeMo/RL PR #957 (open)", outcome: "reported to run" },
    ...{ model: MODELS["Qwen/Qwen3-32B"], contextTokens: 131_072, train: degrees(8, 4, 1, 1, 1) },
    ...{ placement: "colocated", generation: at(8, 0.6), logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "1.5b-sft-cp2", source: "NVIDIA-NeMo/RL#903", outcome: "out of memory", saveAll: true },
    ...{ model: E["Qwen/Qwen2.5-1.5B"], contextTokens: 32_768, train: degrees(1, 2, 1, 1, 256) },
    ...{ placement: "none", generation: null, logprobChunkTokens: null },
  },
  {
    ...{ ...megatron, id: "1.5b-sft-cp4", source: "NVIDIA-NeMo/RL#903", outcome: "reported to run", saveAll: true },
    ...{ model: E["Qwen/Qwen2.5-1.5B"], contextTokens: 32_768, train: degrees(1, 4, 1, 1, 128) },
    ...{ placement: "none", generation: null, logprobChunkTokens: null },
  },
  {
    ...{ ...automodel, id: "32b-cp16", source: "Automodel examples/long_context_validation/qwen3_32b" },
    ...{ model: MODELS["Qwen/Qwen3-32B"], contextTokens: 131_072, train: degrees(1, 16, 1, 1, 8) },
  },
  {
    ...{
      ...automodel,
      id: "32b-cp8",
      source: "notes of the same recipe: 16,384 tokens a rank",
      outcome: "memory risk",
    },
    ...{ model: MODELS["Qwen/Qwen3-32B"], contextTokens: 131_072, train: degrees(1, 8, 1, 1, 16) },
  },
  {
    ...{ ...automodel, id: "gemma4-31b-cp8", source: "Automodel examples/long_context_validation/gemma4_31B" },
    ...{ model: E["google/gemma-4-31B"], contextTokens: 65_536, train: degrees(1, 8, 1, 1, 16) },
  },
  {
    ...{
      ...automodel,
      id: "122b-cp32",
      source: "Automodel examples/vlm_finetune/qwen3_5_moe/qwen3_5_122b_128k_ep8cp32.yaml",
    },
    ...{ model: E["Qwen/Qwen3.5-122B-A10B"], contextTokens: 131_072, train: degrees(1, 32, 1, 8, 4) },
  },
  {
    ...{ ...automodel, id: "27b-tp4-cp2", source: "Automodel examples/vlm_finetune/qwen3_5/qwen3_6_27b_medpix_cp2" },
    ...{ model: MODELS["Qwen/Qwen3.6-27B"], contextTokens: 2048 },
    train: { ...degrees(4, 2, 1, 1, 2), sequenceParallel: false },
  },
  {
    ...{ ...automodel, id: "27b-lora-dp8", source: "Automodel examples/vlm_finetune/qwen3_8/qwen3_8_27b_lora.yaml" },
    // The guide names one node of 8 H100 80 GB and no length: that MedPix questions are about this short is assumed.
    // Their logits are made all at once.
    ...{ model: MODELS["Qwen/Qwen3.8-27B"], contextTokens: 1024, train: degrees(1, 1, 1, 1, 8), loraRank: 8 },
    ...{ fusedLoss: false, lengthAssumed: true },
  },
  {
    ...{ ...automodel, id: "27b-full-dp8", source: "Automodel docs/guides/vlm/qwen3-8.mdx, 8 H100 80 GB" },
    ...{ model: MODELS["Qwen/Qwen3.8-27B"], contextTokens: 1024, train: degrees(1, 1, 1, 1, 8) },
    ...{ fusedLoss: false, lengthAssumed: true },
  },
  {
    ...{ ...megatron, id: "27b-full-tp4-pp4", source: "Megatron-Bridge qwen35_vl_27b_sft_16gpu_h100_bf16_config" },
    ...{ model: MODELS["Qwen/Qwen3.5-27B"], contextTokens: 4096, saveAll: true },
    // Micro batches of 4 short picture questions count as one sequence of 4096.
    train: { ...degrees(4, 1, 4, 1, 1), sequenceParallel: false },
    ...{ packing: false, placement: "none", generation: null, logprobChunkTokens: null, fusedLoss: true },
  },
  {
    ...{ ...megatron, id: "27b-lora-tp2", source: "Megatron-Bridge qwen35_vl_27b_peft_2gpu_h100_bf16_config" },
    ...{ model: MODELS["Qwen/Qwen3.5-27B"], contextTokens: 4096, loraRank: 32 },
    train: { ...degrees(2, 1, 1, 1, 1), sequenceParallel: false },
    ...{
      packing: false,
      placement: "none",
      generation: null,
      logprobChunkTokens: null,
      saveAll: true,
      fusedLoss: true,
    },
  },
];
