import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { canonicalJson } from "../../../schemas/digest.ts";
import { Rope } from "../../../schemas/rope.ts";
import { valueAt } from "../config-path.ts";
import { saveMargin } from "../time-limit.ts";
import { checkNemoRl } from "./check.ts";
import { contextOf, stageInput, type Variation } from "./fixture.ts";
import { renderNemoRl } from "./render.ts";

/** The values of a rendered configuration at some paths. */
function rendered(variation: Variation, paths: readonly string[]): Record<string, unknown> {
  const config = renderNemoRl(stageInput(variation));
  return Object.fromEntries(paths.map((path) => [path, valueAt(config, path)]));
}

const LAYOUT = stageInput().layout as Extract<ReturnType<typeof stageInput>["layout"], { kind: "rl" }>;

const MATRIX: Variation[] = (["v0.7.0", "main"] as const).flatMap((dialect) =>
  [true, false].flatMap((lora) =>
    (["colocated", "dedicated", "async"] as const).flatMap((placement) =>
      ([131_072, 262_144] as const).flatMap((context) =>
        (["Qwen/Qwen3.8-27B", "Qwen/Qwen3-32B"] as const).flatMap((model) =>
          [true, false].map((wandb) => ({ dialect, lora, placement, context, model, wandb })),
        ),
      ),
    ),
  ),
);

test.each(MATRIX)(
  "$dialect, lora $lora, $placement, $context tokens, $model, wandb $wandb: no mistake",
  (variation) => {
    const input = stageInput(variation);
    const config = renderNemoRl(input);
    expect(checkNemoRl(config, contextOf(input))).toEqual([]);
    expect(parse(stringify(config))).toEqual(config);
    expect(canonicalJson(renderNemoRl(stageInput(variation)))).toBe(canonicalJson(config));
  },
);

describe("the reference case", () => {
  test("starts from the SFT checkpoint, in the run's folder, with no slash at the end", () => {
    expect(rendered({}, ["policy.model_name", "policy.tokenizer.name", "checkpointing.checkpoint_dir"])).toEqual({
      "policy.model_name": "$" + "{oc.env:RUN_DIR}/checkpoints/sft-40",
      "policy.tokenizer.name": "$" + "{oc.env:RUN_DIR}/checkpoints/sft-40",
      "checkpointing.checkpoint_dir": "$" + "{oc.env:RUN_DIR}/trainer/rl",
    });
  });

  test("has the recipe's steps, groups, lengths and optimiser", () => {
    const paths = {
      "grpo.num_prompts_per_step": 8,
      "grpo.num_generations_per_prompt": 8,
      "grpo.max_num_steps": 40,
      "grpo.max_rollout_turns": 100,
      "grpo.val_period": 0,
      "grpo.max_val_samples": null,
      "policy.train_global_batch_size": 64,
      "policy.max_total_sequence_length": 131_072,
      "policy.generation.vllm_cfg.max_model_len": 131_072,
      "policy.generation.max_new_tokens": 8192,
      "policy.megatron_cfg.optimizer.lr": 1e-5,
      "policy.megatron_cfg.optimizer.min_lr": 1e-5,
      "policy.megatron_cfg.optimizer.clip_grad": 1,
      "policy.megatron_cfg.scheduler.lr_warmup_iters": 2,
      "policy.megatron_cfg.scheduler.lr_warmup_init": 1e-5 / 3,
      "policy.megatron_cfg.scheduler.lr_decay_style": "constant",
      "loss_fn.ratio_clip_min": 0.2,
      "loss_fn.token_level_loss": true,
      "checkpointing.save_period": 10,
      "checkpointing.keep_top_k": 40,
    };
    expect(rendered({}, Object.keys(paths))).toEqual(paths);
  });

  test("trains by Megatron with sequences split, packed and recomputed", () => {
    const paths = {
      "policy.dtensor_cfg.enabled": false,
      "policy.megatron_cfg.tensor_model_parallel_size": 4,
      "policy.megatron_cfg.context_parallel_size": 4,
      "policy.make_sequence_length_divisible_by": 32,
      "policy.sequence_packing.enabled": true,
      "policy.sequence_packing.train_mb_tokens": 131_072,
      "policy.megatron_cfg.recompute_granularity": "full",
      "policy.megatron_cfg.defer_fp32_logits": true,
      "policy.megatron_cfg.apply_rope_fusion": false,
      "policy.logprob_chunk_size": 2048,
    };
    expect(rendered({}, Object.keys(paths))).toEqual(paths);
  });

  test("generates on a whole node of its own, counted in the cluster", () => {
    expect(rendered({}, ["cluster.num_nodes", "cluster.gpus_per_node", "policy.generation.colocated"])).toEqual({
      "cluster.num_nodes": 3,
      "cluster.gpus_per_node": 8,
      "policy.generation.colocated": { enabled: false, resources: { gpus_per_node: 8, num_nodes: 1 } },
    });
  });

  test("serves rollouts over HTTP with the family's parsers, thinking kept in history", () => {
    expect(rendered({}, ["policy.generation.vllm_cfg.http_server_serving_chat_kwargs"])).toEqual({
      "policy.generation.vllm_cfg.http_server_serving_chat_kwargs": {
        enable_auto_tools: true,
        tool_parser: "qwen3_coder",
        reasoning_parser: "qwen3",
        default_chat_template_kwargs: { preserve_thinking: true },
      },
    });
  });

  test("plays the tasks through Gym's policy model and our environments", () => {
    expect(rendered({}, ["env.nemo_gym.config_paths", "data.train"])).toEqual({
      "env.nemo_gym.config_paths": [
        "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml",
        "$" + "{oc.env:RUN_DIR}/gym/uplift.yaml",
      ],
      "data.train": { data_path: "$" + "{oc.env:RUN_DIR}/data/rl-train.jsonl" },
    });
  });
});

