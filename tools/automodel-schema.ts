/**
 * Facts about Automodel's configuration → modules/trainers/automodel/generated/automodel-0.7.0.schema.json.
 *
 *   npx tsx tools/automodel-schema.ts PATH_TO/nemo-keys.json
 *
 * In: `automodel_recipe` of nemo-keys.json (every key with type, default, allowed values, source), and the few keys
 * below that the 0.7.0 wheel reads but that list leaves out. Out: one JSON Schema, committed. Writes that file only;
 * run it again when the pinned Automodel changes.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { CHAT_DATASET } from "../modules/trainers/automodel/render.ts";

const OUTPUT = join(import.meta.dirname, "../modules/trainers/automodel/generated/automodel-0.7.0.schema.json");

const Scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const Row = z.looseObject({
  type: z.string(),
  required: z.boolean(),
  allowed: z.array(Scalar).nullable(),
  source: z.string(),
});
type Row = z.infer<typeof Row>;
const Facts = z.looseObject({ automodel_recipe: z.record(z.string(), Row) });

type Schema = { [key: string]: unknown; properties?: Record<string, Schema> };

/** Sections whose unknown keys reach someone else: a model's own configuration, wandb.init. */
const PASS_THROUGH = new Set(["model", "wandb"]);

/** Sections the reference names without listing keys; what is in them is not checked. */
const OPEN_SECTIONS: Record<string, string> = {
  mlflow: "nemo.md 2.2",
  comet: "nemo.md 2.2",
  compile: "nemo.md 2.2",
  fp8: "nemo.md 2.2",
  quantization: "nemo.md 2.2",
  qat: "nemo.md 2.2",
  processor: "nemo.md 2.2 (VLM)",
  neftune: "recipes/llm/train_ft.py",
  moe_metrics: "recipes/llm/train_ft.py",
  tool_call_eval: "recipes/llm/train_ft.py",
  domain_mixture: "recipes/_typed_config.py",
  embedding_row_repair: "recipes/_typed_config.py",
};

const row = (type: string, source: string, allowed: Row["allowed"] = null): Row => ({
  ...{ type, source, allowed },
  required: false,
});

