/**
 * A model → what Automodel 0.7.0 can do with it: which of its classes loads it, whether that class shares a sequence
 * over GPUs, and where its language model lies. Read from the 0.7.0 wheel (`ModelCapabilities` in
 * nemo_automodel/components/models, the table in _transformers/capabilities.py). Pure.
 */
import type { Model } from "../../../schemas/model.ts";

/** How Automodel treats an architecture. */
export interface Architecture {
  /** Automodel's own code loads it (and takes `model.backend`), not stock transformers. */
  readonly native: boolean;
  /** Context parallelism works. */
  readonly contextParallel: boolean;
  /** Wildcard of the modules that hold the language model's layers; null where it is not known. */
  readonly languageLayers: string | null;
  /** The last pipeline stage can hand hidden states to a fused loss; else the trainer falls back to full logits. */
  readonly fusedLossInPipeline: boolean;
  /** Its tensor-parallel plan splits norms and dropout along the sequence when asked to. */
  readonly sequenceParallel: boolean;
}

const native = { native: true, contextParallel: true, fusedLossInPipeline: true, sequenceParallel: true } as const;
/** Their plan is transformers' own, which leaves activations whole; their forward pass under a pipeline is their own. */
const qwen35 = { native: true, fusedLossInPipeline: false, sequenceParallel: false } as const;

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  Qwen3_5ForConditionalGeneration: {
    ...qwen35,
    contextParallel: true,
    languageLayers: "model.language_model.layers.*",
  },
  Qwen3_5MoeForConditionalGeneration: {
    ...qwen35,
    contextParallel: true,
    languageLayers: "model.language_model.layers.*",
  },
  Qwen3_5ForCausalLM: { ...qwen35, contextParallel: false, languageLayers: "model.layers.*" },
  Qwen3ForCausalLM: { ...native, languageLayers: "model.layers.*" },
  Qwen3MoeForCausalLM: { ...native, languageLayers: "model.layers.*" },
  Qwen2ForCausalLM: { ...native, languageLayers: "model.layers.*" },
  LlamaForCausalLM: { ...native, languageLayers: "model.layers.*" },
};

/** What Automodel can do with a model; one it has no class for is loaded by transformers, hybrids then without context parallelism. */
export function architectureOf(model: Model): Architecture {
  const known = ARCHITECTURES[model.architecture];
  if (known) return known;
  return {
    native: false,
    contextParallel: model.linearAttention === null,
    languageLayers: null,
    fusedLossInPipeline: true,
    sequenceParallel: true,
  };
}
