/**
 * The rules that Automodel 0.7.0 enforces between keys, most of them only once GPUs are held: a configuration, the
 * number of GPUs and the model → what breaks them. `am-unknown-keys` is the schema's (schema-check.ts). Pure.
 *
 * Ids and sources are those of nemo-keys.json; paths are files of the nemo-automodel 0.7.0 wheel.
 */
import type { Model } from "../../../schemas/model.ts";
import { type Config, isMapping, numberAt, valueAt } from "../config-path.ts";
import { architectureOf } from "./architecture.ts";
import { RUN_DIR } from "./render.ts";
import type { Finding } from "./schema-check.ts";

/** What a rule looks at. */
export interface Facts {
  readonly config: Config;
  /** GPUs of the stage. */
  readonly world: number;
  readonly model: Model;
}

/** One rule of Automodel's. */
export interface Constraint {
  readonly id: string;
  readonly source: string;
  readonly check: (facts: Facts) => Omit<Finding, "code">[];
}

const broken = (key: string, asked: string, found: string, allowed: string, todo: string): Omit<Finding, "code">[] => [
  { key, asked, found, allowed, todo },
];

const size = (config: Config, axis: "tp" | "cp" | "pp" | "ep"): number =>
  Math.max(1, numberAt(config, `distributed.${axis}_size`, 1));

/** GPUs that work on one sequence together. */
function modelParallel(config: Config): number {
  return size(config, "tp") * size(config, "cp") * size(config, "pp");
}

/** Data-parallel groups: as set, else what is left. */
function dataParallel({ config, world }: Facts): number {
  const set = valueAt(config, "distributed.dp_size");
  return typeof set === "number" && set > 0 ? set : world / modelParallel(config);
}

function attention(config: Config): string {
  return String(valueAt(config, "model.backend.attn") ?? valueAt(config, "model.attn_implementation") ?? "sdpa");
}

