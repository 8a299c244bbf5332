import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Plan } from "../../../schemas/plan.ts";
import { Recipe } from "../../../schemas/recipe.ts";
import { planOf, recipe, targetOf } from "./fixture.ts";
import { renderFiles, START_CHECK_FAILED } from "./index.ts";
import { environment, layOut, write } from "./stub-cluster.ts";
import { TINY, type TinyTensors, trained, writeModel } from "./tiny-model.ts";

/**
 * Stands for the converters: refuses a folder that exists, as they do, notes what it was asked, and writes the model
 * that lies in $CONVERTED.
 */
const CONVERTER = `#!/usr/bin/env bash
printf "%s\\n" "$*" >>"$NOTES/converter"
while [[ $# -gt 0 ]]; do case "$1" in --output-dir | --hf-ckpt-path) out="$2" ;; esac; shift; done
[[ ! -e "$out" ]] || exit 9
mkdir "$out"
cp "$CONVERTED"/* "$out"
exit "\${CONVERTER_STATUS:-0}"
`;
const MEGATRON = "nemo_rl.models.policy.workers.megatron_policy_worker.MegatronPolicyWorker/bin/python";

let folder: string;
let runDir: string;

/** A trainer's output of the plan's own configuration, whose start model and result are the tiny one. */
function prepare(changes: (plan: Plan) => Plan = (plan) => plan, result: TinyTensors = trained()): void {
  layOut(folder, changes);
  writeModel(join(folder, "model"));
  writeModel(join(runDir, "checkpoints/sft-40"));
  writeModel(join(folder, "converted"), result, false);
  for (const name of ["bin/python", "bin/uv", `venvs/${MEGATRON}`]) write(join(folder, name), CONVERTER, true);
  for (const stage of ["sft", "rl"]) {
    const [, sha256 = ""] = /\nconfig_sha256=(\w+)\n/.exec(script(`${stage}-40`)) ?? [];
    write(join(runDir, `trainer/${stage}/config.sha256`), `${sha256}\n`);
  }
  write(join(runDir, "trainer/sft/epoch_1_step_39/model/adapter_model.safetensors"), "adapters");
  write(join(runDir, "trainer/sft/epoch_1_step_40/model/adapter_model.safetensors"), "later ones");
  writeModel(join(runDir, "trainer/sft/epoch_1_step_39/model/consolidated"), trained());
  write(join(runDir, "trainer/rl/step_40/config.yaml"), "policy: {}\n");
  write(join(runDir, "trainer/rl/step_40/policy/weights/iter_0000000/metadata.json"), "{}");
}
const script = (id: string) => readFileSync(join(runDir, `slurm/${id}.sbatch`), "utf8");
const converterCalls = () => {
  const path = join(folder, "notes/converter");
  return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
};
const manifestOf = (id: string) =>
  JSON.parse(readFileSync(join(runDir, `checkpoints/${id}/uplift-manifest.json`), "utf8"));
/** Where NeMo-RL would keep the converted start model of RL. */
const megatronBase = (mark = "") =>
  join(
    folder,
    `cache/megatron-v0.7.0/model_${`${runDir}/checkpoints/sft-40`.replaceAll("/", "_")}${mark}/iter_0000000`,
  );

function run(id: "sft-40" | "rl-40", changes: Record<string, string> = {}) {
  const env = environment(folder, "sft", {
    CONVERTED: join(folder, "converted"),
    SLURM_JOB_NUM_NODES: "1",
    ...changes,
  });
  const path = join(runDir, `slurm/${id}.sbatch`);
  const { status, stdout, stderr } = spawnSync("bash", [path], { env, encoding: "utf8", timeout: 30_000 });
  return { status, stdout, stderr };
}

