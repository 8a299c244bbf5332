/**
 * Rules on the Megatron backend. Configuration → violation or null. Pure.
 */
import { type Config, type Rule, type RuleContext, shown, type Violation } from "./rule.ts";

const both = ["grpo", "sft"] as const;
const M = "policy.megatron_cfg";

/** What Megatron needs to know of YaRN; it asserts all eight. */
const YARN_FIELDS = [
  "rope_theta",
  "factor",
  "original_max_position_embeddings",
  "truncate",
  "beta_fast",
  "beta_slow",
  "mscale",
  "mscale_all_dim",
];
const EXPERT_MODULES = ["expert_fc1", "moe_act", "fused_group_mlp"];

/** A rule that holds only where Megatron trains. */
function onMegatron(check: (config: Config, context: RuleContext) => Violation | null): Rule["check"] {
  return (config, context) => (config.isMegatron ? check(config, context) : null);
}

/** The switch for log-probabilities without logits: it was renamed after the release. */
const FUSED = { "v0.7.0": `${M}.use_linear_ce_fusion_loss`, main: `${M}.use_fused_linear_logprobs` } as const;

function offloading(config: Config): Violation | null {
  const path = `${M}.optimizer.optimizer_cpu_offload`;
  const overlaps = config.on(`${M}.optimizer.overlap_cpu_optimizer_d2h_h2d`);
  if (!config.on(path))
    return overlaps
      ? {
          path: `${M}.optimizer.overlap_cpu_optimizer_d2h_h2d`,
          asked: "copies of an offloaded optimiser are to overlap",
          found: "the optimiser is not offloaded",
          allowed: "false without optimizer_cpu_offload",
          todo: "set it to false",
        }
      : null;
  const share = config.number(`${M}.optimizer.optimizer_offload_fraction`) ?? 0;
  const kind = config.text(`${M}.optimizer.optimizer`);
  const faults = [
    ...(share > 0 && share <= 1 ? [] : [`optimizer_offload_fraction is ${share}`]),
    ...(config.on(`${M}.optimizer.use_distributed_optimizer`) ? [] : ["use_distributed_optimizer is not true"]),
    ...(kind === "adam" || kind === "sgd" ? [] : [`the optimiser is ${shown(kind)}`]),
  ];
  if (faults.length === 0) return null;
  return {
    path,
    asked: "the optimiser is to lie in the CPU's memory",
    found: faults.join(", "),
    allowed: "a fraction above 0 and up to 1, use_distributed_optimizer true, adam or sgd",
    todo: "correct these keys, or set optimizer_cpu_offload to false",
  };
}

