/**
 * Rules on the training backend and how its GPUs are divided. Configuration → violation or null. Pure.
 */
import { type Rule, shown } from "./rule.ts";

const both = ["grpo", "sft"] as const;

/** Rules on backend, world size and batches. */
export const BACKEND_RULES: readonly Rule[] = [
  {
    id: "backend-xor",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:118-160",
    check: (config) => {
      if (config.isMegatron !== config.isDtensor) return null;
      return {
        path: "policy.megatron_cfg.enabled",
        asked: `Megatron ${config.isMegatron ? "and DTensor are" : "is not and DTensor is not"} asked to train`,
        found: "exactly one of them trains",
        allowed: "true for one of policy.megatron_cfg.enabled and policy.dtensor_cfg.enabled, false for the other",
        todo: config.isMegatron ? "set policy.dtensor_cfg.enabled to false" : "set policy.megatron_cfg.enabled to true",
      };
    },
  },
  {
    id: "megatron-arch-env",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:149",
    check: (config, { env }) => {
      if (!config.isMegatron || (env.TORCH_CUDA_ARCH_LIST ?? "") !== "") return null;
      return {
        path: "policy.megatron_cfg.enabled",
        asked: "Megatron is to train",
        found: "the job's environment has no TORCH_CUDA_ARCH_LIST, and the driver stops at once without it",
        allowed: 'TORCH_CUDA_ARCH_LIST for the GPUs, e.g. "9.0" for H100 and H200, "10.0" for B200',
        todo: "set it in the job's environment",
      };
    },
  },
  {
    id: "lora-needs-v2",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:175",
    check: (config) => {
      if (!config.isDtensor || !config.on("policy.dtensor_cfg.lora_cfg.enabled")) return null;
      if (config.on("policy.dtensor_cfg._v2")) return null;
      return {
        path: "policy.dtensor_cfg._v2",
        asked: "LoRA on DTensor's first worker",
        found: `_v2 is ${shown(config.get("policy.dtensor_cfg._v2"))}, and only the second worker has LoRA`,
        allowed: "true with lora_cfg.enabled",
        todo: "set policy.dtensor_cfg._v2 to true",
      };
    },
  },
  {
    id: "hsdp-needs-v2",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:179; nemo_rl/models/automodel/setup.py:471",
    check: (config) => {
      const path = "policy.dtensor_cfg.dp_replicate_size";
      const replicas = config.count(path);
      if (!config.isDtensor || replicas <= 1) return null;
      const { tp, cp, pp } = config.degrees;
      const dataParallel = Math.floor(config.gpus.train / (tp * cp * pp));
      if (!config.on("policy.dtensor_cfg._v2"))
        return {
          path,
          asked: `${replicas} replicas of the sharded model`,
          found: "DTensor's first worker has none (_v2 is not true)",
          allowed: "1 without _v2",
          todo: "set policy.dtensor_cfg._v2 to true",
        };
      if (dataParallel % replicas === 0) return null;
      return {
        path,
        asked: `${replicas} replicas of the sharded model`,
        found: `${dataParallel} data-parallel GPU groups don't divide by ${replicas}`,
        allowed: `a divisor of ${dataParallel}`,
        todo: "lower dp_replicate_size",
      };
    },
  },
  {
    id: "save-format-v1",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:1218",
    check: (config) => {
      const path = "checkpointing.model_save_format";
      if (!config.isDtensor || config.on("policy.dtensor_cfg._v2")) return null;
      if ((config.get(path) ?? null) === null) return null;
      return {
        path,
        asked: `checkpoints in the format ${shown(config.get(path))}`,
        found: "DTensor's first worker knows no formats, and the first save fails",
        allowed: "null without policy.dtensor_cfg._v2",
        todo: "set it to null, or _v2 to true",
      };
    },
  },
  {
    id: "world-divides",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:225-240",
    check: (config) => {
      const { tp, cp, pp } = config.degrees;
      const { train } = config.gpus;
      const group = tp * cp * pp;
      // No GPU left to train on is the rule noncolo-multinode's or noncolo-onenode's.
      if (train <= 0 || (train >= group && train % group === 0)) return null;
      return {
        path: config.tensorParallelPath,
        asked: `tensor ${tp} × context ${cp} × pipeline ${pp} = ${group} GPUs for one copy of the model`,
        found: `${train} GPUs train, which is no multiple of ${group}`,
        allowed: `a product that divides ${train}`,
        todo: "change the degrees, or give training another number of nodes",
      };
    },
  },
  {
    id: "tp4-mbs",
    applies: ["grpo"],
    source: "nemo_rl/models/policy/lm_policy.py:205-222",
    check: (config, { env }) => {
      const train = config.number("policy.train_micro_batch_size");
      const logprob = config.number("policy.logprob_batch_size");
      if (config.degrees.tp < 4 || logprob === null || train === logprob) return null;
      if (config.on("loss_fn.force_on_policy_ratio") || (env.NRL_IGNORE_TP_ACCURACY_CHECK ?? "") !== "") return null;
      return {
        path: "policy.logprob_batch_size",
        asked: `${logprob} sequences at once for log-probabilities, ${train} for training`,
        found: `with tensor parallel ${config.degrees.tp} results depend on the batch, so the two must be equal`,
        allowed: `${train} (or loss_fn.force_on_policy_ratio)`,
        todo: `set policy.logprob_batch_size to ${train}`,
      };
    },
  },
  {
    id: "pack-xor-dynamic",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:325,352",
    check: (config) => {
      if (!config.packs || !config.on("policy.dynamic_batching.enabled")) return null;
      return {
        path: "policy.dynamic_batching.enabled",
        asked: "sequence packing and dynamic batching together",
        found: "they are two answers to the same question, and the policy refuses both at once",
        allowed: "true for one of them at most",
        todo: "set policy.dynamic_batching.enabled to false",
      };
    },
  },
  {
    id: "dynamic-pp1",
    applies: both,
    source: "nemo_rl/models/policy/lm_policy.py:313",
    check: (config) => {
      const { pp } = config.degrees;
      if (!config.on("policy.dynamic_batching.enabled") || pp === 1) return null;
      return {
        path: "policy.dynamic_batching.enabled",
        asked: `dynamic batching with pipeline parallel ${pp}`,
        found: "a pipeline needs micro-batches of one size",
        allowed: "pipeline_model_parallel_size 1",
        todo: "use sequence packing instead",
      };
    },
  },
  {
    id: "draft-megatron",
    applies: ["grpo"],
    source: "nemo_rl/models/policy/lm_policy.py:126-137",
    check: (config) => {
      if (!config.on("policy.draft.enabled") || (config.isMegatron && !config.packs)) return null;
      return {
        path: "policy.draft.enabled",
        asked: "a draft model is to be trained along",
        found: config.isMegatron ? "sequences are packed, which drafts don't support" : "only Megatron has drafts",
        allowed: "Megatron without sequence packing",
        todo: "set policy.draft.enabled to false",
      };
    },
  },
];
