/**
 * Rules on the DTensor backend. Configuration → violation or null. Pure.
 */
import { type Config, type Rule, type RuleContext, shown, type Violation } from "./rule.ts";

const both = ["grpo", "sft"] as const;
const CP = "policy.dtensor_cfg.context_parallel_size";

/** Families whose attention on DTensor can't be split along the sequence. */
const NO_CONTEXT_PARALLEL = ["qwen3_5", "gemma3"];

/** A rule that holds only where DTensor trains. */
function onDtensor(check: (config: Config, context: RuleContext) => Violation | null): Rule["check"] {
  return (config, context) => (config.isDtensor ? check(config, context) : null);
}

const splitsSequences = (config: Config): boolean => config.count(CP) > 1;

/** Rules on DTensor. */
export const DTENSOR_RULES: readonly Rule[] = [
  {
    id: "dt-cp-no-pack",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:384",
    check: onDtensor((config) => {
      if (!splitsSequences(config) || !config.packs) return null;
      return {
        path: "policy.sequence_packing.enabled",
        asked: `context parallel ${config.count(CP)} with packed sequences`,
        found: "DTensor splits only unpacked ones",
        allowed: "false with context parallelism on DTensor",
        todo: "set it to false, or train with Megatron",
      };
    }),
  },
  {
    id: "dt-cp-no-sp",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:635",
    check: onDtensor((config) => {
      const { tp, cp } = config.degrees;
      if (cp <= 1 || tp <= 1 || !config.on("policy.dtensor_cfg.sequence_parallel")) return null;
      return {
        path: "policy.dtensor_cfg.sequence_parallel",
        asked: `sequence parallelism with tensor ${tp} and context ${cp}`,
        found: "the two splits of the sequence contradict each other on DTensor",
        allowed: "false with both degrees above 1",
        todo: "set it to false",
      };
    }),
  },
  {
    id: "dt-cp-no-vlm",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:642",
    check: onDtensor((config) => {
      if (!splitsSequences(config) || !config.isVisionRun) return null;
      return {
        path: CP,
        asked: `context parallel ${config.count(CP)} on a run with images`,
        found: "DTensor can't split a sequence that holds images",
        allowed: "1 for a vision run",
        todo: "set it to 1, or train with Megatron",
      };
    }),
  },
  {
    id: "dt-cp-no-qwen35-dense",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:628-651",
    check: onDtensor((config, { model }) => {
      if (!splitsSequences(config) || !NO_CONTEXT_PARALLEL.includes(model.modelType)) return null;
      return {
        path: CP,
        asked: `context parallel ${config.count(CP)} for ${model.name}`,
        found: `DTensor refuses it for model_type ${model.modelType}: only torch's own attention is there`,
        allowed: "1 on DTensor; any with Megatron",
        todo: "train with Megatron: policy.megatron_cfg.enabled true, policy.dtensor_cfg.enabled false",
      };
    }),
  },
  {
    id: "dt-pack-no-vlm",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:299",
    check: onDtensor((config) => {
      if (!config.packs || !config.isVisionRun) return null;
      return {
        path: "policy.sequence_packing.enabled",
        asked: "packed sequences on a run with images",
        found: "DTensor packs text only",
        allowed: "false for a vision run",
        todo: "set it to false",
      };
    }),
  },
  {
    id: "dt-no-yarn",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:311",
    check: onDtensor((config) => {
      const path = "policy.hf_config_overrides.rope_scaling.rope_type";
      if (config.get(path) !== "yarn") return null;
      return {
        path,
        asked: "a context stretched by YaRN",
        found: "DTensor refuses YaRN",
        allowed: "YaRN with Megatron only",
        todo: "train with Megatron, or keep to the model's own context",
      };
    }),
  },
  {
    id: "dt-lora-tp-triton",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:666",
    check: onDtensor((config) => {
      const path = "policy.dtensor_cfg.lora_cfg.use_triton";
      const { tp } = config.degrees;
      if (!config.on("policy.dtensor_cfg.lora_cfg.enabled") || tp <= 1 || config.get(path) === false) return null;
      return {
        path,
        asked: `LoRA with tensor parallel ${tp}`,
        found: `use_triton is ${shown(config.get(path))}, and its kernels work on whole layers only`,
        allowed: "false, written out",
        todo: `set ${path} to false`,
      };
    }),
  },
  {
    id: "dt-pack-fa2",
    applies: both,
    source: "nemo_rl/models/automodel/setup.py:702",
    check: onDtensor((config) => {
      const path = "policy.dtensor_cfg.automodel_kwargs.attn_implementation";
      const attention = config.get(path);
      if (!config.packs || attention === undefined || attention === "flash_attention_2") return null;
      return {
        path,
        asked: `packed sequences with attention ${shown(attention)}`,
        found: "packing needs an attention that knows where sequences end",
        allowed: '"flash_attention_2", or nothing',
        todo: "remove the key",
      };
    }),
  },
];