test("adapters lie on the language model's layers only, DeltaNet's among them", () => {
  expect(rendered({}, ["policy.megatron_cfg.peft.target_modules", "policy.megatron_cfg.peft.alpha"])).toEqual({
    "policy.megatron_cfg.peft.target_modules": [
      "*language_model.*.linear_qkv",
      "*language_model.*.linear_proj",
      "*language_model.*.linear_fc1",
      "*language_model.*.linear_fc2",
      "*language_model.*.in_proj",
      "*language_model.*.out_proj",
    ],
    "policy.megatron_cfg.peft.alpha": 64,
  });
  expect(rendered({ model: "Qwen/Qwen3-32B" }, ["policy.megatron_cfg.peft.target_modules"])).toEqual({
    "policy.megatron_cfg.peft.target_modules": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"],
  });
  expect(rendered({ lora: false }, ["policy.megatron_cfg.peft"])).toEqual({
    "policy.megatron_cfg.peft": { enabled: false },
  });
});

test("the vision tower is frozen where the version can, and only where there is one", () => {
  const path = "policy.megatron_cfg.freeze_config";
  const frozen = { freeze_vision_model: true, freeze_vision_projection: true, freeze_language_model: false };
  expect(rendered({ dialect: "main" }, [path])[path]).toEqual(frozen);
  expect(rendered({ dialect: "v0.7.0" }, [path])[path]).toBeUndefined();
  expect(rendered({ dialect: "main", model: "Qwen/Qwen3-32B" }, [path])[path]).toBeUndefined();
});

test("YaRN is complete, and the converter reads the same", () => {
  const paths = rendered({ model: "Qwen/Qwen3-32B" }, ["policy.hf_config_overrides", "policy.hf_overrides"]);
  const expected = {
    rope_scaling: {
      rope_type: "yarn",
      rope_theta: 1_000_000,
      factor: 8,
      original_max_position_embeddings: 32_768,
      truncate: true,
      beta_fast: 32,
      beta_slow: 1,
      mscale: 1,
      mscale_all_dim: 0,
    },
  };
  expect(paths).toEqual({ "policy.hf_config_overrides": expected, "policy.hf_overrides": expected });
  expect(rendered({}, ["policy.hf_config_overrides", "policy.hf_overrides"])).toEqual({
    "policy.hf_config_overrides": {},
    "policy.hf_overrides": undefined,
  });
});

