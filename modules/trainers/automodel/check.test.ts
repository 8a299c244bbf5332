import { describe, expect, it } from "vitest";
import { type Issue, renderIssue } from "../../../schemas/error.ts";
import { type Config, deepMerge } from "../config-path.ts";
import { ownerOf } from "../owners.ts";
import { automodelFindings, checkAutomodel } from "./check.ts";
import { type StageChanges, stageInput } from "./fixture.ts";
import schema from "./generated/automodel-0.7.0.schema.json" with { type: "json" };
import { AUTOMODEL_OWNERS } from "./owners.ts";
import { RUN_DIR, renderAutomodel } from "./render.ts";

const LOSS = "nemo_automodel.components.loss";

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
}

/** What planning says of a good recipe with these overrides. */
function withOverrides(overrides: Config, stage: StageChanges = {}): Issue[] {
  const input = stageInput({ ...stage, sft: { ...stage.sft, overrides } });
  const world = input.layout.nodes * input.layout.gpusPerNode;
  return checkAutomodel(renderAutomodel(input), { world, model: input.model, recipe: input.recipe });
}

/** What is wrong with a good configuration after these changes, by its own keys. */
function changed(changes: Config, stage: StageChanges = {}): ReturnType<typeof automodelFindings> {
  const input = stageInput(stage);
  const world = input.layout.nodes * input.layout.gpusPerNode;
  return automodelFindings(deepMerge(renderAutomodel(input), changes), { world, model: input.model });
}

const codes = (issues: readonly { code: string }[]): string[] => issues.map(({ code }) => code);

