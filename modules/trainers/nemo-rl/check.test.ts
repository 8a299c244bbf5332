import fc from "fast-check";
import { expect, test } from "vitest";
import type { Issue } from "../../../schemas/error.ts";
import { MODELS } from "../../../schemas/model.ts";
import { isMapping } from "../config-path.ts";
import { checkNemoRl, nemoRlFindings } from "./check.ts";
import { AS_SFT, changed, contextOf, GONE, stageInput, type Variation } from "./fixture.ts";
import { renderNemoRl } from "./render.ts";

/** The mistakes of the reference case with some values changed. */
function mistakes(changes: Readonly<Record<string, unknown>>, variation: Variation = {}): Issue[] {
  const input = stageInput(variation);
  return nemoRlFindings(changed(renderNemoRl(input), changes), contextOf(input));
}

/** What planning says of a recipe whose rl block has these fields. */
function planned(rl: Variation["rl"], variation: Variation = {}): Issue[] {
  const input = stageInput({ ...variation, ...(rl === undefined ? {} : { rl }) });
  return checkNemoRl(renderNemoRl(input), contextOf(input));
}

/** Code and path of each. */
function told(issues: readonly Issue[]): string[] {
  return issues.map(({ code, path }) => `${code} ${path}`);
}

test("a misspelt key is refused at every level, with what was meant", () => {
  const issues = mistakes({ "policy.megatron_cfg.optimizer.wieght_decay": 0.1 });
  expect(issues).toHaveLength(1);
  expect(issues[0]).toMatchObject({
    code: "nemo-rl-unknown-key",
    path: "policy.megatron_cfg.optimizer.wieght_decay",
    asked: '"wieght_decay" is set to 0.1',
    found: "NeMo-RL v0.7.0 has no such key at policy.megatron_cfg.optimizer; its loader would ignore it",
    todo: 'did you mean "weight_decay"?',
  });
});

test("any unknown key anywhere is refused, except in the sections that are free", () => {
  const config = renderNemoRl(stageInput());
  const sections: string[] = [];
  const walk = (value: unknown, path: string): void => {
    if (!isMapping(value)) return;
    sections.push(path);
    for (const [key, inner] of Object.entries(value)) walk(inner, path === "" ? key : `${path}.${key}`);
  };
  walk(config, "");
  const free = [
    "policy.hf_config_overrides",
    "policy.generation.vllm_kwargs",
    "policy.generation.vllm_cfg.http_server_serving_chat_kwargs",
    "policy.generation.vllm_cfg.http_server_serving_chat_kwargs.default_chat_template_kwargs",
  ];
  const closed = sections.filter((path) => !free.includes(path));
  expect(closed.length).toBeGreaterThan(30);
  for (const path of closed) {
    const key = path === "" ? "zzz_unknown" : `${path}.zzz_unknown`;
    expect(told(mistakes({ [key]: 1 })).map((line) => line.split(" ")[1])).toEqual([key]);
  }
  for (const path of free) {
    // An override of the model's config that only training reads is told of by the rule yarn-exports, if it is YaRN's.
    expect(mistakes({ [`${path}.zzz_unknown`]: 1 })).toEqual([]);
  }
});

test("a key of the other version says so", () => {
  expect(mistakes({ "checkpointing.ft_save_period": 5 })[0]).toMatchObject({
    code: "nemo-rl-unknown-key",
    found: expect.stringContaining("only main has"),
    todo: "render for main (the target's nemoRl), or remove it",
  });
});

test("a section of one's own is allowed under env, a bare value there is a misspelling", () => {
  expect(mistakes({ "env.nemo_gym.my_server": { resources_servers: {} } })).toEqual([]);
  expect(mistakes({ "env.nemo_gym.skip_venv_if_presnt": true })[0]).toMatchObject({
    code: "nemo-rl-unknown-key",
    todo: 'did you mean "skip_venv_if_present"?',
  });
});

test.each<[string, unknown, string]>([
  ["policy.precision", "bf16", '"bfloat16", "float16", "float32"'],
  ["policy.generation.vllm_cfg.kv_cache_dtype", "fp16", '"auto", "fp8", "fp8_e4m3"'],
  ["policy.train_micro_batch_size", -1, "1 and more"],
  ["policy.generation.vllm_cfg.gpu_memory_utilization", 1.2, "up to 1"],
  ["policy.megatron_cfg.optimizer.lr", 0, "more than 0"],
  ["policy.tokenizer.name", "/fsx/model/", "a path without a slash at its end"],
  ["checkpointing.checkpoint_must_save_by", "3h", "days, hours, minutes and seconds, e.g. 00:03:30:00"],
  ["checkpointing.keep_top_k", null, "a value of type integer"],
  ["grpo.seed", "0", "a value of type integer"],
])("%s = %j is refused, though NeMo-RL's loader may take it", (path, value, allowed) => {
  // tp4-mbs and others may speak of the same value in other words; here only the value itself counts.
  const found = mistakes({ [path]: value }).filter(({ code }) => code === "nemo-rl-bad-value");
  expect(found).toHaveLength(1);
  expect(found[0]).toMatchObject({ path: `${path}`, allowed });
});