/** Read in the 0.7.0 wheel, missing in nemo-keys.json. */
const ADDED: Record<string, Row> = {
  "clip_grad_norm.backend": row("str", "recipes/llm/train_ft.py"),
  "dataset.tokenizer": row("dict | None", "recipes/_typed_config.py (_resolve_dataloader)"),
  "distributed.moe": row("dict", "recipes/_dist_utils.py (parse_distributed_section)"),
  "loss_fn.chunk_len": row("int", "components/loss/loss.py (ChunkedCEConfig)"),
  "loss_fn.compile": row("bool", "components/loss/loss.py (ChunkedCEConfig)"),
  "loss_fn.fp32_upcast": row("bool", "components/loss/loss.py (MaskedCrossEntropyConfig)"),
  "loss_fn.ignore_index": row("int", "components/loss/loss.py"),
  "loss_fn.impl": row("str", "components/loss/loss.py (FusedLinearCEConfig)", ["cce", "torch_compile"]),
  "loss_fn.logit_softcapping": row("float", "components/loss/loss.py (FusedLinearCEConfig)"),
  "loss_fn.reduction": row("str", "components/loss/loss.py", ["sum", "mean", "none"]),
  "mfu.device": row("str | None", "_transformers/mfu.py (MFUConfig)"),
  "mfu.peak_tflops": row("float | None", "_transformers/mfu.py (MFUConfig)"),
  "model.backend._target_": row("dotted path", "components/models/common/utils.py (BackendConfig)"),
  "model.backend.rope": row("str", "components/models/common/utils.py", ["torch", "quack", "triton"]),
  "model.backend.sparse_attn": row("str", "components/models/common/utils.py", ["generic", "msa"]),
  "model.cache_dir": row("str | None", "recipes/_typed_config.py (checkpoint)"),
  "model.force_hf": row("bool", "_transformers/auto_model.py (from_pretrained)"),
  "model.mtp_loss_scaling_factor": row("float", "components/models/qwen3_5/model.py"),
  "model.revision": row("str | None", "_transformers/auto_model.py"),
  "model.rope_parameters": row("dict", "_transformers/model_init.py (_consume_config_overrides)"),
  "model.text_config": row("dict", "_transformers/model_init.py (_consume_config_overrides)"),
  "model.trust_remote_code": row("bool", "_transformers/model_init.py"),
  "model.use_liger_kernel": row("bool", "_transformers/auto_model.py (from_pretrained)"),
  "model.use_sdpa_patching": row("bool", "_transformers/auto_model.py (from_pretrained)"),
  nvtx: row("bool", "recipes/llm/train_ft.py"),
  "optimizer.amsgrad": row("bool", "torch.optim.AdamW"),
  "optimizer.capturable": row("bool", "torch.optim.AdamW"),
  "optimizer.differentiable": row("bool", "torch.optim.AdamW"),
  "optimizer.foreach": row("bool | None", "torch.optim.AdamW"),
  "optimizer.fused": row("bool | None", "torch.optim.AdamW"),
  "optimizer.maximize": row("bool", "torch.optim.AdamW"),
  "optimizer.param_group_overrides": row("list[dict]", "components/optim/optimizer.py (OptimizerConfig)"),
  "rng.deterministic": row("bool", "components/training/rng.py (StatefulRNG)"),
  sdpa_method: row("list[str] | None", "recipes/llm/train_ft.py"),
  "wandb.id": row("str", "wandb.init"),
  "wandb.resume": row("str", "wandb.init", ["allow", "never", "must", "auto"]),
  "wandb.dir": row("str", "wandb.init"),
  "wandb.mode": row("str", "wandb.init", ["online", "offline", "disabled", "shared"]),
  "wandb.job_type": row("str", "wandb.init"),
};

/** Fields of BackendConfig that tune kernels of other models: accepted, their values left to Automodel. */
const OTHER_BACKEND_FIELDS = [
  ...["experts", "te_grouped_tensor", "dispatcher", "dispatcher_num_sms", "dispatcher_share_token_dispatcher"],
  ...["dispatcher_async_dispatch", "mok", "dispatcher_hybridep_permute_fusion", "dispatcher_hybridep_compact_routing"],
  ...["dispatcher_hybridep_num_sms_preprocessing", "dispatcher_hybridep_num_blocks_permute"],
  ...["dispatcher_hybridep_num_blocks_unpermute", "fake_balanced_gate", "fake_gate_noise"],
  ...["enable_hf_state_dict_adapter", "enable_fsdp_optimizations", "te_fp8", "gate_precision", "compile_attn"],
  ...["compile_situ", "compile_norm", "shared_expert_overlap", "compile_router_weight", "benchmark_static_routing"],
  "cuda_graph",
];

/** Attention back ends of 0.7.0; nemo-keys.json lists the four a dense model meets. */
const ATTENTION = ["te", "sdpa", "flex", "tilelang", "torch", "eager", "cudnn", "fa4", "magi"];

/** Values whose list in nemo-keys.json is short for dotted paths, or holds a pattern. */
const VALUES: Record<string, readonly (string | boolean | null)[] | null> = {
  "loss_fn._target_": ["masked_ce.MaskedCrossEntropy", "linear_ce.FusedLinearCrossEntropy"]
    .concat(["chunked_ce.ChunkedCrossEntropy", "te_parallel_ce.TEParallelCrossEntropy"])
    .map((name) => `nemo_automodel.components.loss.${name}`),
  "model._target_": ["CausalLM", "ImageTextToText"].flatMap((kind) =>
    ["from_pretrained", "from_config"].map((how) => `nemo_automodel.NeMoAutoModelFor${kind}.${how}`),
  ),
  "model.attn_implementation": ["sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4"].concat(
    ...["te", "eager", "magi", "ffpa"],
  ),
  "model.backend.attn": ATTENTION,
  "model.backend.linear": ["torch", "te", "quack"],
  "model.backend.rms_norm": ["torch", "torch_fp32", "te", "quack"],
  // Also written with the module's name, as in NVIDIA's 128k recipe.
  "model.torch_dtype": ["bfloat16", "float32", "float16"].flatMap((name) => [name, `torch.${name}`]).concat("auto"),
  // Spelt in any case, with dashes: parse_distributed_section.
  "distributed.activation_checkpointing": [true, false, "full", "selective"],
  // Any recipe class or dotted path loads; these two are the ones a chat dataset and this checker fit.
  recipe: null,
  "checkpoint.restore_from": null,
};

