import { describe, expect, it } from "vitest";
import { modelFacts } from "../../../schemas/model.ts";
import { type Config, deepMerge } from "../config-path.ts";
import { automodelFindings } from "./check.ts";
import { CONSTRAINTS } from "./constraints.ts";
import { type StageChanges, stageInput } from "./fixture.ts";
import { RUN_DIR, renderAutomodel } from "./render.ts";

/** What the checker says of a good configuration with these changes: "code key". */
function said(changes: Config, stage: StageChanges = {}, model = stageInput(stage).model): string[] {
  const input = stageInput(stage);
  const world = input.layout.nodes * input.layout.gpusPerNode;
  const config = deepMerge(renderAutomodel(input), changes);
  return automodelFindings(config, { world, model }).map(({ code, key }) => `${code} ${key}`);
}

describe("Automodel's rule", () => {
  it("is there for each id of the reference", () => {
    expect(["am-unknown-keys", ...CONSTRAINTS.map(({ id }) => id)].sort()).toEqual([
      ...["am-cp-model", "am-cp-pack", "am-hsdp", "am-peft-format", "am-peft-triton-tp", "am-pp-block"],
      ...["am-restore", "am-retention", "am-unknown-keys", "am-warmup", "am-world"],
    ]);
    for (const { source } of CONSTRAINTS) expect(source).toMatch(/\.(py|md)/);
  });

  it("am-world refuses degrees that do not divide the GPUs, and a wrong dp_size", () => {
    expect(said({ distributed: { tp_size: 3 }, peft: { use_triton: false } })).toEqual([
      "am-world distributed.tp_size",
    ]);
    expect(said({ distributed: { dp_size: 2 } })).toEqual(["am-world distributed.dp_size"]);
    expect(said({ distributed: { dp_size: null } })).toEqual([]);
  });

  it("am-hsdp refuses copies of shards that do not divide the groups, and other strategies", () => {
    const stage = { contextParallel: 1 } as const;
    expect(said({ distributed: { dp_replicate_size: 3 } }, stage)).toEqual(["am-hsdp distributed.dp_replicate_size"]);
    expect(said({ distributed: { dp_replicate_size: 8 } }, stage)).toEqual(["am-hsdp distributed.dp_replicate_size"]);
    expect(said({ distributed: { dp_replicate_size: 2 } }, stage)).toEqual([]);
    expect(said({ distributed: { dp_replicate_size: 2, strategy: "ddp" } }, stage)).toEqual([
      "am-hsdp distributed.dp_replicate_size",
    ]);
  });

  it("am-pp-block refuses a pipeline without a block, and one with fewer micro batches than stages", () => {
    const stage = { pipelineParallel: 2, contextParallel: 4 } as const;
    expect(said({ distributed: { pipeline: null } }, stage)).toContain("am-pp-block distributed.pipeline");
    expect(said({ step_scheduler: { local_batch_size: 1 } }, stage)).toEqual([
      "am-pp-block step_scheduler.local_batch_size",
    ]);
    expect(said({}, stage)).toEqual([]);
  });

  it("am-cp-pack refuses packed sequences that GPUs share, unless the attention knows both", () => {
    const packed = { packed_sequence: { packed_sequence_size: 131_072 } };
    expect(said(packed)).toEqual(["am-cp-pack packed_sequence.packed_sequence_size"]);
    expect(said({ ...packed, model: { backend: { attn: "te" } } })).toEqual([]);
    expect(said(packed, { contextParallel: 1 })).toEqual([]);
  });

  it("am-cp-model refuses shared sequences for a class or an attention that cannot", () => {
    const textOnly = { ...stageInput().model, architecture: "Qwen3_5ForCausalLM" };
    expect(said({}, {}, textOnly)).toEqual(["am-cp-model distributed.cp_size"]);
    const hybrid = { ...stageInput().model, architecture: "SomeHybridForCausalLM" };
    expect(said({}, {}, hybrid)).toEqual(["am-cp-model distributed.cp_size"]);
    expect(said({}, { contextParallel: 1 }, textOnly)).toEqual([]);
    expect(said({ model: { attn_implementation: "flash_attention_2" } })).toEqual([
      "am-cp-model model.attn_implementation",
    ]);
    expect(said({}, { model: "Qwen/Qwen3-32B" }, modelFacts("Qwen/Qwen3-32B") ?? undefined)).toEqual([]);
  });

  it("am-peft-format refuses adapters in torch_save format", () => {
    expect(said({ checkpoint: { model_save_format: "torch_save" } })).toEqual([
      "am-peft-format checkpoint.model_save_format",
    ]);
    expect(said({ checkpoint: { model_save_format: "torch_save" } }, { sft: { lora: undefined } })).toEqual([]);
  });

  it("am-peft-triton-tp refuses Triton's LoRA kernels on split weights", () => {
    const stage = { tensorParallel: 4, contextParallel: 2 } as const;
    expect(said({ peft: { use_triton: true } }, stage)).toEqual(["am-peft-triton-tp peft.use_triton"]);
    expect(said({}, stage)).toEqual([]);
  });

  it("am-retention refuses a bound that is no count, or on storage where nothing is deleted", () => {
    const key = "am-retention checkpoint.max_recent_checkpoints";
    expect(said({ checkpoint: { max_recent_checkpoints: 0 } })).toEqual([key]);
    // The type alone would say less; it is said once.
    expect(said({ checkpoint: { max_recent_checkpoints: true } })).toEqual([key]);
    expect(said({ checkpoint: { max_recent_checkpoints: 3, checkpoint_dir: "msc://bucket/x" } })).toContain(key);
    expect(said({ checkpoint: { max_recent_checkpoints: 3 } })).toEqual([]);
  });

  it("am-unknown-keys refuses a key that a section does not have", () => {
    expect(said({ step_scheduler: { ckpt_every_step: 5 } })).toEqual([
      "am-unknown-keys step_scheduler.ckpt_every_step",
    ]);
  });

  it("am-warmup refuses a share of the steps", () => {
    expect(said({ lr_scheduler: { lr_warmup_steps: 0.1 } })).toEqual(["am-warmup lr_scheduler.lr_warmup_steps"]);
  });

  it("am-restore refuses to look for checkpoints, or to go on from one, outside this run's folder", () => {
    const from = (restore_from: unknown): string[] => said({ checkpoint: { restore_from } });
    expect(from("/fsx/runs/other/trainer/sft/epoch_0_step_9")).toEqual(["am-restore checkpoint.restore_from"]);
    expect(from(`${RUN_DIR}/trainer/sft/../../other`)).toEqual(["am-restore checkpoint.restore_from"]);
    for (const allowed of [null, "LATEST", "epoch_0_step_9", `${RUN_DIR}/trainer/sft/epoch_0_step_9`])
      expect(from(allowed)).toEqual([]);
    expect(said({ checkpoint: { checkpoint_dir: "/fsx/checkpoints" } })).toEqual([
      "am-restore checkpoint.checkpoint_dir",
    ]);
  });
});