/** Rules on Megatron. */
export const MEGATRON_RULES: readonly Rule[] = [
  {
    id: "mg-cp-needs-pack",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:876-885",
    check: onMegatron((config, { dialect }) => {
      const { cp } = config.degrees;
      const fused = config.on(FUSED[dialect]);
      if (cp <= 1 || (config.packs && !fused)) return null;
      return {
        path: config.packs ? FUSED[dialect] : "policy.sequence_packing.enabled",
        asked: `context parallel ${cp}`,
        found: config.packs ? "logits are fused away, which whole sequences need" : "sequences are not packed",
        allowed: "packed sequences, and no fused log-probabilities, with context parallelism",
        todo: config.packs ? `set ${FUSED[dialect]} to false` : "set policy.sequence_packing.enabled to true",
      };
    }),
  },
  {
    id: "mg-pad-factor",
    applies: both,
    source: "nemo_rl/models/megatron/data.py:1284-1296",
    check: onMegatron((config) => {
      const path = "policy.make_sequence_length_divisible_by";
      const { tp, cp } = config.degrees;
      const divisor = config.number(path);
      const factor = (cp > 1 ? 2 * cp : 1) * (tp > 1 && config.on(`${M}.sequence_parallel`) ? tp : 1);
      if (!config.packs || divisor === null || divisor % factor === 0) return null;
      return {
        path,
        asked: `sequences are padded to multiples of ${divisor}`,
        found: `context parallel ${cp} and tensor parallel ${tp} split each into ${factor} equal pieces`,
        allowed: `multiples of ${factor}`,
        todo: `set it to ${factor}`,
      };
    }),
  },
  {
    id: "mg-chunk-defer",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:1238-1247",
    check: onMegatron((config) => {
      const chunk = config.number("policy.logprob_chunk_size") ?? 0;
      if (chunk <= 0 || config.on(`${M}.defer_fp32_logits`)) return null;
      return {
        path: `${M}.defer_fp32_logits`,
        asked: `log-probabilities ${chunk} tokens at a time`,
        found: "all logits are made in float32 first",
        allowed: "true with logprob_chunk_size",
        todo: `set ${M}.defer_fp32_logits to true`,
      };
    }),
  },
  {
    id: "mg-fused-no-pack",
    applies: ["grpo"],
    dialects: ["main"],
    source: "nemo_rl/algorithms/grpo.py:690-735; nemo_rl/models/megatron/setup.py:1396",
    check: onMegatron((config, { dialect }) => {
      if (!config.on(FUSED[dialect])) return null;
      // With context parallelism the rule mg-cp-needs-pack speaks.
      if (config.degrees.cp > 1) return null;
      const topK = config.number("policy.generation.top_k") ?? -1;
      const topP = config.number("policy.generation.top_p") ?? 1;
      const faults = [
        ...(config.packs ? ["sequences are packed"] : []),
        ...(topK > 0 ? [`top_k is ${topK}`] : []),
        ...(topP < 1 ? [`top_p is ${topP}`] : []),
        ...(config.on(`${M}.distributed_data_parallel_config.overlap_param_gather`)
          ? ["overlap_param_gather is true"]
          : []),
      ];
      if (faults.length === 0) return null;
      return {
        path: FUSED[dialect],
        asked: "log-probabilities are to be made without logits",
        found: faults.join(", "),
        allowed: "no packing, top_k null, top_p 1, overlap_param_gather false",
        todo: `set ${FUSED[dialect]} to false`,
      };
    }),
  },
  {
    id: "mg-yarn-complete",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:384-402",
    check: onMegatron((config) => {
      const path = "policy.hf_config_overrides.rope_scaling";
      if (config.get(`${path}.rope_type`) !== "yarn") return null;
      const missing = YARN_FIELDS.filter((field) => (config.get(`${path}.${field}`) ?? null) === null);
      if (missing.length === 0) return null;
      return {
        path,
        asked: "a context stretched by YaRN",
        found: `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not set`,
        allowed: `all of ${YARN_FIELDS.join(", ")}`,
        todo: missing.includes("rope_theta") ? "give rope.theta in the recipe" : "set them",
      };
    }),
  },
  {
    id: "mg-recompute",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:1088",
    check: onMegatron((config) => {
      const path = `${M}.recompute_granularity`;
      const granularity = config.get(path);
      if (!config.on(`${M}.activation_checkpointing`) || granularity === undefined) return null;
      if (granularity === "full" || granularity === "selective") return null;
      return {
        path,
        asked: `activations are to be recomputed ${shown(granularity)}`,
        found: "Megatron knows no such granularity",
        allowed: '"full" or "selective"',
        todo: 'set it to "full"',
      };
    }),
  },
  {
    id: "mg-offload-modules",
    applies: both,
    dialects: ["main"],
    source: "nemo_rl/models/megatron/setup.py:1190-1207",
    check: onMegatron((config, { model }) => {
      const path = `${M}.offload_modules`;
      if (!config.on(`${M}.fine_grained_activation_offloading`)) return null;
      const modules = config.list(path);
      const experts = modules.filter((module) => EXPERT_MODULES.includes(String(module)));
      if (modules.length > 0 && (experts.length === 0 || model.experts !== null)) return null;
      return {
        path,
        asked: "activations of named modules are to lie in the CPU's memory",
        found: modules.length === 0 ? "no module is named" : `${model.name} has no experts: ${experts.join(", ")}`,
        allowed: 'a list such as ["core_attn", "attn_proj"]',
        todo: "name the modules, or set fine_grained_activation_offloading to false",
      };
    }),
  },
  {
    id: "mg-opt-offload",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:1212-1235",
    check: onMegatron((config, { dialect }) => {
      const found = offloading(config);
      const share = config.number(`${M}.optimizer.optimizer_offload_fraction`);
      if (found !== null || dialect === "main" || !config.on(`${M}.optimizer.optimizer_cpu_offload`) || share === 1)
        return found;
      return {
        path: `${M}.optimizer.optimizer_offload_fraction`,
        asked: `${share} of the optimiser is to lie in the CPU's memory`,
        found: "v0.7.0 moves all of it or nothing",
        allowed: "1",
        todo: "set it to 1, or render for main",
      };
    }),
  },
  {
    id: "mg-peft-dim-alpha",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:1773",
    check: onMegatron((config) => {
      if (!config.on(`${M}.peft.enabled`)) return null;
      const missing = ["dim", "alpha"].find((name) => (config.get(`${M}.peft.${name}`) ?? null) === null);
      if (missing === undefined) return null;
      return {
        path: `${M}.peft.${missing}`,
        asked: "LoRA adapters",
        found: `${missing} is not set`,
        allowed: "a whole number for dim (the rank) and for alpha (the scale)",
        todo: `set ${M}.peft.${missing}`,
      };
    }),
  },
  {
    id: "mg-peft-exclude",
    applies: both,
    source: "Megatron-Bridge src/megatron/bridge/peft/module_matcher.py",
    check: onMegatron((config) => {
      const path = `${M}.peft.exclude_modules`;
      if (!config.on(`${M}.peft.enabled`) || config.list(path).length === 0) return null;
      const targets = config.list(`${M}.peft.target_modules`);
      if (targets.length === 0) return null;
      return {
        path,
        asked: `adapters on ${targets.length} named kinds of module, ${config.list(path).length} excluded`,
        found: "modules are either named or excluded",
        allowed: "[] with target_modules",
        todo: "empty one of the two lists",
      };
    }),
  },
  {
    id: "mg-router-replay",
    applies: ["grpo"],
    source: "nemo_rl/models/megatron/data.py:330",
    check: onMegatron((config, { model }) => {
      const path = "policy.router_replay.enabled";
      if (!config.on(path) || model.family !== "qwen3.5") return null;
      return {
        path,
        asked: "experts chosen in rollouts are to be replayed in training",
        found: `${model.name} packs its sequences itself, so that the choices can't be laid beside the tokens`,
        allowed: "false for the Qwen3.5 family",
        todo: "set it to false",
      };
    }),
  },
  {
    id: "mg-precision",
    applies: both,
    source: "nemo_rl/models/megatron/setup.py:1334",
    check: onMegatron((config) => {
      const path = `${M}.optimizer.bf16`;
      if (config.get("policy.precision") !== "bfloat16" || config.on(path)) return null;
      if (!config.on(`${M}.optimizer.use_precision_aware_optimizer`)) return null;
      return {
        path,
        asked: "training in bfloat16 with the precision-aware optimiser",
        found: `the optimiser's bf16 is ${shown(config.get(path))}`,
        allowed: "true",
        todo: `set ${path} to true`,
      };
    }),
  },
];