/** Least values, where the wheel raises below them (StepScheduler, CheckpointingConfig, ParallelismSizes) or fails later. */
const LEAST: Record<string, number> = {
  "checkpoint.consolidation_timeout_minutes": 1,
  "dataloader.collate_fn.pad_seq_len_divisible": 1,
  "dataloader.num_workers": 0,
  "dataset.seq_length": 1,
  "dist_env.timeout_minutes": 1,
  ...Object.fromEntries(["cp", "ep", "pp", "tp"].map((axis) => [`distributed.${axis}_size`, 1])),
  "distributed.pipeline.pp_microbatch_size": 1,
  "lr_scheduler.lr_warmup_steps": 0,
  "optimizer.lr": 0,
  "optimizer.weight_decay": 0,
  "packed_sequence.packed_sequence_size": 0,
  "peft.dim": 1,
  "step_scheduler.ckpt_every_steps": 1,
  "step_scheduler.gc_every_steps": 1,
  "step_scheduler.global_batch_size": 1,
  "step_scheduler.local_batch_size": 1,
  "step_scheduler.log_remote_every_steps": 1,
  "step_scheduler.loss_average_window_steps": 1,
  "step_scheduler.max_steps": 1,
  "step_scheduler.num_epochs": 1,
  "step_scheduler.start_epoch": 0,
  "step_scheduler.start_step": 0,
  "step_scheduler.val_every_steps": 1,
};

const TYPES: Record<string, string> = {
  bool: "boolean",
  int: "integer",
  float: "number",
  number: "number",
  str: "string",
  Path: "string",
  null: "null",
  None: "null",
  Callable: "string",
  SaveConsolidatedMode: "string",
  "torch.dtype": "string",
  "dotted path": "string",
  dict: "object",
  "{_target_: str}": "object",
  MixedPrecisionPolicy: "object",
  CPUOffloadPolicy: "object",
  MultimodalDistributedConfig: "object",
};

/** "int | str | list[int | str] | None" → { type: ["integer", "string", "array", "null"], items: … } */
function schemaOfType(text: string): Schema {
  if (text === "any") return {};
  if (text.startsWith("Literal")) return schemaOfType(text.replace(/Literal\[[^\]]*\]/, "str"));
  if (text === "ActivationCheckpointingScope") return { type: ["string", "array"], items: { type: "string" } };
  const types: string[] = [];
  let items: Schema | undefined;
  // Unions inside brackets belong to the items.
  for (const part of text.split(/\s*\|\s*(?![^[]*\])/)) {
    const list = /^(?:list|List|Sequence)(?:\[(.*)\])?$/.exec(part);
    if (list) {
      types.push("array");
      const inner = list[1] ?? "str";
      items = inner === "ModuleSelector" ? { type: "object" } : schemaOfType(inner);
      continue;
    }
    const type = TYPES[part];
    if (type === undefined) throw new TypeError(`no JSON type is known for ${JSON.stringify(part)} in "${text}"`);
    if (!types.includes(type)) types.push(type);
  }
  return { type: types.length === 1 ? types[0] : types, ...(items ? { items } : {}) };
}

