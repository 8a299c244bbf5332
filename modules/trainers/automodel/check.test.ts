import { describe, expect, it } from "vitest";
import { type Issue, renderIssue } from "../../../schemas/error.ts";
import { checkAutomodel } from "./check.ts";
import { type Config, deepMerge } from "./config-path.ts";
import { type StageChanges, stageInput } from "./fixture.ts";
import { renderAutomodel } from "./render.ts";

/** The issues of a good configuration with these overrides in its recipe. */
function withOverrides(overrides: Config, stage: StageChanges = {}): Issue[] {
  const input = stageInput({ ...stage, sft: { ...stage.sft, overrides } });
  const world = input.layout.nodes * input.layout.gpusPerNode;
  return checkAutomodel(renderAutomodel(input), {
    ...{ where: "recipes/r.ts", world, model: input.model, recipe: input.recipe },
  });
}

/** The issues of a good configuration with these changes, made by nobody's override. */
function changed(changes: Config, stage: StageChanges = {}): Issue[] {
  const input = stageInput(stage);
  const world = input.layout.nodes * input.layout.gpusPerNode;
  return checkAutomodel(deepMerge(renderAutomodel(input), changes), {
    ...{ where: "recipes/r.ts", world, model: input.model, recipe: input.recipe },
  });
}

const codes = (issues: readonly Issue[]): string[] => issues.map(({ code }) => code);

describe("the check of an Automodel configuration", () => {
  it("names the override that wrote a key, and proposes the key that was meant", () => {
    const [issue, ...others] = withOverrides({ step_scheduler: { gc_every_step: 5 } });
    expect(others).toEqual([]);
    expect(issue).toMatchObject({
      code: "am-unknown-keys",
      path: "recipes/r.ts: sft.overrides.step_scheduler.gc_every_step",
      asked: 'the key "gc_every_step" is set in step_scheduler',
      found: 'Automodel 0.7.0 has no such key there: did you mean "gc_every_steps"?',
      todo: 'write "gc_every_steps"',
    });
    expect(issue?.allowed).toContain("ckpt_every_steps");
  });

  it("names the key alone where no override wrote it", () => {
    expect(changed({ step_scheduler: { max_step: 5 } })).toMatchObject([
      { path: "recipes/r.ts: automodel: step_scheduler.max_step" },
    ]);
  });

  it("refuses values of the wrong type, outside the list, or below the least, with what is allowed", () => {
    const issues = changed({
      step_scheduler: { gc_every_steps: 0 },
      distributed: { defer_fsdp_grad_sync: "no", strategy: "fsdp3" },
      dataset: { _target_: "ChatDataset" },
    });
    expect(issues.map(({ code, path, allowed }) => [code, path.split(": ").at(-1), allowed])).toEqual([
      ["automodel-value", "dataset._target_", "the dotted path of a Python object, such as torch.optim.AdamW"],
      ["automodel-value", "distributed.defer_fsdp_grad_sync", "a value of type boolean"],
      ["automodel-value", "distributed.strategy", '"fsdp2" or "megatron_fsdp" or "megatron-fsdp" or "mfsdp" or "ddp"'],
      ["automodel-value", "step_scheduler.gc_every_steps", "at least 1"],
    ]);
  });

  it("refuses a configuration without what Automodel has no default for", () => {
    const { loss_fn: _loss, ...rest } = renderAutomodel(stageInput());
    const input = stageInput();
    const issues = checkAutomodel(rest, { where: "r.ts", world: 8, model: input.model });
    expect(issues).toMatchObject([{ code: "automodel-key-missing", path: "r.ts: automodel: loss_fn" }]);
    expect(changed({ model: { pretrained_model_name_or_path: undefined } })).toMatchObject([
      { code: "automodel-key-missing", path: "recipes/r.ts: automodel: model.pretrained_model_name_or_path" },
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

  it("passes on what goes to the model's own configuration, to wandb.init, or to another class", () => {
    expect(
      withOverrides(
        {
          model: { router_aux_loss_coef: 0, text_config: { attention_dropout: 0.1 } },
          wandb: { save_code: true, settings: {} },
          optimizer: { _target_: "transformer_engine.pytorch.optimizers.FusedAdam", master_weights: true },
          validation_dataset_short: { _target_: "my.module.make_dataset", path_or_dataset_id: "x", rows: 3 },
        },
        { wandb: true },
      ),
    ).toEqual([]);
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
      path: "recipes/r.ts: sft.overrides.step_scheduler.ckpt_every_steps",
      todo: "remove the override and set sft.saveEverySteps",
    });
  });

  it("refuses a bound on checkpoints that would push out a declared one", () => {
    const overrides = { checkpoint: { max_recent_checkpoints: 2 } };
    const report = [
      { stage: "sft" as const, step: 10 },
      { stage: "rl" as const, step: 40 },
    ];
    expect(codes(withOverrides(overrides, { recipe: { report } }))).toEqual(["automodel-declared-checkpoint-lost"]);
    expect(withOverrides(overrides)).toEqual([]);
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
