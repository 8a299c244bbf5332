/**
 * Rendered SFT configurations against the real loader of nemo-automodel 0.7.0, from its wheel, without torch
 * (tools/automodel). What it lets pass, our checker has to refuse.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { automodelFindings } from "../modules/trainers/automodel/check.ts";
import { type StageChanges, stageInput } from "../modules/trainers/automodel/fixture.ts";
import { renderAutomodel } from "../modules/trainers/automodel/index.ts";
import { type Config, deepMerge, valueAt } from "../modules/trainers/config-path.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
const TOOLS = join(PROJECT_DIR, "tools/automodel");
const RUN_DIR = "/fsx/runs/run-1";

/** What load_config.py prints of one file. */
interface Outcome {
  readonly file: string;
  readonly ok: boolean;
  readonly error: string | null;
  readonly built: Config | null;
}

let python = "";
let folder = "";

beforeAll(async () => {
  python = (await execa(join(PROJECT_DIR, "tools/python-env.sh"), [TOOLS])).stdout.trim();
  folder = await mkdtemp(join(tmpdir(), "uplift-automodel-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Lays configurations down as YAML and has the real loader read them all. */
async function load(configs: Readonly<Record<string, Config>>): Promise<{ outcomes: Outcome[]; exitCode: number }> {
  const files: string[] = [];
  for (const [name, config] of Object.entries(configs)) {
    const file = join(folder, `${name}.automodel.yaml`);
    await writeFile(file, stringify(config));
    files.push(file);
  }
  const { stdout, stderr, exitCode } = await execa(python, [join(TOOLS, "load_config.py"), ...files], {
    env: { RUN_DIR, RUN_ID: "20261129", PYTHONDONTWRITEBYTECODE: "1" },
    reject: false,
  });
  const outcomes = stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Outcome);
  expect(
    outcomes.map(({ file }) => file),
    stderr,
  ).toEqual(files);
  return { outcomes, exitCode: exitCode ?? -1 };
}

const fullFineTuning = { steps: 20, batchSize: 8, learningRate: 5e-7, saveEverySteps: 10, lora: undefined };
const rope = { type: "yarn", factor: 4, originalMaxTokens: 40_960, betaFast: 32, betaSlow: 1 } as const;
const stages: Readonly<Record<string, StageChanges>> = {
  "lora-cp8": {},
  "lora-cp8-wandb": { wandb: true },
  "lora-cp1": { contextParallel: 1 },
  "lora-tp4-cp2": { tensorParallel: 4, contextParallel: 2 },
  "lora-constant": { sft: { schedule: "constant", warmupSteps: 0 } },
  "full-cp8-2-nodes": { sft: fullFineTuning, nodes: 2 },
  "full-tp4-constant": { sft: { ...fullFineTuning, schedule: "constant" }, tensorParallel: 4, contextParallel: 2 },
  "full-pp2": { sft: fullFineTuning, pipelineParallel: 2, contextParallel: 4 },
  "text-model-yarn": { model: "Qwen/Qwen3-32B", recipe: { rope } },
};

const rendered = (changes: StageChanges): Config => renderAutomodel(stageInput(changes));
const issuesOf = (config: Config): string[] =>
  automodelFindings(config, { world: 8, model: stageInput().model }).map(({ code }) => code);

describe("the real loader of Automodel 0.7.0", () => {
  it("accepts every rendered configuration and reads from it what was meant", async () => {
    const configs = Object.fromEntries(Object.entries(stages).map(([name, changes]) => [name, rendered(changes)]));
    const { outcomes, exitCode } = await load(configs);
    expect(outcomes.filter(({ ok }) => !ok)).toEqual([]);
    expect(exitCode).toBe(0);
    const built = (name: string): Config =>
      outcomes[Object.keys(configs).indexOf(name)]?.built ?? expect.fail(`${name} was not built`);

    for (const [name, changes] of Object.entries(stages)) {
      const config = configs[name] ?? {};
      const { layout, recipe } = stageInput(changes);
      expect(built(name)).toMatchObject({
        recipe: "nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction",
        step_scheduler: { max_steps: 20, num_epochs: null, ckpt_every_steps: 10, preemption_signal: "SIGUSR1" },
        lr_scheduler: {
          ...{ lr_decay_style: recipe.sft.schedule, lr_warmup_steps: recipe.sft.warmupSteps, min_lr: 0 },
          init_lr: recipe.sft.learningRate / (recipe.sft.warmupSteps + 1),
        },
        // A rate of 5e-7 is text to YAML 1.1; the loader makes a number of it.
        optimizer: { kwargs: { lr: recipe.sft.learningRate, betas: [0.9, 0.95] } },
        checkpoint: {
          checkpoint_dir: `${RUN_DIR}/trainer/sft`,
          is_peft: recipe.sft.lora !== undefined,
          save_consolidated: recipe.sft.lora ? "false" : "every",
          max_recent_checkpoints: null,
        },
        distributed: {
          parallelism_sizes: {
            tp_size: layout.kind === "sft" ? layout.train.tensorParallel : -1,
            cp_size: layout.kind === "sft" ? layout.train.contextParallel : -1,
            pp_size: layout.kind === "sft" ? layout.train.pipelineParallel : -1,
            dp_size: valueAt(config, "distributed.dp_size"),
          },
          activation_checkpointing: true,
        },
        dataloader: {
          dataset_config: { path_or_dataset_id: `${RUN_DIR}/data/sft.jsonl`, seq_length: 131_072, mask_history: false },
          packing: null,
        },
        peft: recipe.sft.lora ? { dim: 32, alpha: 64, exclude_modules: [] } : null,
      });
    }
    expect(built("lora-cp8-wandb").wandb).toMatchObject({
      entity: "lab",
      extra: { id: "20261129-sft", resume: "allow" },
    });
    expect(built("lora-cp8").wandb).toBeNull();
    expect(valueAt(built("lora-cp8"), "dataloader.collate_fn")).toEqual({
      function: "default_collater",
      pad_seq_len_divisible: 16,
    });
    expect(valueAt(built("lora-cp1"), "dataloader.collate_fn")).toBe("default_collater");
    expect(valueAt(built("full-pp2"), "distributed.pipeline_config")).toMatchObject({ pp_microbatch_size: 1 });
  });

  it("trains at a rate above 0 from the first step on: step k of W of warm-up at k / (W + 1) of the peak", async () => {
    const program = [
      "import json, sys, types, stand_ins",
      "stand_ins.install()",
      "from nemo_automodel.components.optim.scheduler import OptimizerParamScheduler",
      "asked = json.loads(sys.argv[1])",
      'optimizer = types.SimpleNamespace(param_groups=[{"lr": asked["max_lr"], "weight_decay": 0}])',
      "weight_decay = dict(start_wd=0, end_wd=0, wd_incr_steps=0, wd_incr_style='constant')",
      "scheduler = OptimizerParamScheduler(optimizer, **asked, **weight_decay)",
      "rates = []",
      "for _ in range(asked['lr_decay_steps']):",
      "    rates.append(optimizer.param_groups[0]['lr'])",
      "    scheduler.step(1)",
      "print(json.dumps(rates))",
    ].join("\n");
    const ratesOf = async (sft: StageChanges["sft"]): Promise<number[]> => {
      const asked = JSON.stringify(rendered({ sft }).lr_scheduler);
      const { stdout } = await execa(python, ["-c", program, asked], {
        env: { NO_VCS_VERSION: "1", PYTHONDONTWRITEBYTECODE: "1", PYTHONPATH: TOOLS },
      });
      return JSON.parse(stdout) as number[];
    };
    const rates = await ratesOf({ schedule: "constant", warmupSteps: 3, learningRate: 4e-5 });
    expect(rates).toHaveLength(20);
    for (const [index, rate] of rates.entries()) expect(rate).toBeCloseTo(Math.min(index + 1, 4) * 1e-5, 12);
    const falling = await ratesOf({ schedule: "cosine", warmupSteps: 0, learningRate: 4e-5 });
    expect(falling[0]).toBe(4e-5);
    expect(Math.min(...falling)).toBeGreaterThan(0);
  });

  const refused: Readonly<Record<string, Config>> = {
    step_scheduler: { step_scheduler: { ckpt_every_step: 5 } },
    lr_scheduler: { lr_scheduler: { warmup_steps: 5 } },
    checkpoint: { checkpoint: { save_consolidate: "final" } },
    distributed: { distributed: { context_parallel_size: 8 } },
    dataloader: { dataloader: { workers: 2 } },
    dataset: { dataset: { sequence_length: 4096 } },
    freeze_config: { freeze_config: { freeze_vision: true } },
    prewarm: { prewarm: { cublas: true } },
    peft: { peft: { rank: 8 } },
    "a path of a class that is not there": {
      loss_fn: { _target_: "nemo_automodel.components.loss.masked_ce.MaskedCE" },
    },
  };

  it("fills the run's id into W&B's as text, whatever its digits", async () => {
    const identity = `${"$"}{RUN_ID}-sft`;
    const { outcomes } = await load({ identity: renderAutomodel({ ...stageInput({ wandb: true }), identity }) });
    expect(outcomes).toMatchObject([{ ok: true, built: { wandb: { extra: { id: "20261129-sft" } } } }]);
  });

  it("refuses unknown keys in typed sections, and so do we", async () => {
    const base = rendered({});
    const configs = Object.entries(refused).map(([, changes]) => deepMerge(base, changes));
    const { outcomes, exitCode } = await load(Object.fromEntries(configs.map((config, i) => [`refused-${i}`, config])));
    const names = Object.keys(refused);
    expect(names.filter((_, index) => outcomes[index]?.ok)).toEqual([]);
    expect(exitCode).toBe(1);
    expect(outcomes[0]?.error).toContain("ckpt_every_step");
    expect(names.filter((_, index) => issuesOf(configs[index] ?? {}).length === 0)).toEqual([]);
  });

  const letThrough: Readonly<Record<string, Config>> = {
    model: { model: { attn_implementatoin: "sdpa" } },
    "model.backend": { model: { backend: { atn: "te" } } },
    optimizer: { optimizer: { weight_deacy: 0.1 } },
    dist_env: { dist_env: { timeout_minute: 30 } },
    loss_fn: { loss_fn: { ignore: -100 } },
    collate_fn: { dataloader: { collate_fn: { pad: 16 } } },
    packed_sequence: { packed_sequence: { pack_size: 0 } },
    "the top": { clip_grad_nrom: { max_norm: 1 } },
    "a batch of -8": { step_scheduler: { global_batch_size: -8 } },
    "degrees that do not divide 8 GPUs": { distributed: { cp_size: 3 } },
    "a share of the steps as warm-up": { lr_scheduler: { lr_warmup_steps: 0.1 } },
  };

  it("lets slips pass elsewhere, which we refuse", async () => {
    const base = rendered({});
    const configs = Object.entries(letThrough).map(([, changes]) => deepMerge(base, changes));
    const { outcomes } = await load(Object.fromEntries(configs.map((config, i) => [`passed-${i}`, config])));
    const names = Object.keys(letThrough);
    // Where one of these is refused by a newer wheel, this list has to be looked through again.
    expect(names.filter((_, index) => !outcomes[index]?.ok)).toEqual([]);
    expect(names.filter((_, index) => issuesOf(configs[index] ?? {}).length === 0)).toEqual([]);
  });

  it("puts adapters on the language model's linear modules and nowhere else", async () => {
    // Names as Automodel's class for the model builds them (components/models/qwen3_5/model.py).
    const language = ["linear_attn.in_proj_qkv", "linear_attn.out_proj", "self_attn.q_proj", "mlp.down_proj"].map(
      (name, layer) => `model.language_model.layers.${layer}.${name}`,
    );
    const others = [
      "model.visual.blocks.0.attn.qkv",
      "model.visual.merger.linear_fc1",
      "lm_head",
      "mtp.layers.0.eh_proj",
    ];
    const matched = async (peft: unknown, modules: readonly string[]): Promise<unknown> => {
      const asked = JSON.stringify({ peft, modules });
      const { stdout } = await execa(python, [join(TOOLS, "match_modules.py"), asked], {
        env: { PYTHONDONTWRITEBYTECODE: "1" },
      });
      return JSON.parse(stdout);
    };
    expect(await matched(rendered({}).peft, [...others, ...language])).toEqual(language);
    // A model whose layout is not known: by exclusion.
    const input = stageInput();
    const unknown = renderAutomodel({ ...input, model: { ...input.model, architecture: "SomeVisionModel" } });
    expect(await matched(unknown.peft, [...others.slice(0, 3), ...language])).toEqual(language);
  });
});