describe("the check of an Automodel configuration", () => {
  it("names the override that wrote a key, and proposes the key that was meant", () => {
    const [issue, ...others] = withOverrides({ step_scheduler: { gc_every_step: 5 } });
    expect(others).toEqual([]);
    expect(issue).toMatchObject({
      code: "am-unknown-keys",
      path: "sft.overrides.step_scheduler.gc_every_step",
      asked: 'the key "gc_every_step" is set in step_scheduler',
      found: 'Automodel 0.7.0 has no such key there: did you mean "gc_every_steps"?',
      todo: 'write "gc_every_steps"',
    });
    expect(issue?.allowed).toContain("ckpt_every_steps");
  });

  it("names the recipe's field where one gave the value, with the key it became, and else the stage", () => {
    const input = stageInput({ sft: { warmupSteps: 20 } });
    const context = { world: 8, model: input.model, recipe: input.recipe };
    expect(checkAutomodel(renderAutomodel(input), context)).toMatchObject([
      {
        code: "automodel-warmup-too-long",
        path: "sft.warmupSteps",
        asked: "a warm-up of 20 steps (lr_scheduler.lr_warmup_steps)",
      },
    ]);
    const config = deepMerge(renderAutomodel(stageInput()), {
      distributed: { tp_size: 3 },
      peft: { use_triton: false },
    });
    expect(checkAutomodel(config, context).map(({ path }) => path)).toEqual(["sft"]);
  });

  it("refuses values of the wrong type, outside the list, or below the least, with what is allowed", () => {
    const issues = changed({
      step_scheduler: { gc_every_steps: 0 },
      distributed: { defer_fsdp_grad_sync: "no", strategy: "fsdp3" },
      dataset: { _target_: "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset" },
    });
    expect(issues.map(({ code, key, allowed }) => [code, key, allowed])).toEqual([
      ["automodel-value", "distributed.defer_fsdp_grad_sync", "a value of type boolean"],
      ["automodel-value", "distributed.strategy", '"fsdp2" or "megatron_fsdp" or "megatron-fsdp" or "mfsdp" or "ddp"'],
      ["automodel-value", "step_scheduler.gc_every_steps", "at least 1"],
      ["automodel-target-not-allowed", "dataset._target_", "chat_data.ToolChatDatasetConfig"],
    ]);
  });

  it("refuses a configuration without what Automodel has no default for", () => {
    const { loss_fn: _loss, ...rest } = renderAutomodel(stageInput());
    const { model } = stageInput();
    expect(automodelFindings(rest, { world: 8, model })).toMatchObject([
      { code: "automodel-key-missing", key: "loss_fn" },
    ]);
    expect(changed({ model: { pretrained_model_name_or_path: undefined } })).toMatchObject([
      { code: "automodel-key-missing", key: "model.pretrained_model_name_or_path" },
    ]);
  });

  it.each([
    ["model", { model: { attn_implementatoin: "sdpa" } }, "automodel-misspelt-key"],
    ["model's language part", { model: { text_config: { rope_parameter: {} } } }, "automodel-misspelt-key"],
    ["wandb", { wandb: { resum: "must" } }, "automodel-misspelt-key"],
    ["model.backend", { model: { backend: { atn: "te" } } }, "am-unknown-keys"],
    ["optimizer", { optimizer: { weight_deacy: 0.1 } }, "am-unknown-keys"],
    ["dist_env", { dist_env: { timeout_minute: 30 } }, "am-unknown-keys"],
    ["loss_fn", { loss_fn: { ignore: -100 } }, "am-unknown-keys"],
    ["collate_fn", { dataloader: { collate_fn: { pad: 16 } } }, "am-unknown-keys"],
    ["packed_sequence", { packed_sequence: { pack_size: 0 } }, "am-unknown-keys"],
    ["the top", { clip_grad_nrom: { max_norm: 1 } }, "am-unknown-keys"],
  ])("refuses a slip in %s, which Automodel's loader lets pass", (_where, overrides, code) => {
    expect(codes(withOverrides(overrides, { wandb: true }))).toEqual([code]);
  });

  it("leaves free what changes neither memory, steps, checkpoints, data nor comparability", () => {
    const free: Config[] = [
      { model: { router_aux_loss_coef: 0, text_config: { attention_dropout: 0.1 } } },
      { wandb: { save_code: true, settings: {}, tags: ["long"] } },
      { dist_env: { timeout_minutes: 120 } },
      { step_scheduler: { gc_every_steps: 5, log_remote_every_steps: 5, preemption_signal: ["SIGTERM", "SIGUSR1"] } },
      { optimizer: { _target_: "torch.optim.NAdam", betas: [0.9, 0.999], eps: 1e-6 } },
      { peft: { dropout: 0.05, lora_A_init: "gaussian" } },
      { dataloader: { num_workers: 8 } },
      { dataset: { mask_reasoning_content: true } },
      { checkpoint: { consolidation_timeout_minutes: 90 } },
    ];
    for (const overrides of free) expect(withOverrides(overrides, { wandb: true })).toEqual([]);
  });

  it.each<[string, Config, string]>([
    [
      "distributed.activation_checkpointing",
      { distributed: { activation_checkpointing: false } },
      "; the layout follows from sft.parallelism",
    ],
    [
      "loss_fn._target_",
      { loss_fn: { _target_: `${LOSS}.masked_ce.MaskedCrossEntropy` } },
      "; the layout follows from sft.parallelism",
    ],
    [
      "step_scheduler.local_batch_size",
      { step_scheduler: { local_batch_size: 8 } },
      "; the layout follows from sft.parallelism",
    ],
    [
      "dataloader.collate_fn.pad_seq_len_divisible",
      { dataloader: { collate_fn: { pad_seq_len_divisible: 32 } } },
      "; the layout follows from sft.parallelism",
    ],
    ["model.torch_dtype", { model: { torch_dtype: "float32" } }, "; the layout follows from sft.parallelism"],
    ["optimizer.amsgrad", { optimizer: { amsgrad: true } }, "; the layout follows from sft.parallelism"],
    [
      "peft.target_modules",
      { peft: { target_modules: ["*_proj"] } },
      " and set sft.lora; its modules follow from the model",
    ],
    ["peft", { peft: null }, " and set sft.lora; its modules follow from the model"],
    ["dataset.truncation", { dataset: { truncation: "longest_first" } }, " and set sft.data"],
    ["dataset.chat_template", { dataset: { chat_template: "{{ messages }}" } }, " and set model"],
    [
      "checkpoint.checkpoint_dir",
      { checkpoint: { checkpoint_dir: `${RUN_DIR}/elsewhere` } },
      "; the list of declared checkpoints follows from sft.saveEverySteps and report",
    ],
    [
      "checkpoint.max_recent_checkpoints",
      { checkpoint: { max_recent_checkpoints: 2 } },
      "; the list of declared checkpoints follows from sft.saveEverySteps and report",
    ],
    ["lr_scheduler.init_lr", { lr_scheduler: { init_lr: 0 } }, " and set sft.warmupSteps"],
    [
      "model.quantization_config.load_in_4bit",
      { model: { quantization_config: { load_in_4bit: true } } },
      " and set model",
    ],
  ])("refuses an override of %s, which the plan has counted with", (key, overrides, instead) => {
    expect(withOverrides(overrides)).toMatchObject([
      { code: "automodel-override-owned", path: `sft.overrides.${key}`, todo: `remove the override${instead}` },
    ]);
  });

  it.each<[string, Config]>([
    ["optimizer._target_", { optimizer: { _target_: "os.system" } }],
    ["optimizer._target_", { optimizer: { _target_: "torch.optim.LBFGS" } }],
    ["dataset._target_", { dataset: { _target_: "my.module.make_dataset" } }],
    ["validation_dataset_short._target_", { validation_dataset_short: { _target_: "/tmp/x.py:make" } }],
    ["dataloader.collate_fn", { dataloader: { collate_fn: "/tmp/x.py:collate" } }],
    ["dataset.any_fn", { dataset: { any_fn: "os.getcwd" } }],
    ["model.text_config.nested.0.0._target_", { model: { text_config: { nested: [[{ _target_: "os.abort" }]] } } }],
    ["wandb.settings._target_", { wandb: { settings: { _target_: "os.abort" } } }],
    ["recipe._target_", { recipe: { _target_: "os.abort" } }],
  ])("lets no override name a Python object of its own: %s", (key, overrides) => {
    const issue = withOverrides(overrides, { wandb: true }).find(({ code }) => code === "automodel-target-not-allowed");
    expect(issue?.path).toBe(`sft.overrides.${key.replace(/\.0\.0\._target_$/, "")}`);
    expect(issue?.asked).toContain(`${key} names the Python object`);
  });

  it("knows an owner of every key, or that it is free", () => {
    const keysOf = (node: Node, above: string): string[] =>
      Object.entries(node.properties ?? {}).flatMap(([name, inner]) => {
        const key = above === "" ? name : `${above}.${name}`;
        return inner.properties === undefined ? [key] : keysOf(inner, key);
      });
    const keys = keysOf(schema as Node, "");
    expect(keys.length).toBeGreaterThan(150);
    expect(keys.filter((key) => ownerOf(AUTOMODEL_OWNERS, key) === undefined)).toEqual([]);
    for (const [owner, ...patterns] of AUTOMODEL_OWNERS)
      for (const pattern of patterns)
        expect(
          // Three that only the model's own configuration has.
          [
            ...keys,
            ...["", "text_config."].flatMap((at) => [
              `model.${at}attention_dropout`,
              `model.${at}router_aux_loss_coef`,
            ]),
          ]
            .concat("model.text_config.rope_parameters")
            .some((key) => ownerOf([[owner, pattern]], key) !== undefined),
          pattern,
        ).toBe(true);
  });

  it.each<[string, Config, string]>([
    ["rng.seed that is not the seed", { rng: { seed: 3 } }, "automodel-seed-ignored"],
    [
      "padding that chunks do not divide",
      { dataloader: { collate_fn: { pad_seq_len_divisible: 8 } } },
      "automodel-cp-padding",
    ],
    ["ranks that give up at once", { dist_env: { timeout_minutes: 1 } }, "automodel-timeout-short"],
    [
      "another signal than the job forwards",
      { step_scheduler: { preemption_signal: "SIGTERM" } },
      "automodel-preemption-signal",
    ],
    ["no signal", { step_scheduler: { preemption_signal: null } }, "automodel-preemption-signal"],
    ["a warm-up as long as the training", { lr_scheduler: { lr_warmup_steps: 20 } }, "automodel-warmup-too-long"],
    ["adapters by two lists", { peft: { exclude_modules: ["*visual*"] } }, "automodel-peft-modules"],
    ["adapters everywhere", { peft: { target_modules: [], match_all_linear: true } }, "automodel-peft-modules"],
    [
      "a RoPE block without a base",
      { model: { rope_parameters: { rope_type: "yarn" } } },
      "automodel-rope-theta-missing",
    ],
    ["a batch that the GPUs do not divide", { step_scheduler: { local_batch_size: 3 } }, "automodel-batch-uneven"],
  ])("refuses %s", (_what, changes, code) => {
    expect(codes(changed(changes))).toEqual([code]);
  });

  it("accepts the job's signal in any of Automodel's spellings", () => {
    for (const preemption_signal of ["usr1", 10, ["SIGTERM", "SIGUSR1"]])
      expect(changed({ step_scheduler: { preemption_signal } })).toEqual([]);
  });

  it("refuses an override of what a field of the recipe says, since the plan counts with the field", () => {
    const [issue] = withOverrides({ step_scheduler: { ckpt_every_steps: 5 } });
    expect(issue).toMatchObject({
      code: "automodel-override-owned",
      path: "sft.overrides.step_scheduler.ckpt_every_steps",
      todo: "remove the override and set sft.saveEverySteps",
    });
  });

  it("reports all mistakes together, each in four concrete parts", () => {
    const issues = withOverrides({ distributed: { cp_size: 3 }, peft: { rank: 8 }, lr_scheduler: { max_lr: 1 } });
    expect(codes(issues).sort()).toEqual([
      ...["am-unknown-keys", "am-world", "automodel-cp-padding"],
      ...["automodel-override-owned", "automodel-override-owned"],
    ]);
    for (const issue of issues) {
      for (const part of [issue.asked, issue.found, issue.allowed, issue.todo]) expect(part).not.toBe("");
      expect(renderIssue(issue)).not.toMatch(/undefined|NaN|\[object/);
    }
  });
});
