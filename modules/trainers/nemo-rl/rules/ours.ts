/**
 * Rules that NeMo-RL doesn't check, or only after hours: settings that fit the loader and harm the run. Configuration →
 * violation or null. Pure.
 */
import { type Rule, shown } from "./rule.ts";

const both = ["grpo", "sft"] as const;
const grpo = ["grpo"] as const;
const M = "policy.megatron_cfg";

/** From here on an unpacked sequence's mask takes more than half a GiB; the only unpacked runs known have 4096 tokens. */
const UNPACKED_TOKENS = 8192;

/** Rules of ours. */
export const OUR_RULES: readonly Rule[] = [
  {
    id: "cluster-is-world",
    applies: both,
    source: "nemo_rl/distributed/virtual_cluster.py:34",
    check: (config, { world }) => {
      const nodes = config.number("cluster.num_nodes");
      const gpus = config.number("cluster.gpus_per_node");
      if (nodes === null || gpus === null) return null;
      if (nodes === world.nodes && gpus === world.gpusPerNode) return null;
      return {
        path: nodes === world.nodes ? "cluster.gpus_per_node" : "cluster.num_nodes",
        asked: `${nodes} nodes of ${gpus} GPUs`,
        found: `the job has ${world.nodes} of ${world.gpusPerNode}`,
        allowed: `${world.nodes} and ${world.gpusPerNode}: fewer would lie idle, more are waited for without end`,
        todo: "change the layout, not the cluster section",
      };
    },
  },
  {
    id: "lengths-nest",
    applies: grpo,
    source: "nemo_rl/models/generation/vllm/vllm_worker_async.py (_clamp_max_tokens)",
    check: (config) => {
      const train = config.number("policy.max_total_sequence_length");
      const server = config.number("policy.generation.vllm_cfg.max_model_len");
      const answer = config.number("policy.generation.max_new_tokens");
      if (train === null || server === null || answer === null) return null;
      if (server < train)
        return {
          path: "policy.generation.vllm_cfg.max_model_len",
          asked: `the server takes ${server} tokens`,
          found: `training takes ${train}: longer attempts could never be made`,
          allowed: `${train} and more`,
          todo: `set it to ${train}`,
        };
      if (answer <= train) return null;
      return {
        path: "policy.generation.max_new_tokens",
        asked: `${answer} tokens in one answer`,
        found: `prompt and answer together have ${train}`,
        allowed: `up to ${train}`,
        todo: "lower rl.maxTokensPerTurn",
      };
    },
  },
  {
    id: "longest-fits-a-pack",
    applies: both,
    source: "nemo_rl/data/packing/algorithms.py",
    check: (config) => {
      const path = "policy.sequence_packing.train_mb_tokens";
      const length = config.number("policy.max_total_sequence_length");
      const divisor = config.count("policy.make_sequence_length_divisible_by");
      const pack = config.number(path);
      if (!config.packs || length === null || pack === null) return null;
      const padded = Math.ceil(length / divisor) * divisor;
      if (padded <= pack) return null;
      return {
        path,
        asked: `packs of ${pack} tokens`,
        found: `a sequence of ${length} tokens, padded to a multiple of ${divisor}, has ${padded}`,
        allowed: `${padded} and more`,
        todo: `set it to ${padded}, or choose a context that is a multiple of ${divisor}`,
      };
    },
  },
  {
    id: "mask-is-small",
    applies: both,
    source: "nemo_rl/models/megatron/data.py:597; megatron/training/utils/common_utils.py:413",
    check: (config) => {
      const length = config.number("policy.max_total_sequence_length");
      if (!config.isMegatron || config.packs || length === null || length <= UNPACKED_TOKENS) return null;
      // Ones and their lower triangle in float32, alive together, and what is compared of them, one byte each.
      const gib = (9 * length ** 2) / 2 ** 30;
      return {
        path: "policy.sequence_packing.enabled",
        asked: `sequences of up to ${length} tokens, not packed`,
        found: `Megatron then builds a mask of ${length} × ${length} on each GPU: ${gib.toFixed(1)} GiB`,
        allowed: `true, or a context of at most ${UNPACKED_TOKENS} tokens`,
        todo: "leave packing on",
      };
    },
  },
  {
    id: "batch-divides",
    applies: both,
    source: "nemo_rl/distributed/batched_data_dict.py (shard_by_batch_size)",
    check: (config) => {
      const { tp, cp, pp } = config.degrees;
      const groups = Math.floor(config.gpus.train / (tp * cp * pp));
      const batch = config.number("policy.train_global_batch_size");
      if (batch === null || groups < 1 || batch % groups === 0) return null;
      return {
        path: "policy.train_global_batch_size",
        asked: `${batch} sequences a step`,
        found: `${groups} data-parallel GPU groups share them, and ${batch} is no multiple of ${groups}`,
        allowed: `multiples of ${groups}`,
        todo: "change rl.promptsPerStep or rl.rolloutsPerPrompt, or the layout",
      };
    },
  },
  {
    id: "step-divides",
    applies: grpo,
    source: "nemo_rl/distributed/batched_data_dict.py (shard_by_batch_size)",
    check: (config) => {
      const batch = config.count("policy.train_global_batch_size");
      const step = config.count("grpo.num_prompts_per_step") * config.count("grpo.num_generations_per_prompt");
      if (step % batch === 0) return null;
      return {
        path: "policy.train_global_batch_size",
        asked: `${step} attempts a step in batches of ${batch}`,
        found: `${step} is no multiple of ${batch}`,
        allowed: `a divisor of ${step}`,
        todo: `set it to ${step}`,
      };
    },
  },
  {
    id: "warmup-ends",
    applies: both,
    source: "megatron.core OptimizerParamScheduler",
    check: (config) => {
      const warmup = config.number(`${M}.scheduler.lr_warmup_iters`) ?? 0;
      const decay = config.number(`${M}.scheduler.lr_decay_iters`);
      if (!config.isMegatron || decay === null || warmup < decay) return null;
      return {
        path: `${M}.scheduler.lr_warmup_iters`,
        asked: `the learning rate is to rise for ${warmup} steps`,
        found: `its schedule has ${decay}`,
        allowed: `less than ${decay}`,
        todo: "lower rl.warmupSteps or raise rl.steps",
      };
    },
  },
  {
    id: "yarn-reaches",
    applies: both,
    source: "schemas/rope.ts",
    check: (config) => {
      const path = "policy.hf_config_overrides.rope_scaling";
      const factor = config.number(`${path}.factor`);
      const original = config.number(`${path}.original_max_position_embeddings`);
      const length = config.number("policy.max_total_sequence_length");
      if (factor === null || original === null || length === null || factor * original >= length) return null;
      return {
        path: `${path}.factor`,
        asked: `${original} tokens stretched ${factor} times, which is ${factor * original}`,
        found: `training takes ${length} tokens`,
        allowed: `a factor of ${length / original} and more`,
        todo: "raise rope.factor",
      };
    },
  },
  {
    id: "yarn-exports",
    applies: both,
    source: "examples/converters/convert_megatron_to_hf.py",
    check: (config) => {
      const trained = config.get("policy.hf_config_overrides.rope_scaling");
      const exported = config.get("policy.hf_overrides.rope_scaling");
      if (JSON.stringify(trained) === JSON.stringify(exported)) return null;
      return {
        path: "policy.hf_overrides",
        asked: `training with rope_scaling ${shown(trained)}`,
        found: `the converter, which reads policy.hf_overrides, would export ${shown(exported)}`,
        allowed: "the same in policy.hf_config_overrides and policy.hf_overrides",
        todo: "change the recipe's rope block, which writes both",
      };
    },
  },
  {
    id: "vision-frozen",
    applies: both,
    dialects: ["main"],
    source: "NVIDIA-NeMo/RL pull request 4077",
    check: (config, { model }) => {
      const path = `${M}.freeze_config`;
      if (!config.isMegatron || model.visionParameters === 0) return null;
      const open = ["freeze_vision_model", "freeze_vision_projection"].find((name) => !config.on(`${path}.${name}`));
      if (open === undefined) return null;
      return {
        path: `${path}.${open}`,
        asked: `${model.name} is trained on text alone`,
        found: `its vision tower has no gradients and is not frozen: ${open} is not true`,
        allowed: "freeze_vision_model and freeze_vision_projection true",
        todo: `set ${path}.${open} to true`,
      };
    },
  },
  {
    id: "vision-not-trained",
    applies: both,
    dialects: ["v0.7.0"],
    source: "nemo_rl/models/megatron/setup.py at v0.7.0 has no freeze_config",
    check: (config, { model }) => {
      if (!config.isMegatron || model.visionParameters === 0 || config.on(`${M}.peft.enabled`)) return null;
      const faults = [
        ...((config.number(`${M}.optimizer.weight_decay`) ?? 0) > 0 ? [`${M}.optimizer.weight_decay`] : []),
        ...(config.on(`${M}.distributed_data_parallel_config.overlap_grad_reduce`)
          ? [`${M}.distributed_data_parallel_config.overlap_grad_reduce`]
          : []),
      ];
      if (faults[0] === undefined) return null;
      return {
        path: faults[0],
        asked: `all weights of ${model.name} are trained on text alone`,
        found: "v0.7.0 can't freeze the vision tower: weight decay would wear it away, overlapped gradients would fail",
        allowed: "weight decay 0 and no overlap_grad_reduce; or LoRA; or main, which freezes it",
        todo: "set rl.weightDecay to 0, train by LoRA, or render for main",
      };
    },
  },
  {
    id: "adapters-on-text",
    applies: both,
    source: "Megatron-Bridge src/megatron/bridge/peft/module_matcher.py",
    check: (config, { model }) => {
      const path = `${M}.peft.target_modules`;
      if (!config.isMegatron || model.visionParameters === 0 || !config.on(`${M}.peft.enabled`)) return null;
      const targets = config.list(path).map(String);
      const excluded = config.list(`${M}.peft.exclude_modules`).map(String);
      const stray = targets.filter((target) => !target.includes("language_model"));
      if (targets.length > 0 ? stray.length === 0 : excluded.some((name) => name.includes("vision_model"))) return null;
      return {
        path,
        asked: `adapters on ${targets.length === 0 ? "every linear layer" : stray.join(", ")}`,
        found: `the vision tower of ${model.name} has layers of these names too`,
        allowed: 'patterns such as "*language_model.*.linear_qkv", or [] with "*vision_model*" excluded',
        todo: "name the language model's layers",
      };
    },
  },
  {
    id: "no-expandable-segments",
    applies: grpo,
    source: "NVIDIA-NeMo/RL issue 2471",
    check: (config, { env }) => {
      const { PYTORCH_CUDA_ALLOC_CONF: setting } = env;
      if (config.isDedicated || !/expandable_segments\s*:\s*True/i.test(setting ?? "")) return null;
      return {
        path: "policy.generation.colocated.enabled",
        asked: "rollouts share the trainer's GPUs",
        found: `PYTORCH_CUDA_ALLOC_CONF is ${shown(setting)}, which clashes with vLLM's memory pool for sleep`,
        allowed: "no expandable_segments where they share",
        todo: "remove it from the job's environment",
      };
    },
  },
];
