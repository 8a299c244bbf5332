/**
 * Model: what planning must know of a base model without its files: how long its context is, how its memory divides,
 * and how its tool calls are read. One row a model; a model that is not here is a folder with a config.json.
 */
import { z } from "zod";

const Count = z.number().int().positive();

export const Model = z.strictObject({
  /** Hugging Face id, e.g. "Qwen/Qwen3.8-27B". */
  name: z.string(),
  /** `architectures[0]` of its config.json; trainers choose their code by it. */
  architecture: z.string(),
  /** `model_type` of its config.json. */
  modelType: z.string(),
  /** The family decides chat template and parsers. */
  family: z.enum(["qwen3.5", "qwen3", "qwen2.5", "gemma", "nemotron", "kimi", "other"]),
  /** Parameters in all, of them active for one token, and of them in a vision tower. */
  parameters: Count,
  activeParameters: Count,
  visionParameters: z.number().int().nonnegative(),
  /** Tokens the model was made for; more needs a RoPE block. */
  nativeContextTokens: Count,
  layers: Count,
  /** Layers whose cache grows with the sequence; the others hold a state of fixed size. */
  fullAttentionLayers: Count,
  hiddenSize: Count,
  /** Width of the dense feed-forward part; of one expert in a mixture. */
  ffnSize: Count,
  attentionHeads: Count,
  kvHeads: Count,
  headDim: Count,
  /** Gated DeltaNet heads; null for full attention only. */
  linearAttention: z.strictObject({ keyHeads: Count, valueHeads: Count, headDim: Count }).nullable(),
  vocabularySize: Count,
  /**
   * Its rotary positions, as config.json's `rope_parameters` has them; null where nobody will stretch them (rows of
   * evidence). What reads a RoPE block puts it in place of the model's own, so all of the model's own is repeated.
   */
  rotary: z
    .strictObject({
      /** Tokens it was trained on, from which YaRN stretches; may be less than the native context. */
      originalTokens: Count,
      /** Base of the frequencies. */
      theta: z.number().positive(),
      /** Part of a head that is rotated; null for all of it. */
      partialFactor: z.number().gt(0).lte(1).nullable(),
      /** Frequencies of time, height and width, interleaved; null for plain positions. */
      mropeSection: z.tuple([Count, Count, Count]).readonly().nullable(),
    })
    .nullable(),
  /** Mixture of experts: how many, and how many a token uses; null for a dense model. */
  experts: z.strictObject({ count: Count, perToken: Count }).nullable(),
  /** vLLM's parsers; null where none is known. */
  toolCallParser: z.enum(["hermes", "qwen3_coder", "kimi_k2"]).nullable(),
  reasoningParser: z.enum(["qwen3", "kimi_k2"]).nullable(),
  /** Where the numbers come from. */
  source: z.string(),
});
export type Model = z.infer<typeof Model>;

const qwen35Dense = {
  architecture: "Qwen3_5ForConditionalGeneration",
  modelType: "qwen3_5",
  family: "qwen3.5",
  nativeContextTokens: 262_144,
  vocabularySize: 248_320,
  rotary: { originalTokens: 262_144, theta: 10_000_000, partialFactor: 0.25, mropeSection: [11, 11, 10] },
  headDim: 256,
  experts: null,
  toolCallParser: "qwen3_coder",
  reasoningParser: "qwen3",
} as const;

const qwen35Of27b = {
  ...qwen35Dense,
  parameters: 27_780_000_000,
  activeParameters: 27_780_000_000,
  visionParameters: 460_000_000,
  layers: 64,
  fullAttentionLayers: 16,
  hiddenSize: 5120,
  ffnSize: 17_408,
  attentionHeads: 24,
  kvHeads: 4,
  linearAttention: { keyHeads: 16, valueHeads: 48, headDim: 128 },
  source:
    "NVIDIA Automodel guide for Qwen3.8, slime's and vLLM's recipes: 55.56 GB in bfloat16; read config.json to confirm",
} as const;

/** The models recipes can name. */
export const MODELS = {
  "Qwen/Qwen3.8-27B": { name: "Qwen/Qwen3.8-27B", ...qwen35Of27b },
  "Qwen/Qwen3.6-27B": { name: "Qwen/Qwen3.6-27B", ...qwen35Of27b },
  "Qwen/Qwen3.5-27B": { name: "Qwen/Qwen3.5-27B", ...qwen35Of27b },
  "Qwen/Qwen3.5-9B": {
    name: "Qwen/Qwen3.5-9B",
    ...qwen35Dense,
    parameters: 9_650_000_000,
    activeParameters: 9_650_000_000,
    visionParameters: 460_000_000,
    layers: 32,
    fullAttentionLayers: 8,
    hiddenSize: 4096,
    ffnSize: 12_288,
    attentionHeads: 16,
    kvHeads: 4,
    linearAttention: { keyHeads: 16, valueHeads: 32, headDim: 128 },
    source: "public config of the 9B sibling; read config.json to confirm",
  },
  "Qwen/Qwen3-32B": {
    name: "Qwen/Qwen3-32B",
    architecture: "Qwen3ForCausalLM",
    modelType: "qwen3",
    family: "qwen3",
    parameters: 32_760_000_000,
    activeParameters: 32_760_000_000,
    visionParameters: 0,
    nativeContextTokens: 40_960,
    layers: 64,
    fullAttentionLayers: 64,
    hiddenSize: 5120,
    ffnSize: 25_600,
    attentionHeads: 64,
    kvHeads: 8,
    headDim: 128,
    linearAttention: null,
    vocabularySize: 151_936,
    rotary: { originalTokens: 32_768, theta: 1_000_000, partialFactor: null, mropeSection: null },
    experts: null,
    toolCallParser: "hermes",
    reasoningParser: "qwen3",
    source: "public config.json",
  },
} as const satisfies Record<string, Model>;
export type ModelName = keyof typeof MODELS;

/** A model's row, or null for one that is only a folder. */
export function modelFacts(name: string): Model | null {
  return name in MODELS ? MODELS[name as ModelName] : null;
}

/** Hex digits of a commit that a folder's name carries; its file uplift-revision has all of them. */
const REVISION_DIGITS = 12;

/** Folder of a base model on a cluster's shared storage; one a revision, so that two recipes can pin two. */
export function modelFolder(mountPath: string, name: string, revision: string | null): string {
  const pinned = revision ? `@${revision.slice(0, REVISION_DIGITS)}` : "";
  // A branch or a tag may have slashes, too.
  return `${mountPath}/models/${`${name}${pinned}`.replaceAll("/", "--")}`;
}
