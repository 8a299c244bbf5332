import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { canonicalJson } from "../../../schemas/digest.ts";
import { modelFolder } from "../../../schemas/model.ts";
import { Plan } from "../../../schemas/plan.ts";
import { configs, planOf, recipe, targetOf } from "./fixture.ts";
import { GYM_AGENT, GYM_SERVER, jobKey, renderFiles, type VllmFlags } from "./index.ts";

/** modules/serving's function has its own tests. */
const vllmFlags: VllmFlags = (settings, _layout, { path, servedName }) => [
  ...[path, "--served-model-name", servedName, "--max-model-len", String(settings.contextTokens)],
  ...["--hf-overrides", '{"a":"$b"}', "--language-model-only"],
];
const render = (plan: Plan) => renderFiles(plan, vllmFlags);
const files = render(planOf());
const bashFiles = Object.entries(files).filter(([, text]) => text.startsWith("#!/usr/bin/env bash"));
const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0;

describe("the files of a cluster's plan", () => {
  it("are the ones the run's folder is described with", () => {
    expect(Object.keys(files)).toEqual([
      "config/rl.nemo-rl.yaml",
      "config/sft.automodel.yaml",
      "gym/resources_servers/uplift_environments/app.py",
      "gym/resources_servers/uplift_environments/requirements.txt",
      "gym/uplift.yaml",
      "serving/base.sh",
      "serving/rl-40.sh",
      "slurm/base.sbatch",
      "slurm/chat_data.py",
      "slurm/finish_checkpoint.py",
      "slurm/node-check.sh",
      "slurm/register_model.py",
      "slurm/rl-40.sbatch",
      "slurm/rl.sbatch",
      "slurm/sft-40.sbatch",
      "slurm/sft.sbatch",
    ]);
  });

  it("have the same bytes at every rendering and whatever the plan's key order", () => {
    const reversed = (value: unknown): unknown =>
      Array.isArray(value)
        ? value.map(reversed)
        : typeof value === "object" && value !== null
          ? Object.fromEntries(
              Object.entries(value)
                .reverse()
                .map(([key, member]) => [key, reversed(member)]),
            )
          : value;
    expect(render(planOf())).toEqual(files);
    expect(render(reversed(planOf()) as Plan)).toEqual(files);
    expect(render(Plan.parse(JSON.parse(canonicalJson(planOf()))))).toEqual(files);
  });

  it("hold the plan's configurations, as PyYAML and every other reader takes them", () => {
    const read = { sft: files["config/sft.automodel.yaml"] ?? "", rl: files["config/rl.nemo-rl.yaml"] ?? "" };
    for (const stage of ["sft", "rl"] as const) {
      expect(parse(read[stage], { version: "1.1" })).toEqual(configs[stage]);
      const code = "import json,sys,yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";
      const python = spawnSync("python3", ["-c", code], { input: read[stage], encoding: "utf8" });
      if (python.status === 0) expect(JSON.parse(python.stdout)).toEqual(configs[stage]);
    }
    expect(read.sft).toContain("lr: 1.0e-05\n");
    expect(read.sft).toContain('id: "010"\n  mode: "on"\n  name: "yes"\n');
  });

  it("carry our key in the job's name and comment, and nothing that looks like another job's", () => {
    for (const stage of ["sft", "rl"] as const) {
      const key = jobKey(planOf(), stage);
      expect(key).toMatch(/^uplift-github-sft-rl-(sft|rl)-[0-9a-f]{12}$/);
      const header = (files[`slurm/${stage}.sbatch`] ?? "").split("\n").filter((line) => line.startsWith("#SBATCH"));
      expect(header).toEqual([
        `#SBATCH --job-name=${key}`,
        `#SBATCH --comment=${key}`,
        `#SBATCH --nodes=${stage === "sft" ? 2 : 4}`,
        ...["#SBATCH --ntasks-per-node=1", "#SBATCH --gres=gpu:8", "#SBATCH --exclusive", "#SBATCH --mem=0"],
        ...["#SBATCH --partition=gpu", "#SBATCH --account=uplift", "#SBATCH --time=1-00:00:00"],
        ...(stage === "sft" ? ["#SBATCH --signal=B:USR1@420"] : []),
        ...["#SBATCH --requeue", "#SBATCH --open-mode=append", "#SBATCH --dependency=singleton"],
      ]);
    }
  });

  it("assign no secret a value, whatever it is called", () => {
    for (const [name, text] of Object.entries(files)) {
      expect(text, name).not.toMatch(/\b[A-Z_]*(API_KEY|TOKEN|PASSWORD|SECRET)=/);
      expect(text, name).not.toMatch(/--api-key/);
    }
    expect(files["slurm/sft.sbatch"]).toContain("\nsecrets=(WANDB_API_KEY)\n");
    expect(render(planOf(targetOf({ wandb: undefined })))["slurm/sft.sbatch"]).toContain("\nsecrets=()\n");
  });

  it("are scripts that bash reads", () => {
    expect(bashFiles.length).toBe(8);
    for (const [name, text] of bashFiles)
      expect(spawnSync("bash", ["-n"], { input: text, encoding: "utf8" }), name).toMatchObject({
        status: 0,
        stderr: "",
      });
  });

  it.runIf(has("shellcheck", "--version"))("are scripts that shellcheck finds nothing in", () => {
    for (const [name, text] of bashFiles)
      expect(spawnSync("shellcheck", ["-"], { input: text, encoding: "utf8" }).stdout, name).toBe("");
  });

  it("keep a value's every character in the shell, and fill in only the run's folder", () => {
    const text = fc.string({ unit: fc.constantFrom(..."a $`\"'\\!*{}\n;&|~#=") });
    fc.assert(
      fc.property(text, (value) => {
        const plan = planOf();
        const jobs = plan.jobs.map((job) =>
          job.kind === "train" && job.launch
            ? { ...job, launch: { ...job.launch, env: { X: `${value}\${RUN_DIR}` } } }
            : job,
        );
        const script = render({ ...plan, jobs })["slurm/sft.sbatch"] ?? "";
        const start = script.indexOf("export X=");
        const line = script.slice(start, script.indexOf("\ncommand=", start));
        const run = spawnSync("bash", ["-c", `RUN_DIR=/fsx/r\n${line}\nprintf %s "$X"`], { encoding: "utf8" });
        expect(run.stdout).toBe(`${value}/fsx/r`);
      }),
      { numRuns: 40 },
    );
  });

  it("point Gym at the environment service, through a placeholder it can start and simple_agent", () => {
    expect(parse(files["gym/uplift.yaml"] ?? "")).toEqual({
      skip_venv_if_present: true,
      [GYM_SERVER]: {
        resources_servers: {
          [GYM_SERVER]: {
            ...{ entrypoint: "app.py", domain: "agent", verified: false },
            description: "Uplift's environment service, tasks of github",
            ...{ host: "environments.uplift.svc.cluster.local", port: 8080 },
          },
        },
      },
      [GYM_AGENT]: {
        responses_api_agents: {
          simple_agent: {
            entrypoint: "app.py",
            resources_server: { type: "resources_servers", name: GYM_SERVER },
            model_server: { type: "responses_api_models", name: "policy_model" },
            max_steps: recipe.rl.maxTurns,
          },
        },
      },
    });
  });

  it("serve each evaluated checkpoint by the flags of modules/serving, one option a line", () => {
    expect(files["serving/rl-40.sh"]?.split("\n").slice(-9)).toEqual([
      // biome-ignore lint/suspicious/noTemplateCurlyInString: filled in on the node
      'model="${RUN_DIR}/checkpoints/rl-40"',
      'check_model "$model" ""',
      "export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1",
      'exec vllm serve "$model" \\',
      "  --served-model-name github-sft-rl-rl-40 \\",
      "  --max-model-len 131072 \\",
      '  --hf-overrides "{\\"a\\":\\"\\$b\\"}" \\',
      "  --language-model-only",
      "",
    ]);
    expect(files["serving/base.sh"]).toContain("\nmodel=/fsx/models/Qwen--Qwen3.8-27B\n");
  });
});