/** The fixture's plan with all weights trained in both stages. */
const whole = (plan: Plan): Plan => {
  const { lora: _a, ...rl } = recipe.rl;
  const { lora: _b, ...sft } = recipe.kind === "sft-rl" ? recipe.sft : expect.fail("no SFT");
  return { ...plan, recipe: Recipe.parse({ ...recipe, sft, rl }) };
};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "uplift-export-"));
  runDir = join(folder, "runs/run-1");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the export of an SFT checkpoint", () => {
  // The start model of RL is SFT's own checkpoint: what `prepare` puts there is taken away for these.
  const prepareSft: typeof prepare = (changes, result) => {
    prepare(changes, result);
    rmSync(join(runDir, "checkpoints"), { recursive: true });
  };

  it("merges the adapters of the step that Automodel counts as one less, and gives the verified model its name", () => {
    prepareSft();
    const { status, stderr } = run("sft-40");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(converterCalls()).toEqual([
      `tools/merge_lora.py --base-model ${folder}/model --adapter-path ${runDir}/trainer/sft/epoch_1_step_39/model ` +
        `--output-dir ${runDir}/checkpoints/sft-40.partial --dtype bfloat16 --device cpu ` +
        "--model-class AutoModelForImageTextToText --no-save-tokenizer",
    ]);
    expect(manifestOf("sft-40")).toMatchObject({ checkpoint: "sft-40", tensors: 7, lacks: [] });
    expect(readdirSync(join(runDir, "checkpoints"))).toEqual(["sft-40"]);
    expect(existsSync(join(runDir, "checkpoints/sft-40/tokenizer.json"))).toBe(true);
    expect(readFileSync(join(runDir, "logs/sft-40/batch-17.log"), "utf8")).toContain("sft-40 is complete");
    const srun = readFileSync(join(folder, "notes/srun"), "utf8");
    expect(srun).toMatch(/^--nodes=1 --ntasks=1 --container-image=registry\.example#nvidia\/nemo-automodel:sha256:/);
    expect(srun).toContain(`--container-mounts=${folder}:${folder} --container-workdir=/opt/Automodel `);
  });

  it("copies whole weights, and leaves the trainer's alone", () => {
    prepareSft(whole);
    const source = join(runDir, "trainer/sft/epoch_1_step_39/model/consolidated");
    const before = readdirSync(source);
    expect(run("sft-40").status).toBe(0);
    expect(converterCalls()).toEqual([]);
    expect(manifestOf("sft-40").tensors).toBe(7);
    expect(readdirSync(source)).toEqual(before);
  });

  it("leaves a finished one alone, and starts a killed one over", () => {
    prepareSft();
    write(join(runDir, "checkpoints/sft-40.partial/half.safetensors"), "half");
    expect(run("sft-40").status).toBe(0);
    expect(existsSync(join(runDir, "checkpoints/sft-40/half.safetensors"))).toBe(false);
    const before = manifestOf("sft-40");
    const again = run("sft-40");
    expect(again.status).toBe(0);
    expect(again.stdout).toContain("is complete: nothing to do");
    expect(manifestOf("sft-40")).toEqual(before);
    expect(converterCalls().length).toBe(1);
  });

  it("is killed by nothing but its own failure: what a converter that fails left has no name", () => {
    prepareSft();
    const { status, stderr } = run("sft-40", { CONVERTER_STATUS: "3" });
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^uplift: uplift-github-sft-rl-sft-40-\w+: tools\/merge_lora\.py failed: see .*batch-17\.log$/m,
    );
    expect(existsSync(join(runDir, "checkpoints/sft-40"))).toBe(false);
    expect(run("sft-40").status).toBe(0);
  });

  it("refuses a model without the adapters, with the verifier's own sentence in Slurm's output", () => {
    prepareSft(undefined, TINY);
    const { status, stderr } = run("sft-40");
    expect(status).toBe(1);
    expect(stderr).toContain("uplift: sft-40: nothing was trained: 3 linear layers have the start model's bytes");
    expect(stderr).toContain("sft-40.partial is no checkpoint to go on from");
    expect(existsSync(join(runDir, "checkpoints/sft-40"))).toBe(false);
  });

  it("reads no start model of another revision than the plan pins; RL's start is a checkpoint, which has none", () => {
    const revision = "0123456789abcdef0123456789abcdef01234567";
    const pin = (plan: Plan) => ({ ...plan, baseModel: { ...plan.baseModel, revision } });
    prepareSft(pin);
    expect(run("sft-40").stderr).toContain(`may be another revision than the plan's, ${revision}: write`);
    write(join(folder, "model/uplift-revision"), "another\n");
    const { status, stderr } = run("sft-40");
    expect(status).toBe(START_CHECK_FAILED);
    expect(stderr).toContain(
      `${folder}/model is revision another by its file uplift-revision, the plan's is ${revision}`,
    );
    expect(converterCalls()).toEqual([]);
    write(join(folder, "model/uplift-revision"), `${revision}\n`);
    expect(run("sft-40").status).toBe(0);
    expect(script("rl-40")).toContain('\nrevision=""\n');
  });

  const trainer = () => join(runDir, "trainer/sft");
  const refusals: [string, () => void, RegExp][] = [
    ["no such step", () => rmSync(join(trainer(), "epoch_1_step_39"), { recursive: true }), /: 0 folders .*_step_39/],
    ["the step twice", () => mkdirSync(join(trainer(), "epoch_0_step_39")), /: 2 folders .*exactly one is needed/],
    ["an unfinished save", () => write(join(trainer(), "epoch_1_step_39/.incomplete"), ""), /not saved to its end/],
    [
      "no adapters",
      () => rmSync(join(trainer(), "epoch_1_step_39/model/adapter_model.safetensors")),
      /no adapters in .*epoch_1_step_39\/model/,
    ],
    [
      "another configuration's output",
      () => write(join(trainer(), "config.sha256"), "0\n"),
      /checkpoints of 0, the plan/,
    ],
    ["an unknown output", () => rmSync(join(trainer(), "config.sha256")), /of no known configuration, the plan's has/],
    ["a missing start model", () => rmSync(join(folder, "model/config.json")), /no model in .*\/model: config\.json/],
    [
      "a missing verifier",
      () => rmSync(join(runDir, "slurm/finish_checkpoint.py")),
      /finish_checkpoint\.py is missing/,
    ],
    [
      "a folder that is not its own",
      () => mkdirSync(join(runDir, "checkpoints/sft-40"), { recursive: true }),
      /move it away/,
    ],
  ];
  it.each(refusals)("refuses %s before anything is converted", (_what, change, message) => {
    prepareSft();
    change();
    const { status, stderr } = run("sft-40");
    expect(stderr).toMatch(message);
    expect(status).toBe(START_CHECK_FAILED);
    expect(converterCalls()).toEqual([]);
  });
});