/** A value's schema; the enumeration only where the list of allowed values is closed. */
function schemaOfKey(key: string, { type, allowed, source }: Row): Schema {
  const base: Schema = { ...schemaOfType(type), ...(key in LEAST ? { minimum: LEAST[key] } : {}) };
  const listed = key in VALUES ? VALUES[key] : allowed;
  const closed = listed?.every((value) => typeof value !== "string" || /^[\w.-]+$/.test(value));
  const nullable = base.type === "null" || (Array.isArray(base.type) && base.type.includes("null"));
  if (listed && closed) return { ...base, enum: nullable ? [...listed, null] : listed, $comment: source };
  if (type === "dotted path") return { ...base, pattern: "^[\\w/-]+([.:][\\w/-]+)+$", $comment: source };
  return { ...base, $comment: source };
}

const section = (title: string): Schema => ({
  ...{ type: "object", properties: {}, required: [] },
  additionalProperties: PASS_THROUGH.has(title),
});

function build(facts: Record<string, Row>): Schema {
  const root = section("(recipe)");
  const rows = Object.entries({ ...facts, ...ADDED }).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  for (const [key, value] of rows) {
    const path = key.split(".");
    const name = path.pop() ?? "";
    if (name === "<other>") continue;
    let parent = root;
    path.forEach((part, depth) => {
      const properties: Record<string, Schema> = parent.properties ?? {};
      properties[part] ??= section(depth === 0 ? part : path.slice(0, depth + 1).join("."));
      parent = properties[part];
    });
    if (parent.properties === undefined) throw new TypeError(`${key}: its parent is no section`);
    parent.properties[name] = schemaOfKey(key, value);
    if (value.required) (parent.required as string[]).push(name);
  }
  const properties = root.properties ?? {};
  for (const [name, source] of Object.entries(OPEN_SECTIONS)) properties[name] = { type: "object", $comment: source };
  const backend = properties.model?.properties?.backend?.properties ?? {};
  for (const name of OTHER_BACKEND_FIELDS) backend[name] = { $comment: "components/models/common/utils.py" };

  // What ChatDataset takes says nothing of other datasets, nor AdamW's fields of other optimisers. Ours takes the same.
  closedFor(properties, "dataset", "_target_", CHAT_DATASET);
  const chatDataset = "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset";
  closedFor(properties, "validation_dataset", "_target_", chatDataset);
  closedFor(properties, "optimizer", "_target_", "torch.optim.AdamW");
  // Another collater has arguments of its own.
  for (const name of ["dataloader", "validation_dataloader"])
    closedFor(
      ...([properties[name]?.properties ?? {}, "collate_fn", "_target_"] as const),
      "nemo_automodel.components.datasets.utils.default_collater",
    );
  (root.required as string[]).push("dataset", "loss_fn", "model", "optimizer");
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $comment: "Made by tools/automodel-schema.ts from nemo-keys.json (automodel_recipe); do not edit.",
    title: "A recipe of nemo-automodel 0.7.0",
    ...root,
    // More validation sets: validation_dataset_NAME (recipes/_typed_config.py).
    patternProperties: { "^validation_dataset_\\w+$": properties.validation_dataset },
  };
}

/** Makes a section's list of keys closed for one `_target_` and open for any other. */
function closedFor(properties: Record<string, Schema>, name: string, key: string, value: string): void {
  const open = properties[name];
  if (open?.properties === undefined) throw new TypeError(`${name} is no section`);
  const names = Object.keys(open.properties);
  properties[name] = {
    ...open,
    additionalProperties: true,
    // Without a _target_ the section's own rules speak.
    if: { properties: { [key]: { const: value } }, required: [key] },
    // biome-ignore lint/suspicious/noThenProperty: `then` is JSON Schema's own keyword.
    then: { properties: Object.fromEntries(names.map((known) => [known, true])), additionalProperties: false },
  };
}

const [, , path] = process.argv;
if (path === undefined) throw new TypeError("usage: npx tsx tools/automodel-schema.ts PATH_TO/nemo-keys.json");
const facts = Facts.parse(JSON.parse(readFileSync(path, "utf8")));
writeFileSync(OUTPUT, `${JSON.stringify(build(facts.automodel_recipe), null, 2)}\n`);