describe("a base model's folder on shared storage", () => {
  it("is one a revision, and one level deep whatever the revision is called", () => {
    const of = (revision: string | null) => modelFolder("/fsx", "Qwen/Qwen3.8-27B", revision);
    expect(of(null)).toBe("/fsx/models/Qwen--Qwen3.8-27B");
    expect(of("0123456789abcdef0123456789abcdef01234567")).toBe("/fsx/models/Qwen--Qwen3.8-27B@0123456789ab");
    expect(of("refs/pr/7")).toBe("/fsx/models/Qwen--Qwen3.8-27B@refs--pr--7");
  });
});

describe("the restarts that a job may take by itself", () => {
  const allowed = (plan: Plan) => /\nmost_restarts=(\d+)\n/.exec(render(plan)["slurm/rl.sbatch"] ?? "")?.[1];

  it("are twice the jobs that the high estimate needs, and one a step where nothing was estimated", () => {
    const range = { low: 1, expected: 2, high: 3 };
    const within = (high: number) => {
      const plan = planOf();
      const stage = { stage: "rl", nodes: 4, gpus: 32, stepSeconds: range, why: [] } as const;
      const money = { hours: { ...range, high }, gpuHours: range, dollars: range };
      const price = { dollarsPerNodeHour: 55, pricing: "on-demand", tableDate: "2026-01-01", source: "fixture" };
      const cost = { stages: [{ ...stage, ...money }], ...money, price };
      return allowed(Plan.parse({ ...plan, estimate: { ...plan.estimate, cost } }));
    };
    // A job has 24 h less 2040 s.
    expect([1, 23.4, 23.5, 46.8, 80].map(within)).toEqual(["2", "2", "4", "4", "8"]);
    expect(allowed(planOf())).toBe("40");
  });
});

describe("the files of a plan for one machine", () => {
  it("are TRL's configurations alone", () => {
    const plan = planOf();
    const target = { kind: "local", name: "local", home: ".uplift", slots: 2, threads: 1 } as const;
    const ports = { controllerPort: 7600, environmentsPort: 7601, server: "vllm", endpointHours: 2 } as const;
    const jobs = plan.jobs.map((job) =>
      job.kind === "train" ? { ...job, trainer: "trl" as const, config: { b: 1, a: [1e-5] }, launch: null } : job,
    );
    expect(render({ ...plan, jobs, target: { ...target, ...ports } })).toEqual({
      "config/rl.trl.json": '{\n  "a": [\n    0.00001\n  ],\n  "b": 1\n}\n',
      "config/sft.trl.json": '{\n  "a": [\n    0.00001\n  ],\n  "b": 1\n}\n',
    });
  });
});
