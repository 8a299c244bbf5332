import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../../schemas/digest.ts";
import { valueAt } from "../config-path.ts";
import { checkAutomodel } from "./check.ts";
import { stageInput } from "./fixture.ts";
import { RUN_DIR, renderAutomodel } from "./render.ts";

const full = { ...{ steps: 20, batchSize: 8, learningRate: 5e-6, saveEverySteps: 10 }, lora: undefined };

describe("the Automodel configuration of an SFT stage", () => {
  it("trains a text chat dataset with Qwen3.5's class that shares a sequence over GPUs", () => {
    const config = renderAutomodel(stageInput());
    expect(config.recipe).toBe("TrainFinetuneRecipeForNextTokenPrediction");
    expect(config.model).toMatchObject({
      _target_: "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
      pretrained_model_name_or_path: "/fsx/models/Qwen--Qwen3.8-27B",
      attn_implementation: "sdpa",
      num_nextn_predict_layers: 0,
    });
    expect(config.dataset).toMatchObject({
      _target_: "chat_data.ToolChatDatasetConfig",
      path_or_dataset_id: `${RUN_DIR}/data/sft.jsonl`,
      seq_length: 131_072,
      mask_history: false,
    });
    expect(config.distributed).toMatchObject({ strategy: "fsdp2", dp_size: 1, tp_size: 1, cp_size: 8, pp_size: 1 });
    expect(valueAt(config, "dataloader.collate_fn.pad_seq_len_divisible")).toBe(16);
    expect(config).not.toHaveProperty("validation_dataset");
  });

  it("writes out the recipe's steps, batch, rates and seed", () => {
    const config = renderAutomodel(stageInput({ recipe: { seed: 7 }, sft: { weightDecay: 0.01, maxGradNorm: 0.5 } }));
    expect(config.step_scheduler).toMatchObject({
      ...{ max_steps: 20, num_epochs: null, global_batch_size: 8, local_batch_size: 1, ckpt_every_steps: 10 },
      ...{ save_checkpoint_every_epoch: false, preemption_signal: "SIGUSR1" },
    });
    expect(config.optimizer).toMatchObject({ lr: 1e-4, betas: [0.9, 0.95], weight_decay: 0.01 });
    // The first step trains, at a third of the peak with 2 steps of warm-up, and the last rate is 0; Automodel's own ends
    // are a tenth and a hundredth of the peak.
    expect(config.lr_scheduler).toEqual({
      ...{ lr_decay_style: "cosine", lr_warmup_steps: 2, lr_decay_steps: 20 },
      ...{ init_lr: 1e-4 / 3, max_lr: 1e-4, min_lr: 0 },
    });
    expect(valueAt(renderAutomodel(stageInput({ sft: { warmupSteps: 0 } })), "lr_scheduler.init_lr")).toBe(1e-4);
    expect(config.clip_grad_norm).toEqual({ max_norm: 0.5 });
    expect([config.seed, valueAt(config, "rng.seed")]).toEqual([7, 7]);
    expect(valueAt(config, "dist_env.timeout_minutes")).toBe(60);
  });

  it("puts adapters on the language model's layers alone, by wildcard, and freezes the vision tower", () => {
    const config = renderAutomodel(stageInput());
    expect(config.peft).toMatchObject({ target_modules: ["model.language_model.layers.*"], dim: 32, alpha: 64 });
    expect(config.peft).not.toHaveProperty("exclude_modules");
    expect(valueAt(config, "freeze_config.freeze_vision_tower")).toBe(true);
    const text = renderAutomodel(stageInput({ model: "Qwen/Qwen3-32B" }));
    expect(valueAt(text, "peft.target_modules")).toEqual(["model.layers.*"]);
    expect(text).not.toHaveProperty("freeze_config");
  });

  it("scales adapters by twice their rank where the recipe says nothing", () => {
    expect(valueAt(renderAutomodel(stageInput({ sft: { lora: { rank: 16 } } })), "peft.alpha")).toBe(32);
  });

  it("uses Triton's LoRA kernels only where weights are whole", () => {
    const useTriton = (tensorParallel: number): unknown =>
      valueAt(renderAutomodel(stageInput({ tensorParallel, contextParallel: 2 })), "peft.use_triton");
    expect([useTriton(1), useTriton(4)]).toEqual([true, false]);
  });

  it("excludes what is not language by name for a model whose layout it does not know", () => {
    const input = stageInput();
    const config = renderAutomodel({
      ...input,
      model: { ...input.model, architecture: "Gemma3ForConditionalGeneration" },
    });
    expect(valueAt(config, "peft.exclude_modules")).toContain("*vision_tower*");
    expect(config.peft).not.toHaveProperty("target_modules");
    expect(config.model).not.toHaveProperty("backend");
  });

  it("trains all weights in float32 and joins them at every save where the recipe asks for no adapters", () => {
    const config = renderAutomodel(stageInput({ sft: full }));
    expect(config).not.toHaveProperty("peft");
    expect(valueAt(config, "model.torch_dtype")).toBe("float32");
    expect(valueAt(config, "checkpoint.save_consolidated")).toBe("every");
    expect(valueAt(config, "checkpoint.max_recent_checkpoints")).toBeNull();
  });

  it("keeps one W&B run over restarts: Automodel fills in the run's id, which is not known before it is submitted", () => {
    expect(renderAutomodel(stageInput({ wandb: true })).wandb).toEqual({
      entity: "lab",
      project: "uplift",
      name: "github-sft-rl-sft",
      id: `${"$"}{RUN_ID}-sft`,
      resume: "allow",
      dir: `${RUN_DIR}/logs`,
    });
    expect(renderAutomodel(stageInput())).not.toHaveProperty("wandb");
  });

  it("carries a RoPE block into the language model's configuration, with what the family keeps beside it", () => {
    const rope = { type: "yarn", factor: 2, originalMaxTokens: 262_144, betaFast: 32, betaSlow: 1 } as const;
    const config = renderAutomodel(stageInput({ recipe: { rope } }));
    expect(valueAt(config, "model.text_config.rope_parameters")).toEqual({
      ...{ rope_type: "yarn", factor: 2, original_max_position_embeddings: 262_144, beta_fast: 32, beta_slow: 1 },
      ...{ rope_theta: 10_000_000, partial_rotary_factor: 0.25, mrope_interleaved: true, mrope_section: [11, 11, 10] },
    });
    const text = renderAutomodel(stageInput({ model: "Qwen/Qwen3-32B", recipe: { rope: { ...rope, theta: 5e6 } } }));
    expect(valueAt(text, "model.rope_parameters")).toMatchObject({ rope_type: "yarn", rope_theta: 5e6 });
  });

  it("runs as many micro batches as a pipeline has stages, without a loss that the trainer would swap by itself", () => {
    const config = renderAutomodel(stageInput({ pipelineParallel: 2, contextParallel: 4 }));
    expect(valueAt(config, "step_scheduler.local_batch_size")).toBe(2);
    expect(valueAt(config, "distributed.pipeline")).toEqual({ pp_schedule: "1f1b", pp_microbatch_size: 1 });
    expect(valueAt(config, "loss_fn._target_")).toContain("MaskedCrossEntropy");
    expect(valueAt(renderAutomodel(stageInput()), "loss_fn._target_")).toContain("FusedLinearCrossEntropy");
  });

  it("lays a recipe's overrides over the rest, mapping by mapping", () => {
    const overrides = { step_scheduler: { gc_every_steps: 5 }, peft: { target_modules: ["*_proj"] } };
    const config = renderAutomodel(stageInput({ sft: { overrides } }));
    expect(config.step_scheduler).toMatchObject({ max_steps: 20, gc_every_steps: 5 });
    expect(valueAt(config, "peft.target_modules")).toEqual(["*_proj"]);
  });

  it("is the same, byte for byte, for the same stage, and checks clean", () => {
    for (const changes of [{}, { wandb: true }, { sft: full, tensorParallel: 4, contextParallel: 2 }, { nodes: 2 }]) {
      const input = stageInput(changes);
      const config = renderAutomodel(input);
      expect(canonicalJson(renderAutomodel(stageInput(changes)))).toBe(canonicalJson(config));
      const world = input.layout.nodes * input.layout.gpusPerNode;
      expect(checkAutomodel(config, { world, model: input.model, recipe: input.recipe })).toEqual([]);
    }
  });

  it("is refused for a stage that Automodel does not run", () => {
    expect(() => renderAutomodel({ ...stageInput(), stage: "rl" })).toThrow(/Automodel runs SFT stages/);
  });
});