test("YaRN of a model with vision goes to its language model, with what that keeps beside it", () => {
  const input = stageInput();
  const rope = Rope.parse({ type: "yarn", factor: 4, originalMaxTokens: 262_144, theta: 5e6 });
  const config = renderNemoRl({ ...input, contextTokens: 1_048_576, recipe: { ...input.recipe, rope } });
  const expected = {
    text_config: {
      rope_parameters: {
        ...{ rope_type: "yarn", rope_theta: 5e6, factor: 4, original_max_position_embeddings: 262_144 },
        ...{ beta_fast: 32, beta_slow: 1, partial_rotary_factor: 0.25 },
        ...{ mrope_interleaved: true, mrope_section: [11, 11, 10], truncate: true, mscale: 1, mscale_all_dim: 0 },
      },
    },
  };
  expect(valueAt(config, "policy.hf_config_overrides")).toEqual(expected);
  expect(valueAt(config, "policy.hf_overrides")).toEqual(expected);
  expect(checkNemoRl(config, contextOf(input))).toEqual([]);
});

test("asynchronous rollouts correct for old weights and never run out of tasks", () => {
  expect(rendered({ placement: "async" }, ["grpo.async_grpo", "data.train.repeat"])).toEqual({
    "grpo.async_grpo": {
      enabled: true,
      max_trajectory_age_steps: 1,
      in_flight_weight_updates: true,
      recompute_kv_cache_after_weight_updates: false,
    },
    "data.train.repeat": 40,
  });
  const path = "loss_fn.use_importance_sampling_correction";
  expect(rendered({ placement: "async" }, [path])[path]).toBe(true);
  expect(rendered({ placement: "dedicated" }, [path])[path]).toBe(false);
});

test("a restart continues the same run of Weights & Biases; without it nothing is named", () => {
  expect(rendered({}, ["logger.wandb"])["logger.wandb"]).toEqual({
    entity: "lab",
    project: "uplift",
    name: "github-rl-rl",
    id: `${"$"}{oc.env:RUN_ID}-rl`,
    resume: "allow",
  });
  expect(rendered({ wandb: false }, ["logger.wandb", "logger.wandb_enabled"])).toEqual({
    "logger.wandb": {},
    "logger.wandb_enabled": false,
  });
});

test("the reference model is loaded only where the loss needs it", () => {
  const path = "grpo.skip_reference_policy_logprobs_calculation";
  expect(rendered({}, [path])[path]).toBe(true);
  expect(rendered({ rl: { klPenalty: 0.01 } }, [path])[path]).toBe(false);
});

test("a cosine schedule falls to zero over the steps", () => {
  expect(
    rendered({ rl: { schedule: "cosine" } }, [
      "policy.megatron_cfg.optimizer.min_lr",
      "policy.megatron_cfg.scheduler.lr_decay_style",
      "policy.megatron_cfg.scheduler.lr_decay_iters",
    ]),
  ).toEqual({
    "policy.megatron_cfg.optimizer.min_lr": 0,
    "policy.megatron_cfg.scheduler.lr_decay_style": "cosine",
    "policy.megatron_cfg.scheduler.lr_decay_iters": 40,
  });
});

test.each([
  [86_400, "00:23:26:00"],
  [14_400, "00:03:26:00"],
  [7 * 86_400, "06:23:26:00"],
  // No time to train at all, which the launch refuses: nothing negative is written.
  [2000, "00:00:00:00"],
])(
  "a job of %i seconds saves by %s: NVIDIA's half hour, loading and one save of adapters before the limit",
  (walltimeSeconds, saveBy) => {
    const config = renderNemoRl({ ...stageInput(), walltimeSeconds });
    expect(valueAt(config, "checkpointing.checkpoint_must_save_by")).toBe(saveBy);
  },
);

