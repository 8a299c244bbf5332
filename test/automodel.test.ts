/**
 * Rendered SFT configurations against the real loader of nemo-automodel 0.7.0, from its wheel, without torch
 * (tools/automodel). What it lets pass, our checker has to refuse. And with torch and transformers of the trainers' own Python:
 * what the wheel's code makes of rows of tool calls.
 */
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { automodelFindings } from "../modules/trainers/automodel/check.ts";
import { type StageChanges, stageInput } from "../modules/trainers/automodel/fixture.ts";
import { renderAutomodel } from "../modules/trainers/automodel/index.ts";
import { type Config, deepMerge, valueAt } from "../modules/trainers/config-path.ts";
import type { Message, Tool } from "../schemas/message.ts";
import { trainersPython } from "./support/python.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
const TOOLS = join(PROJECT_DIR, "tools/automodel");
/** What lies in the run's folder slurm/, which the job has on its PYTHONPATH. */
const RUN_FILES = join(PROJECT_DIR, "modules/trainers/launch/files");
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
    env: { RUN_DIR, RUN_ID: "20261129", PYTHONPATH: RUN_FILES, PYTHONDONTWRITEBYTECODE: "1" },
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

/** What build_dataset.py prints of one file. */
interface Built {
  readonly said: string;
  readonly error: string | null;
  readonly samples: readonly { text: string; tokens: number; trained: string[] }[] | null;
}

interface Row {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
}

interface Case {
  readonly rows: readonly Row[];
  /** The part of the chat template that writes a call's arguments. */
  readonly template: string;
  readonly changes?: Config;
}

const EACH_ARGUMENT =
  "{%- for name, value in tool_call.arguments|items %}<{{ name }}>{{ value }}</{{ name }}>{%- endfor %}";
/** As Qwen3.5 writes arguments, as Qwen3.6 does, and not at all. */
const ITEMS = EACH_ARGUMENT;
const GUARDED = `{%- if tool_call.arguments is mapping %}${EACH_ARGUMENT}{%- endif %}`;
const DROPPED = "";

function templateWith(writesArguments: string): string {
  return [
    ...["{%- for tool in tools or [] %}{{ tool.function.name }};{%- endfor %}", "{%- for message in messages %}"],
    "<|im_start|>{{ message.role }}{{ '\\n' + message.content }}",
    "{%- for tool_call in message.tool_calls or [] %}{%- set tool_call = tool_call.function %}",
    `<tool_call>{{ tool_call.name }}${writesArguments}</tool_call>`,
    ...[
      "{%- endfor %}<|im_end|>{%- endfor %}",
      "{%- if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}{%- endif %}",
    ],
  ].join("");
}

const CHAT_DATASET = "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset";
const parameters = { type: "object" as const, properties: {}, required: [] };
const tools: Tool[] = [{ type: "function", function: { name: "edit", description: "Edits.", parameters } }];
const called = (text: string): Row => ({
  tools,
  messages: [
    { role: "user", content: "Mend it." },
    {
      ...{ role: "assistant", content: "So:" },
      tool_calls: [{ id: "call_0", type: "function", function: { name: "edit", arguments: text } }],
    },
    { role: "tool", tool_call_id: "call_0", name: "edit", content: "edited" },
    { role: "assistant", content: "Done." },
  ],
});
const row = called(JSON.stringify({ path: "a.ts", text: 'say("é <b>\\n")\n', lines: 3 }));
const long: Row = {
  tools,
  messages: [
    { role: "user", content: "Mend it. ".repeat(200) },
    { role: "assistant", content: "No." },
  ],
};
const WRITTEN =
  'So:<tool_call>edit<path>a.ts</path><text>say("é <b>\\n")\n</text><lines>3</lines></tool_call><|im_end|>';
const TEXT = `edit;<|im_start|>user\nMend it.<|im_end|><|im_start|>assistant\n${WRITTEN}<|im_start|>tool\nedited<|im_end|><|im_start|>assistant\nDone.`;

/** Of that text and its last token, by the committed tokenizer. */
const TOKENS = 88;