/** Every rule but `am-unknown-keys`. */
export const CONSTRAINTS: readonly Constraint[] = [
  {
    id: "am-world",
    source: "nemo_automodel/components/distributed/mesh_utils.py:118",
    check: ({ config, world }) => {
      const group = modelParallel(config);
      const degrees = `tp_size × cp_size × pp_size = ${size(config, "tp")} × ${size(config, "cp")} × ${size(config, "pp")} = ${group}`;
      if (world % group !== 0)
        return broken(
          ...(["distributed.tp_size", degrees, `it does not divide the stage's ${world} GPUs`] as const),
          ...([`products that divide ${world}`, "change a degree or the number of nodes"] as const),
        );
      const set = valueAt(config, "distributed.dp_size");
      if (typeof set !== "number" || set <= 0 || set === world / group) return [];
      return broken(
        ...(["distributed.dp_size", `${set} data-parallel groups`] as const),
        `${world} GPUs in groups of ${group} (${degrees}) make ${world / group}`,
        ...([`${world / group}, or null`, "leave it out"] as const),
      );
    },
  },
  {
    id: "am-hsdp",
    source: "nemo_automodel/components/distributed/mesh_utils.py:76,309-314",
    check: (facts) => {
      const key = "distributed.dp_replicate_size";
      const copies = numberAt(facts.config, key, 1);
      if (copies <= 1) return [];
      const asked = `weights are held ${copies} times (dp_replicate_size)`;
      const strategy = valueAt(facts.config, "distributed.strategy") ?? "fsdp2";
      if (strategy !== "fsdp2")
        return broken(
          ...([key, asked, `the strategy is ${strategy}, which cannot replicate shards`] as const),
          ...(["strategy fsdp2", "remove dp_replicate_size or the strategy"] as const),
        );
      const groups = dataParallel(facts);
      if (groups % copies === 0 && copies < groups) return [];
      return broken(
        ...([key, asked, `there are ${groups} data-parallel groups`] as const),
        `divisors of ${groups} below ${groups}`,
        "lower dp_replicate_size, or leave it out",
      );
    },
  },
  {
    id: "am-pp-block",
    source: "nemo_automodel/recipes/_dist_utils.py; nemo_automodel/recipes/llm/train_ft.py:676",
    check: ({ config }) => {
      const stages = size(config, "pp");
      if (stages === 1) return [];
      if (!isMapping(valueAt(config, "distributed.pipeline")))
        return broken(
          ...(["distributed.pipeline", `a pipeline of ${stages} stages (pp_size)`] as const),
          "there is no distributed.pipeline block that says how micro batches run through it",
          "a block, {} for Automodel's defaults",
          "add distributed.pipeline, or set pp_size to 1",
        );
      const local = numberAt(config, "step_scheduler.local_batch_size", 1);
      const micro = numberAt(config, "distributed.pipeline.pp_microbatch_size", 1);
      if (Math.floor(local / micro) >= stages) return [];
      return broken(
        ...(["step_scheduler.local_batch_size", `a pipeline of ${stages} stages (pp_size)`] as const),
        `local_batch_size ${local} is ${Math.floor(local / micro)} micro batches of ${micro}`,
        `local_batch_size from ${stages * micro}`,
        "raise local_batch_size or lower pp_size",
      );
    },
  },
  {
    id: "am-cp-pack",
    source: "nemo_automodel/recipes/llm/train_ft.py:818-833; nemo_automodel/_transformers/capabilities.py:387",
    check: ({ config }) => {
      const packed = numberAt(config, "packed_sequence.packed_sequence_size", 0);
      const shared = size(config, "cp");
      if (packed <= 0 || shared === 1 || ["te", "magi"].includes(attention(config))) return [];
      return broken(
        ...(["packed_sequence.packed_sequence_size", `sequences packed to ${packed} tokens`] as const),
        `each is shared by ${shared} GPUs (cp_size) and the attention is ${attention(config)}`,
        'packing with cp_size 1, or attention "te" or "magi"',
        "set packed_sequence_size to 0",
      );
    },
  },
  {
    id: "am-cp-model",
    source: "nemo_automodel/components/models/qwen3_5/model.py:794,1049; _transformers/capabilities.py:245",
    check: ({ config, model }) => {
      const shared = size(config, "cp");
      if (shared === 1) return [];
      const asked = `${shared} GPUs share a sequence (cp_size)`;
      if (!architectureOf(model).contextParallel)
        return broken(
          ...(["distributed.cp_size", asked] as const),
          `Automodel's class for ${model.architecture} does not support it`,
          ...(["cp_size 1 for this architecture", "set contextParallel to 1, or use another model"] as const),
        );
      if (valueAt(config, "model.attn_implementation") !== "flash_attention_2") return [];
      return broken(
        ...(["model.attn_implementation", asked] as const),
        "flash_attention_2 does not see the other GPUs' part of the sequence",
        ...(['"sdpa", "te" or "magi" with cp_size above 1', 'set it to "sdpa"'] as const),
      );
    },
  },
  {
    id: "am-peft-format",
    source: "nemo_automodel/components/checkpoint/config.py",
    check: ({ config }) => {
      const key = "checkpoint.model_save_format";
      if (!valueAt(config, "peft") || valueAt(config, key) !== "torch_save") return [];
      return broken(
        ...([key, "checkpoints in torch_save format"] as const),
        "adapters are trained, for which Automodel silently takes safetensors and joins the last one only",
        ...(['"safetensors" with peft', 'set it to "safetensors"'] as const),
      );
    },
  },
  {
    id: "am-peft-triton-tp",
    source: "NeMo-RL docs/guides/lora.md; nemo_rl/models/automodel/setup.py:666",
    check: ({ config }) => {
      const key = "peft.use_triton";
      if (valueAt(config, key) !== true || size(config, "tp") === 1) return [];
      return broken(
        ...([key, "LoRA by Triton kernels"] as const),
        `weights are split over ${size(config, "tp")} GPUs (tp_size), which these kernels do not know`,
        ...(["use_triton with tp_size 1 only", "set it to false"] as const),
      );
    },
  },
  {
    id: "am-retention",
    source: "nemo_automodel/components/checkpoint/config.py",
    check: ({ config }) => {
      const key = "checkpoint.max_recent_checkpoints";
      const kept = valueAt(config, key);
      if (kept === undefined || kept === null) return [];
      if (typeof kept !== "number" || !Number.isInteger(kept) || kept < 1)
        return broken(
          ...([key, `the newest ${JSON.stringify(kept)} checkpoints are to be kept`] as const),
          ...(["that is no count", "a whole number from 1, or null for all", "set it to null"] as const),
        );
      const folder = String(valueAt(config, "checkpoint.checkpoint_dir") ?? "");
      if (!/^\w+:\/\//.test(folder)) return [];
      return broken(
        ...([key, `the newest ${kept} checkpoints are to be kept`] as const),
        `they lie at ${folder}, where Automodel deletes nothing`,
        ...(["a path on a file system", "set it to null, or use a path"] as const),
      );
    },
  },
  {
    id: "am-warmup",
    source: "nemo_automodel/components/optim/optimizer.py:603",
    check: ({ config }) => {
      const key = "lr_scheduler.lr_warmup_steps";
      const steps = valueAt(config, key);
      if (typeof steps !== "number" || steps <= 0 || steps >= 1) return [];
      return broken(
        ...([key, `a warm-up of ${steps} of all steps`] as const),
        "Automodel counts steps, not shares of them",
        "whole numbers from 0",
        `set it to ${Math.round(steps * numberAt(config, "step_scheduler.max_steps", 0))}`,
      );
    },
  },
  {
    // At run time a checkpoint of another model that is found by itself is skipped with a warning, and training starts
    // over; one that is named is loaded all the same. A configuration can rule both out: by looking only where nothing
    // but this run writes.
    id: "am-restore",
    source: "nemo_automodel/recipes/base_recipe.py:466-545",
    check: ({ config }) => {
      const folder = String(valueAt(config, "checkpoint.checkpoint_dir") ?? "checkpoints/");
      const own = (path: string): boolean => path.startsWith(`${RUN_DIR}/`) && !path.split("/").includes("..");
      if (!own(folder))
        return broken(
          "checkpoint.checkpoint_dir",
          `checkpoints are looked for in ${folder}`,
          "a checkpoint of another run may lie there: one that fits is gone on from, one that does not is skipped with only a warning",
          `a folder below ${RUN_DIR}`,
          "leave checkpoint_dir out of the overrides",
        );
      const from = valueAt(config, "checkpoint.restore_from");
      if (typeof from !== "string" || from === "LATEST" || /^epoch_\d+_step_\d+$/.test(from)) return [];
      if (own(from) && from.startsWith(`${folder.replace(/\/$/, "")}/`)) return [];
      return broken(
        ...(["checkpoint.restore_from", `training goes on from ${from}`] as const),
        "Automodel loads what is named here even where model and configuration differ, and raises where it is not complete",
        `null, "LATEST", or a folder of ${folder}`,
        "leave it out: a restarted job goes on from its own newest checkpoint; to start from another model, set the recipe's model",
      );
    },
  },
];