describe("the export of an RL checkpoint", () => {
  it("merges adapters into the converted start model, with the Python that has Megatron", () => {
    prepare();
    mkdirSync(megatronBase(), { recursive: true });
    const { status, stderr } = run("rl-40", { NEMO_RL_VENV_DIR: join(folder, "venvs") });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const weights = `${runDir}/trainer/rl/step_40/policy/weights/iter_0000000`;
    expect(converterCalls()).toEqual([
      `examples/converters/convert_lora_to_hf.py --base-ckpt ${megatronBase()} --adapter-ckpt ${weights} ` +
        `--hf-model-name ${runDir}/checkpoints/sft-40 --hf-ckpt-path ${runDir}/checkpoints/rl-40.partial`,
    ]);
    expect(manifestOf("rl-40").tensors).toBe(7);
    expect(readFileSync(join(folder, "notes/srun"), "utf8")).toContain("--container-workdir=/opt/nemo-rl ");
  });

  it("asks uv for Megatron where the image was built without its environment", () => {
    prepare();
    mkdirSync(megatronBase(), { recursive: true });
    expect(run("rl-40", { NEMO_RL_VENV_DIR: join(folder, "none") }).status).toBe(0);
    expect(converterCalls()[0]).toMatch(/^run --extra mcore python examples\/converters\/convert_lora_to_hf\.py /);
  });

  it("exports whole weights by the configuration that lies beside them", () => {
    prepare(whole);
    expect(run("rl-40", { NEMO_RL_VENV_DIR: join(folder, "venvs") }).status).toBe(0);
    const saved = `${runDir}/trainer/rl/step_40`;
    expect(converterCalls()).toEqual([
      `examples/converters/convert_megatron_to_hf.py --config ${saved}/config.yaml --hf-model-name ${runDir}/checkpoints/sft-40 ` +
        `--megatron-ckpt-path ${saved}/policy/weights/iter_0000000 --hf-ckpt-path ${runDir}/checkpoints/rl-40.partial --no-strict`,
    ]);
  });

  it("finds the converted start model of a stretched context by NeMo-RL's hash of its overrides, as Python makes it", () => {
    const overrides = {
      rope_scaling: { rope_type: "yarn", rope_theta: 1_000_000, factor: 3.2, truncate: true, mscale: 1 },
    };
    prepare((plan) => ({
      ...plan,
      jobs: plan.jobs.map((job) =>
        job.kind === "train" && job.stage === "rl"
          ? { ...job, config: { ...job.config, policy: { hf_config_overrides: overrides } } }
          : job,
      ),
    }));
    const code =
      "import hashlib,json,sys; v=json.load(sys.stdin); " +
      "print(hashlib.sha256(json.dumps(v,sort_keys=True,separators=(',',':'),ensure_ascii=True).encode()).hexdigest()[:12])";
    const { stdout } = spawnSync("python3", ["-c", code], { input: JSON.stringify(overrides), encoding: "utf8" });
    const { status, stderr } = run("rl-40");
    expect(status).toBe(START_CHECK_FAILED);
    expect(stderr).toContain(
      `the start model as Megatron's is missing: training converted it to ${megatronBase(`__hfovr_${stdout.trim()}`)}`,
    );
    mkdirSync(megatronBase(`__hfovr_${stdout.trim()}`), { recursive: true });
    expect(run("rl-40").status).toBe(0);
  });

  it("refuses a step that was not saved whole", () => {
    prepare();
    rmSync(join(runDir, "trainer/rl/step_40/policy/weights/iter_0000000/metadata.json"));
    expect(run("rl-40")).toMatchObject({
      status: START_CHECK_FAILED,
      stderr: expect.stringMatching(/no checkpoint of step 40/),
    });
  });
});