describe("the dataset of a cluster's SFT", () => {
  let packages = "";

  /** Lays a model with a real tokenizer, rows and a configuration down for each case; has Automodel's code read them all. */
  async function build(cases: Readonly<Record<string, Case>>, rank = "0"): Promise<Record<string, Built>> {
    const files: string[] = [];
    for (const [name, { rows, template, changes }] of Object.entries(cases)) {
      const model = join(folder, `${name}-model`);
      await mkdir(model, { recursive: true });
      for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json"])
        await copyFile(join(PROJECT_DIR, "tools/base-model/quickstart-base", file), join(model, file));
      await writeFile(join(model, "chat_template.jinja"), templateWith(template));
      await writeFile(join(folder, `${name}.jsonl`), rows.map((one) => `${JSON.stringify(one)}\n`).join(""));
      const own: Config = {
        model: { pretrained_model_name_or_path: model },
        dataset: { path_or_dataset_id: `${"$"}{RUN_DIR}/${name}.jsonl`, seq_length: 300 },
        dataloader: { num_workers: 0 },
      };
      const file = join(folder, `${name}.yaml`);
      await writeFile(file, stringify(deepMerge(deepMerge(rendered({}), own), changes ?? {})));
      files.push(file);
    }
    const { stdout } = await execa(await trainersPython(), [join(TOOLS, "build_dataset.py"), packages, ...files], {
      env: { RUN_DIR: folder, PYTHONPATH: RUN_FILES, PYTHONDONTWRITEBYTECODE: "1", RANK: rank, HF_HUB_OFFLINE: "1" },
    });
    const lines = stdout.split("\n").map((line) => JSON.parse(line) as Built);
    return Object.fromEntries(Object.keys(cases).map((name, index) => [name, lines[index] as Built]));
  }

  beforeAll(async () => {
    const program = "import sysconfig; print(sysconfig.get_path('purelib'))";
    packages = (await execa(python, ["-c", program])).stdout.trim();
  });

  it("keeps the arguments of tool calls, which Automodel's own loses with the same template", async () => {
    const built = await build({
      items: { rows: [row, long, row], template: ITEMS, changes: { dataloader: { num_workers: 1 } } },
      guarded: { rows: [row], template: GUARDED },
      "items-automodel": { rows: [row], template: ITEMS, changes: { dataset: { _target_: CHAT_DATASET } } },
      "guarded-automodel": { rows: [row], template: GUARDED, changes: { dataset: { _target_: CHAT_DATASET } } },
    });
    const sample = { text: TEXT, tokens: TOKENS, trained: [WRITTEN, "Done.<|im_end|>"] };
    // Left out is what does not fit; the rest comes out of a process of its own, as on a node.
    expect(built.items).toMatchObject({ error: null, samples: [sample, sample] });
    expect(built.items?.said).toBe("uplift: 1 of 3 trajectories is longer than 300 tokens and left out\n");
    expect(built.guarded).toMatchObject({ error: null, said: "", samples: [sample] });
    // Where these change, chat_data.py may no longer be needed.
    expect(built["items-automodel"]?.error).toBe("TypeError: Can only get item pairs from a mapping.");
    expect(built["guarded-automodel"]?.samples?.[0]?.trained[0]).toBe("So:<tool_call>edit</tool_call><|im_end|>");
  });

  it("refuses, before the first step, what it could only train on in part", async () => {
    const built = await build(
      {
        "template-drops": { rows: [called("{}"), row], template: DROPPED },
        "text-that-is-no-json": { rows: [row, called('{"path": "a.ts'), called("[1]")], template: ITEMS },
        "all-too-long": { rows: [row, long], template: ITEMS, changes: { dataset: { seq_length: TOKENS - 1 } } },
        "just-fits": { rows: [row, long, long], template: ITEMS, changes: { dataset: { seq_length: TOKENS } } },
        "unknown-key": { rows: [row], template: ITEMS, changes: { dataset: { sequence_length: 300 } } },
      },
      "1",
    );
    expect(built["template-drops"]?.error).toMatch(
      /^ValueError: uplift: the chat template of \S+ leaves out arguments of tool calls \(lines, path, text\): the model would learn calls without them$/,
    );
    expect(built["text-that-is-no-json"]?.error).toBe(
      `ValueError: uplift: tool calls whose arguments are no JSON object: 2; the first: trajectory 2, edit with '{"path": "a.ts'`,
    );
    expect(built["all-too-long"]?.error).toBe(
      `ValueError: uplift: 2 of 2 trajectories are longer than ${TOKENS - 1} tokens: nothing is left to train on`,
    );
    // Only the first of a job's processes says it.
    expect(built["just-fits"]).toMatchObject({ error: null, said: "", samples: [{ tokens: TOKENS }] });
    expect(built["unknown-key"]?.error).toContain("sequence_length");
  });
});
