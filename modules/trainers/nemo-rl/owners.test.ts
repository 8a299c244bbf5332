import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ownerOf } from "../owners.ts";
import { checkNemoRl } from "./check.ts";
import { contextOf, stageInput, type Variation } from "./fixture.ts";
import { NEMO_RL_OWNERS } from "./owners.ts";
import { renderNemoRl } from "./render.ts";

/** "grpo.seed" and 3 → {grpo: {seed: 3}}. */
function nested(key: string, value: unknown): Record<string, unknown> {
  return key.split(".").reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Record<string, unknown>;
}

/** What planning says of a good recipe with one override. */
function said(key: string, value: unknown, variation: Variation = {}): string[] {
  const input = stageInput({ ...variation, rl: { ...variation.rl, overrides: nested(key, value) } });
  return checkNemoRl(renderNemoRl(input), contextOf(input)).map(({ code, path }) => `${code} ${path}`);
}

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
}

function keysOf(node: Node, above = ""): string[] {
  return Object.entries(node.properties ?? {}).flatMap(([name, inner]) => {
    const key = above === "" ? name : `${above}.${name}`;
    return inner.properties === undefined ? [key] : keysOf(inner, key);
  });
}

describe("an override of what the plan counts with is refused", () => {
  test.each<[string, unknown, string]>([
    ["policy.megatron_cfg.tensor_model_parallel_size", 2, " and set rl.parallelism.tensorParallel"],
    ["policy.max_total_sequence_length", 262_144, " and set context"],
    ["policy.generation.vllm_cfg.max_model_len", 262_144, " and set context"],
    ["policy.megatron_cfg.activation_checkpointing", false, "; the layout follows from rl.parallelism"],
    ["policy.train_micro_batch_size", 8, "; the layout follows from rl.parallelism"],
    ["policy.generation.vllm_cfg.gpu_memory_utilization", 0.99, "; the layout follows from rl.parallelism"],
    ["policy.generation.vllm_kwargs.max_num_seqs", 4096, "; the layout follows from rl.parallelism"],
    ["policy.megatron_cfg.defer_fp32_logits", false, "; the layout follows from rl.parallelism"],
    ["policy.logprob_chunk_size", null, "; the layout follows from rl.parallelism"],
    [
      "policy.megatron_cfg.env_vars.PYTORCH_CUDA_ALLOC_CONF",
      "expandable_segments:True",
      "; the layout follows from rl.parallelism",
    ],
    ["grpo.max_num_steps", 10, " and set rl.steps"],
    ["grpo.use_dynamic_sampling", true, " and set rl.promptsPerStep or rl.rolloutsPerPrompt"],
    ["checkpointing.save_period", 7, " and set rl.saveEverySteps"],
    ["checkpointing.keep_top_k", 1, "; the list of declared checkpoints follows from rl.saveEverySteps and report"],
    [
      "checkpointing.checkpoint_dir",
      "/tmp/x",
      "; the list of declared checkpoints follows from rl.saveEverySteps and report",
    ],
    ["checkpointing.checkpoint_must_save_by", "00:01:00:00", "; the launch follows from the target"],
    ["policy.megatron_cfg.optimizer.lr", 1, " and set rl.learningRate"],
    ["policy.megatron_cfg.scheduler.lr_warmup_init", 0, " and set rl.warmupSteps"],
    ["policy.model_name", "foo/bar", " and set model"],
    ["policy.generation.temperature", 0.2, " and set rl.temperature"],
    ["policy.generation.top_p", 0.9, ""],
    ["data.train.data_path", "/tmp/other.jsonl", " and set tasks or rl.tasks"],
    ["env.nemo_gym.my_server", { resources_servers: {} }, " and set tasks or rl.tasks"],
    ["cluster.num_nodes", 9, " and set rl.parallelism.nodes"],
    ["logger.wandb.id", "mine", ""],
  ])("%s = %j: remove it%s", (key, value, instead) => {
    const input = stageInput({ rl: { overrides: nested(key, value) } });
    const issues = checkNemoRl(renderNemoRl(input), contextOf(input));
    const owned = issues.filter(({ code }) => code === "nemo-rl-override-owned");
    expect(owned).toHaveLength(1);
    expect(owned[0]?.path.startsWith(`rl.overrides.${key}`)).toBe(true);
    expect(owned[0]?.todo).toBe(`remove the override${instead}`);
    expect(owned[0]?.asked).toContain(`${key}`);
    for (const { path } of issues) expect(path).not.toMatch(/^(policy|grpo|checkpointing|cluster)\b/);
  });

  test("the same value as the plan's is refused too: it would stay when the plan's changes", () => {
    expect(said("grpo.max_num_steps", 40)).toEqual(["nemo-rl-override-owned rl.overrides.grpo.max_num_steps"]);
  });

  test("one value in the place of a whole section is refused at the section", () => {
    for (const section of [
      "checkpointing",
      "policy.megatron_cfg",
      "policy.megatron_cfg.scheduler",
      "logger.wandb",
      "policy",
    ])
      for (const value of [null, "off", []])
        expect(said(section, value)).toContain(`nemo-rl-override-owned rl.overrides.${section}`);
    expect(said("logger.tensorboard", {})).toEqual([]);
  });
});