describe("export scripts", () => {
  it("put the recipe's RoPE block into config.json, whatever the converter wrote there", () => {
    const rope = { type: "yarn", factor: 4, originalMaxTokens: 262_144 } as const;
    prepare((plan) => ({ ...plan, contextTokens: 1_048_576, recipe: Recipe.parse({ ...recipe, rope }) }));
    rmSync(join(runDir, "checkpoints"), { recursive: true });
    expect(run("sft-40").status).toBe(0);
    const { text_config } = JSON.parse(readFileSync(join(runDir, "checkpoints/sft-40/config.json"), "utf8"));
    expect(text_config).toEqual({
      ...{ layers: 2, max_position_embeddings: 1_048_576 },
      rope_parameters: {
        ...{ rope_type: "yarn", rope_theta: 10_000_000, factor: 4, original_max_position_embeddings: 262_144 },
        ...{ beta_fast: 32, beta_slow: 1, partial_rotary_factor: 0.25 },
        ...{ mrope_interleaved: true, mrope_section: [11, 11, 10] },
      },
    });
  });

  it("take one GPU of one node, the time that the storage needs, and no secret", () => {
    const of = (readGbPerSecond: number, maxWalltimeHours = 24) => {
      const target = targetOf({ storage: { readGbPerSecond }, slurm: { maxWalltimeHours } });
      return renderFiles(planOf(target), () => [])["slurm/rl-40.sbatch"] ?? "";
    };
    const lines = of(1).split("\n");
    for (const line of [
      "--nodes=1",
      "--gres=gpu:1",
      "--exclusive",
      "--mem=0",
      "--time=0-01:10:00",
      "--dependency=singleton",
    ])
      expect(lines).toContain(`#SBATCH ${line}`);
    expect(of(1)).not.toMatch(/--signal|WANDB|secrets=/);
    expect(of(1)).toContain("\nexport NRL_MEGATRON_CHECKPOINT_DIR=/fsx/cache/megatron-v0.7.0\n");
    expect(of(0.1)).toContain("#SBATCH --time=0-02:33:00\n");
    expect(of(0.1, 2)).toContain("#SBATCH --time=0-02:00:00\n");
  });
});