test("the trainer saves as long before the limit as the time-limit rule says", () => {
  fc.assert(
    fc.property(fc.integer({ min: 3600, max: 30 * 86_400 }), fc.boolean(), (walltimeSeconds, lora) => {
      const input = { ...stageInput({ lora }), walltimeSeconds };
      const text = valueAt(renderNemoRl(input), "checkpointing.checkpoint_must_save_by");
      const [days = 0, hours = 0, minutes = 0, seconds = 0] = String(text).split(":").map(Number);
      expect(walltimeSeconds - (((days * 24 + hours) * 60 + minutes) * 60 + seconds)).toBe(saveMargin(input).seconds);
    }),
    { numRuns: 50 },
  );
});

test.each([0, 1, 5])(
  "with %i steps of warm-up the first step trains, and each adds as much as the one before",
  (warmupSteps) => {
    const config = renderNemoRl(stageInput({ rl: { warmupSteps, learningRate: 6e-6 } }));
    const scheduler = valueAt(config, "policy.megatron_cfg.scheduler") as {
      lr_warmup_init: number;
      lr_warmup_iters: number;
    };
    // Megatron's OptimizerParamScheduler: step k + 1 trains at the rate of k steps done.
    const rate = (done: number): number =>
      scheduler.lr_warmup_iters > 0 && done <= scheduler.lr_warmup_iters
        ? scheduler.lr_warmup_init + ((6e-6 - scheduler.lr_warmup_init) * done) / scheduler.lr_warmup_iters
        : 6e-6;
    for (let done = 0; done <= warmupSteps; done += 1)
      expect(rate(done)).toBeCloseTo((6e-6 * (done + 1)) / (warmupSteps + 1), 15);
    expect(scheduler.lr_warmup_init).toBeGreaterThan(0);
  },
);

test("sequences are packed where the layout says so, and long ones may not be left unpacked by anyone", () => {
  const path = "policy.sequence_packing.enabled";
  for (const dialect of ["v0.7.0", "main"] as const) {
    const layout = { train: { ...LAYOUT.train, contextParallel: 1, dataParallel: 4 }, sequenceDivisor: 8 };
    const packed = stageInput({ dialect, layout });
    expect(valueAt(renderNemoRl(packed), path)).toBe(true);
    expect(checkNemoRl(renderNemoRl(packed), contextOf(packed))).toEqual([]);

    const unpacked = stageInput({ dialect, layout: { ...layout, packing: false } });
    expect(valueAt(renderNemoRl(unpacked), "policy.sequence_packing")).toEqual({ enabled: false });
    // 9 × 131,072² bytes.
    expect(checkNemoRl(renderNemoRl(unpacked), contextOf(unpacked))).toMatchObject([
      { code: "nemo-rl-inconsistent", path: "rl", found: expect.stringContaining("144.0 GiB") },
    ]);

    const overrides = { policy: { sequence_packing: { enabled: false } } };
    const overridden = stageInput({ dialect, layout, rl: { overrides } });
    expect(checkNemoRl(renderNemoRl(overridden), contextOf(overridden)).map(({ code, path }) => [code, path])).toEqual([
      ["nemo-rl-inconsistent", `rl.overrides.${path}`],
      ["nemo-rl-override-owned", `rl.overrides.${path}`],
    ]);
  }
});

test("the recipe's overrides win, and leave their neighbours alone", () => {
  const overrides = { grpo: { overlong_filtering: true }, policy: { megatron_cfg: { env_vars: { A: "1" } } } };
  expect(
    rendered({ rl: { overrides } }, ["grpo.overlong_filtering", "grpo.seed", "policy.megatron_cfg.env_vars.A"]),
  ).toEqual({ "grpo.overlong_filtering": true, "grpo.seed": 0, "policy.megatron_cfg.env_vars.A": "1" });
});

test("an SFT layout is not rendered", () => {
  const { layout, ...input } = stageInput();
  const { kind: _, ...rest } = layout;
  expect(() => renderNemoRl({ ...input, layout: { ...rest, kind: "sft", microBatch: 1 } })).toThrow(
    /not a layout of kind sft/,
  );
});