describe("what changes neither memory, steps, checkpoints, sampling nor comparability may be overridden", () => {
  const correction = { rollouts: { placement: "dedicated", async: { maxAgeSteps: 1 } } } as const;
  test.each<[string, unknown, Variation?]>([
    ["logger.tensorboard_enabled", false],
    ["logger.num_val_samples_to_print", 3],
    ["logger.gpu_monitoring", { collection_interval: 60, flush_interval: 60 }],
    ["logger.wandb.tags", ["long-context"]],
    ["grpo.overlong_filtering", true],
    ["grpo.advantage_clip_high", 5],
    ["grpo.adv_estimator.normalize_rewards", false],
    ["loss_fn", { token_level_loss: false, ratio_clip_c: 3 }],
    [
      "loss_fn",
      { truncated_importance_sampling_type: "tis", truncated_importance_sampling_ratio: 2 },
      { rl: correction, placement: "async" },
    ],
    ["policy.megatron_cfg.env_vars", { NCCL_DEBUG: "WARN", TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: "3600" }],
    ["policy.generation.vllm_cfg.env_vars", { VLLM_LOGGING_LEVEL: "INFO" }],
    ["policy.megatron_cfg.optimizer.adam_beta2", 0.95],
    ["policy.megatron_cfg.peft.dropout", 0.05],
    ["policy.sequence_packing.algorithm", "first_fit_decreasing"],
    ["policy.generation.vllm_cfg.vllm_metrics_logger_interval", 5],
    ["data.num_workers", 4],
    ["env.should_log_nemo_gym_responses", true],
  ])("%s = %j", (key, value, variation) => {
    expect(said(key, value, variation)).toEqual([]);
  });
});

test.each(["v0.7.0", "main"] as const)("every key of %s has an owner or is free", (dialect) => {
  const schema = JSON.parse(readFileSync(new URL(`./${dialect}.schema.json`, import.meta.url), "utf8")) as {
    $defs: { grpo: Node };
  };
  const keys = keysOf(schema.$defs.grpo);
  expect(keys.length).toBeGreaterThan(300);
  expect(keys.filter((key) => ownerOf(NEMO_RL_OWNERS, key) === undefined)).toEqual([]);
});

test("every pattern is of a key that one of the versions has, or of a section that is open", () => {
  const keys = (["v0.7.0", "main"] as const).flatMap((dialect) => {
    const schema = JSON.parse(readFileSync(new URL(`./${dialect}.schema.json`, import.meta.url), "utf8")) as {
      $defs: { grpo: Node };
    };
    return keysOf(schema.$defs.grpo);
  });
  const open = [
    "policy.megatron_cfg.env_vars.",
    "policy.generation.vllm_cfg.env_vars.",
    "policy.generation.vllm_kwargs.",
  ];
  const known = [
    ...keys,
    ...open.map((section) => `${section}PYTORCH_X`),
    "policy.generation.vllm_kwargs.disable_log_stats",
  ];
  for (const [owner, ...patterns] of NEMO_RL_OWNERS)
    for (const pattern of patterns)
      expect(
        known.some((key) => ownerOf([[owner, pattern]], key) !== undefined),
        pattern,
      ).toBe(true);
});