test("an interpolated number is refused: nobody could check it before the job starts", () => {
  expect(
    mistakes({ "policy.sequence_packing.train_mb_tokens": "$" + "{policy.max_total_sequence_length}" })[0],
  ).toMatchObject({ code: "nemo-rl-bad-value", todo: "write the value itself" });
});

test("every key that the types require is missed when it is gone", () => {
  for (const path of [
    "policy.megatron_cfg.moe_per_layer_logging",
    "policy.megatron_cfg.scheduler",
    "loss_fn",
    "cluster.num_nodes",
  ])
    expect(told(mistakes({ [path]: GONE }))).toContain(`nemo-rl-missing-key ${path}`);
  // A section that is switched off needs nothing but its switch.
  expect(mistakes({ "policy.dynamic_batching": { enabled: false } })).toEqual([]);
  expect(told(mistakes({ "policy.dynamic_batching": {} }))).toEqual([
    "nemo-rl-missing-key policy.dynamic_batching.enabled",
  ]);
});

test("all mistakes are told at once, each where the recipe says it", () => {
  const overrides = {
    policy: { precison: "bfloat16", make_sequence_length_divisible_by: 8 },
    grpo: { num_prompts_per_step: 0 },
    checkpointing: null,
    loss_fn: { ratio_clip_c: "big" },
  };
  expect(told(planned({ overrides, warmupSteps: 40 })).sort()).toEqual([
    "nemo-rl-bad-value rl.overrides.loss_fn.ratio_clip_c",
    "nemo-rl-constraint rl.overrides.checkpointing",
    "nemo-rl-constraint rl.overrides.policy.make_sequence_length_divisible_by",
    "nemo-rl-inconsistent rl.warmupSteps",
    "nemo-rl-override-owned rl.overrides.checkpointing",
    "nemo-rl-override-owned rl.overrides.grpo.num_prompts_per_step",
    "nemo-rl-override-owned rl.overrides.policy.make_sequence_length_divisible_by",
    "nemo-rl-unknown-key rl.overrides.policy.precison",
  ]);
});

test("a mistake that a field of the recipe makes bears the field, and names the trainer's key beside it", () => {
  expect(planned({ warmupSteps: 40 })).toMatchObject([
    {
      code: "nemo-rl-inconsistent",
      path: "rl.warmupSteps",
      asked: "the learning rate is to rise for 40 steps (policy.megatron_cfg.scheduler.lr_warmup_iters)",
    },
  ]);
  // Degrees that the plan chose by itself are no field of the recipe's.
  const input = stageInput();
  const config = changed(renderNemoRl(input), { "policy.megatron_cfg.pipeline_model_parallel_size": 3 });
  expect(told(checkNemoRl(config, contextOf(input)))).toEqual(["nemo-rl-constraint rl"]);
  const parallelism = { tensorParallel: 4 };
  expect(told(checkNemoRl(config, contextOf(stageInput({ rl: { parallelism } }))))).toEqual([
    "nemo-rl-constraint rl.parallelism.tensorParallel",
  ]);
});

test("a rule with more to say replaces the schema's word on the same key", () => {
  expect(told(mistakes({ "policy.megatron_cfg.recompute_granularity": "none" }))).toEqual([
    "nemo-rl-constraint policy.megatron_cfg.recompute_granularity",
  ]);
});

test("an fp8 cache is refused with Gym, whose engine is asynchronous", () => {
  const { generation } = stageInput().layout as Extract<ReturnType<typeof stageInput>["layout"], { kind: "rl" }>;
  const issues = mistakes({}, { layout: { generation: { ...generation, kvCacheDtype: "fp8" } } });
  expect(told(issues)).toEqual(["nemo-rl-constraint policy.generation.vllm_cfg.kv_cache_dtype"]);
});

test("YaRN on a model whose rotary base nobody knows asks for rope.theta", () => {
  const input = stageInput({ model: "Qwen/Qwen3-32B" });
  const model = { ...MODELS["Qwen/Qwen3-32B"], rotary: null };
  const issues = checkNemoRl(renderNemoRl({ ...input, model }), { ...contextOf(input), model });
  expect(issues.map(({ todo }) => todo)).toEqual(["give rope.theta in the recipe"]);
});

test("an SFT configuration is checked as one, in both versions", () => {
  const base = { placement: "colocated" } as const;
  expect(mistakes({ ...AS_SFT, "policy.megatron_cfg.use_linear_ce_fusion_loss": false }, base)).toEqual([]);
  expect(mistakes(AS_SFT, { ...base, dialect: "main" })).toEqual([]);
  expect(told(mistakes({ ...AS_SFT, grpo: {} }, { ...base, dialect: "main" }))).toEqual(["nemo-rl-unknown-key grpo"]);
});

test("no configuration, however broken, breaks the check itself", () => {
  const input = stageInput();
  const config = renderNemoRl(input);
  const paths = ["grpo", "policy", "policy.megatron_cfg", "policy.generation", "cluster", "data", "env", "loss_fn"];
  fc.assert(
    fc.property(fc.constantFrom(...paths), fc.jsonValue(), (path, value) => {
      const issues = checkNemoRl(changed(config, { [path]: value }), contextOf(input));
      for (const { asked, found, allowed, todo } of issues)
        for (const part of [asked, found, allowed, todo]) expect(part.length).toBeGreaterThan(0);
    }),
    { numRuns: 100 },
  );
});
