/**
 * Rules on GRPO's and SFT's own settings: validation, loss, checkpoints. Configuration → violation or null. Pure.
 */
import { type Config, type Rule, shown } from "./rule.ts";

const both = ["grpo", "sft"] as const;
const grpo = ["grpo"] as const;
const G = "policy.generation";

const PENALTIES = [
  "penalize_duplicated_reasoning",
  "penalize_empty_final_answer",
  "penalize_unwanted_tokens",
  "penalize_malformed_think_tag",
].map((name) => `reward_penalties.${name}`);

/** True where the data section yields a validation set. */
function hasValidation(config: Config): boolean {
  if ((config.get("data.validation") ?? null) !== null) return true;
  return (config.number("data.train.split_validation_size") ?? 0) > 0;
}

/** Rules on validation, steps and checkpoints. */
export const ALGORITHM_RULES: readonly Rule[] = [
  {
    id: "val-sampling",
    applies: grpo,
    dialects: ["main"],
    source: "nemo_rl/algorithms/grpo.py:501-527",
    check: (config) => {
      const missing = ["val_temperature", "val_top_p", "val_top_k"].filter((name) => !config.has(`${G}.${name}`));
      if (missing[0] !== undefined)
        return {
          path: `${G}.${missing[0]}`,
          asked: "a generation section for main",
          found: `${missing.join(", ")} not written, and set-up indexes them`,
          allowed: "val_temperature, val_top_p and val_top_k, equal to the values of training",
          todo: "write them",
        };
      const names = ["temperature", "top_p", "top_k"];
      const other = names.find((name) => config.get(`${G}.${name}`) !== config.get(`${G}.val_${name}`));
      if (other === undefined) return null;
      const honoured = config.usesGym && config.get(`${G}.backend`) === "vllm";
      const topK = config.get(`${G}.val_top_k`);
      if (honoured && (topK === null || topK === 0)) return null;
      return {
        path: `${G}.val_${other}`,
        asked: `validation samples with ${other} ${shown(config.get(`${G}.val_${other}`))}`,
        found: `training samples with ${shown(config.get(`${G}.${other}`))}`,
        allowed: "the same as in training; another val_temperature or val_top_p with vLLM and NeMo Gym only",
        todo: `set it to ${shown(config.get(`${G}.${other}`))}`,
      };
    },
  },
  {
    id: "val-dataset",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:638",
    check: (config) => {
      const period = config.number("grpo.val_period") ?? 0;
      const asked = [
        ...(period > 0 ? [`every ${period} steps`] : []),
        ...(config.on("grpo.val_at_start") ? ["at the start"] : []),
        ...(config.on("grpo.val_at_end") ? ["at the end"] : []),
      ];
      if (asked.length === 0 || hasValidation(config)) return null;
      return {
        path: "data.validation",
        asked: `validation ${asked.join(", ")}`,
        found: "there is no validation set",
        allowed: "a data set, or val_period 0 with val_at_start and val_at_end false",
        todo: "set grpo.val_period to 0, val_at_start and val_at_end to false",
      };
    },
  },
  {
    id: "batch-multiplier",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:571",
    check: (config) => {
      const path = "grpo.batch_multiplier";
      const multiplier = config.count(path);
      if (multiplier === 1 || config.on("grpo.use_dynamic_sampling")) return null;
      return {
        path,
        asked: `${multiplier} times a step's prompts are to be drawn`,
        found: "dynamic sampling, which picks among them, is off",
        allowed: "1 without grpo.use_dynamic_sampling",
        todo: "set it to 1",
      };
    },
  },
  {
    id: "on-policy-ratio",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:741",
    check: (config) => {
      const batch = config.count("policy.train_global_batch_size");
      const step = config.count("grpo.num_prompts_per_step") * config.count("grpo.num_generations_per_prompt");
      if (!config.on("loss_fn.force_on_policy_ratio") || batch === step) return null;
      return {
        path: "loss_fn.force_on_policy_ratio",
        asked: "probability ratios are held at 1",
        found: `a step has ${step} attempts in batches of ${batch}, so later batches are off-policy`,
        allowed: `true only with policy.train_global_batch_size ${step}`,
        todo: `set policy.train_global_batch_size to ${step}`,
      };
    },
  },
  {
    id: "skip-ref",
    applies: grpo,
    source: "nemo_rl/algorithms/grpo.py:752",
    check: (config) => {
      const path = "grpo.skip_reference_policy_logprobs_calculation";
      const penalty = config.number("loss_fn.reference_policy_kl_penalty") ?? 0;
      if (!config.on(path) || penalty === 0) return null;
      return {
        path,
        asked: "the reference model's log-probabilities are to be left out",
        found: `the loss weighs their divergence with ${penalty}`,
        allowed: "true only with loss_fn.reference_policy_kl_penalty 0",
        todo: "set it to false",
      };
    },
  },
  {
    id: "early-stop",
    applies: grpo,
    dialects: ["main"],
    source: "nemo_rl/algorithms/grpo.py:533-541,577",
    check: (config) => {
      const metric = config.text("grpo.stop_at_validation_metric");
      if (metric === null) return null;
      if (config.number("grpo.stop_at_validation_threshold") === null)
        return {
          path: "grpo.stop_at_validation_threshold",
          asked: `training is to stop at a value of ${metric}`,
          found: "no value is given",
          allowed: "a number with stop_at_validation_metric",
          todo: "set it, or stop_at_validation_metric to null",
        };
      const attempts = config.count("grpo.val_num_generations_per_prompt");
      if (metric !== "pass_k" || attempts > 1) return null;
      return {
        path: "grpo.val_num_generations_per_prompt",
        asked: "training is to stop at a value of pass_k",
        found: `validation makes ${attempts} attempt a prompt, and pass_k needs several`,
        allowed: "2 and more with pass_k",
        todo: "raise it, or stop at another metric",
      };
    },
  },
  {
    id: "penalties-gym",
    applies: grpo,
    dialects: ["main"],
    source: "nemo_rl/algorithms/grpo.py:209-238,1966",
    check: (config) => {
      const set = PENALTIES.filter((path) => config.on(path));
      if (set[0] === undefined) return null;
      if (!config.usesGym)
        return {
          path: set[0],
          asked: `${set.join(", ")}`,
          found: "attempts are not played through NeMo Gym, which alone marks what is penalised",
          allowed: "false without env.should_use_nemo_gym",
          todo: "set it to false",
        };
      const unwanted = "reward_penalties.token_ids.unwanted";
      if (!config.on("reward_penalties.penalize_unwanted_tokens") || config.list(unwanted).length > 0) return null;
      return {
        path: unwanted,
        asked: "unwanted tokens are to be penalised",
        found: "none is named",
        allowed: "a list of token ids",
        todo: "name them, or set penalize_unwanted_tokens to false",
      };
    },
  },
  {
    id: "ckpt-metric",
    applies: both,
    source: "nemo_rl/algorithms/grpo.py:3538-3562",
    check: (config) => {
      const path = "checkpointing.metric_name";
      const name = config.text(path);
      if (name === null || name.startsWith("train:") || name.startsWith("val:")) return null;
      return {
        path,
        asked: `checkpoints are ranked by ${shown(name)}`,
        found: "it is said of neither training nor validation, and the first save fails",
        allowed: 'null, "train:…" or "val:…", e.g. "train:total_reward/mean"',
        todo: `set it to null, or to "train:${name}"`,
      };
    },
  },
  {
    id: "ckpt-required",
    applies: both,
    source: "nemo_rl/utils/checkpoint.py (CheckpointManager.__init__); nemo_rl/algorithms/grpo.py:2700",
    check: (config) => {
      const missing = ["keep_top_k", "save_optimizer", "checkpoint_must_save_by"]
        .map((name) => `checkpointing.${name}`)
        .filter((path) => !config.has(path));
      if (missing[0] === undefined) return null;
      return {
        path: missing[0],
        asked: "a checkpointing section",
        found: `${missing.join(", ")} not written, and set-up indexes it although the types call it optional`,
        allowed: "keep_top_k, save_optimizer and checkpoint_must_save_by, written out",
        todo: "write it",
      };
    },
  },
  {
    id: "sft-megatron-block",
    applies: ["sft"],
    source: "nemo_rl/algorithms/sft.py (setup)",
    check: (config, { dialect }) => {
      const fused = dialect === "main" ? "use_fused_linear_logprobs" : "use_linear_ce_fusion_loss";
      const path = "policy.megatron_cfg";
      if (!config.has(`${path}.enabled`))
        return {
          path: `${path}.enabled`,
          asked: "SFT",
          found: "it is not written, and set-up indexes it whichever backend trains",
          allowed: "true or false",
          todo: `write ${path}: {enabled: false} for DTensor`,
        };
      if (!config.isMegatron || config.has(`${path}.${fused}`)) return null;
      return {
        path: `${path}.${fused}`,
        asked: "SFT with Megatron",
        found: "it is not written, and set-up indexes it",
        allowed: "true or false",
        todo: "set it to false",
      };
    },
  },
  {
    id: "sft-noval",
    applies: ["sft"],
    source: "nemo_rl/algorithms/sft.py (validate)",
    check: (config) => {
      const period = config.number("sft.val_period") ?? 0;
      if (period <= 0 || hasValidation(config)) return null;
      return {
        path: "sft.val_period",
        asked: `validation every ${period} steps`,
        found: "there is no validation set",
        allowed: "0 or less without data.validation",
        todo: "set it to 0",
      };
    },
  },
];
