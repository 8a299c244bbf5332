import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { MODELS } from "../../schemas/model.ts";
import { Recipe } from "../../schemas/recipe.ts";
import { compilePlan } from "../plan/index.ts";
import { vllmFlags } from "../serving/index.ts";
import { renderFiles } from "../trainers/index.ts";
import { gatherFacts } from "./make-plan.ts";
import { loadTarget, PROJECT_DIR } from "./project.ts";

type Mapping = Record<string, unknown>;

/** Runs a part of a rendered script, and prints one of its variables. */
function valueIn(script: string, name: string): string {
  const line = script.split("\n").find((one) => one.startsWith(`${name}=`)) ?? "";
  return spawnSync("bash", ["-c", `${line}\nprintf %s "$${name}"`], { encoding: "utf8" }).stdout;
}

/** What follows "--hf-overrides" in a rendered serving script, as the shell reads it. */
function servedOverrides(script: string): Mapping {
  const line = script.split("\n").find((one) => one.trim().startsWith("--hf-overrides")) ?? "";
  const words = line.trim().replace(/ \\$/, "");
  const { stdout } = spawnSync("bash", ["-c", `set -- ${words}\nprintf %s "$2"`], { encoding: "utf8" });
  return JSON.parse(stdout);
}

/** config.json of a converted model after the export's own program had it. */
function exportedConfig(program: string, settings: string): Mapping {
  const folder = mkdtempSync(join(tmpdir(), "uplift-rope-"));
  try {
    const config = { architectures: ["Qwen3ForCausalLM"], max_position_embeddings: 40_960, rope_theta: 1_000_000 };
    for (const name of ["start", "checkpoint"]) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, "config.json"), JSON.stringify(config));
    }
    writeFileSync(join(folder, "finish.py"), program);
    const paths = ["--folder", join(folder, "checkpoint"), "--start", join(folder, "start"), "--checkpoint", "rl-40"];
    // It has no weights, which it says; its config.json is written before.
    expect(spawnSync("python3", [join(folder, "finish.py"), ...paths, "--config", settings]).status).toBe(1);
    return JSON.parse(readFileSync(join(folder, "checkpoint/config.json"), "utf8"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

it("one RoPE block: SFT, RL, the exported model and its server have the same values, for Qwen3-32B at 128k", async () => {
  const target = await loadTarget("aws-p5en");
  const { inputs } = await gatherFacts(join(PROJECT_DIR, "recipes/github-sft-rl.ts"), target);
  const model = MODELS["Qwen/Qwen3-32B"];
  const rope = { type: "yarn", factor: 4, originalMaxTokens: 32_768 } as const;
  const recipe = Recipe.parse({ ...inputs.recipe, model: model.name, rope });
  const baseModel = { ...inputs.baseModel, name: model.name, bytes: 2 * model.parameters };
  const plan = compilePlan({ ...inputs, recipe, model, nativeContextTokens: model.nativeContextTokens, baseModel });
  const files = renderFiles(plan, vllmFlags);

  const block = {
    ...{ rope_type: "yarn", rope_theta: 1_000_000, factor: 4, original_max_position_embeddings: 32_768 },
    ...{ beta_fast: 32, beta_slow: 1 },
  };
  const sft = parse(files["config/sft.automodel.yaml"] ?? "");
  expect(sft.model.rope_parameters).toEqual(block);
  // Megatron asserts three more, which say what YaRN does without them.
  const rl = parse(files["config/rl.nemo-rl.yaml"] ?? "");
  const complete = { ...block, truncate: true, mscale: 1, mscale_all_dim: 0 };
  expect(rl.policy.hf_config_overrides).toEqual({ rope_scaling: complete });
  expect(rl.policy.hf_overrides).toEqual({ rope_scaling: complete });

  const config = { max_position_embeddings: 131_072, rope_parameters: block };
  for (const checkpoint of ["sft-20", "rl-40"]) {
    expect(servedOverrides(files[`serving/${checkpoint}.sh`] ?? "")).toEqual(config);
    const settings = valueIn(files[`slurm/${checkpoint}.sbatch`] ?? "", "model_config");
    const exported = exportedConfig(files["slurm/finish_checkpoint.py"] ?? "", settings);
    expect(exported).toEqual({ architectures: ["Qwen3ForCausalLM"], ...config });
  }
});
