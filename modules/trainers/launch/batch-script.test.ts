import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { targetOf } from "./fixture.ts";
import { NOT_FINISHED, REQUEUED, START_CHECK_FAILED } from "./index.ts";
import { environment, layOut, write } from "./stub-cluster.ts";

let folder: string;
let runDir: string;
let children: ChildProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "uplift-batch-"));
  runDir = join(folder, "runs/run-1");
  children = [];
  layOut(folder);
});

afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** Runs a stage's script to its end. */
function run(stage: "sft" | "rl", changes: Record<string, string> = {}) {
  const env = environment(folder, stage, changes);
  for (const [name, value] of Object.entries(changes)) if (value === "") delete env[name];
  const script = join(folder, "runs/run-1/slurm", `${stage}.sbatch`);
  const { status, stderr } = spawnSync("bash", [script], { env, encoding: "utf8", timeout: 30_000 });
  return { status, stderr };
}
/** SHA-256 of a stage's configuration, as its script has it. */
const configSha256 = (stage: string) =>
  /\nconfig_sha256=(\w+)\n/.exec(readFileSync(join(runDir, `slurm/${stage}.sbatch`), "utf8"))?.[1] ?? "";
/** What scontrol was asked to requeue. */
const requeues = () => (existsSync(join(folder, "notes/requeue")) ? note("requeue") : "");
const note = (name: string) => readFileSync(join(folder, "notes", name), "utf8");
/** All that a job says to Slurm's output at its end. */
const SAID = {
  finished: /^uplift: uplift-github-sft-rl-(sft|rl)-[0-9a-f]{12}: step 40 of 40 is saved: finished\n$/,
} as const;
const started = () => existsSync(join(folder, "notes/torchrun")) || existsSync(join(folder, "notes/driver"));

// The rendered scripts in the real bash, on the stub cluster.
describe("the batch script of SFT", () => {
  it("runs torchrun in the pinned image, with the run's folder filled in and our key in the environment", () => {
    expect(run("sft")).toEqual({ status: 0, stderr: expect.stringMatching(SAID.finished) });
    expect(note("torchrun")).toBe(
      `--nproc-per-node=8 --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node-1:13742 -m nemo_automodel.cli.app ${runDir}/config/sft.automodel.yaml\n`,
    );
    const [check, train] = note("srun").trim().split("\n");
    expect(check).toBe(`--nodes=2 --ntasks=2 --ntasks-per-node=1 bash ${runDir}/slurm/node-check.sh`);
    expect(train).toMatch(/--container-image=registry\.example#nvidia\/nemo-automodel:sha256:[0-9a-f]{64} /);
    expect(train).toContain(`--container-mounts=${folder}:${folder},/dev/infiniband:/dev/infiniband,`);
    expect(note("environment")).toMatch(/^UPLIFT_JOB_KEY=uplift-github-sft-rl-sft-[0-9a-f]{12}$/m);
    expect(note("environment")).toMatch(/^HF_HUB_OFFLINE=1$/m);
    expect(note("environment")).toMatch(/^RUN_ID=run-1$/m);
  });

  it("notes its key beside the JobId, and writes the secret's value nowhere", () => {
    expect(run("sft", { UPLIFT_JOB_KEY: "run-1-sft", SLURM_RESTART_COUNT: "2" }).status).toBe(0);
    const [line = ""] = readFileSync(join(runDir, "logs/sft/starts.jsonl"), "utf8").split("\n");
    expect(JSON.parse(line)).toMatchObject({ key: "run-1-sft", slurmJobId: "17", restart: 2 });
    const found = spawnSync("grep", ["-rl", "not-a-key", runDir], { encoding: "utf8" });
    expect(found.stdout).toBe("");
  });

  it("takes an imported image file and a secret's file where there are such", () => {
    const [, digest = ""] = /@(sha256:[0-9a-f]{64})/.exec(targetOf().images.automodel) ?? [];
    const file = join(folder, "images", `${digest.replace(":", "-")}.sqsh`);
    write(file, "");
    write(join(folder, "secrets/WANDB_API_KEY"), "from-file\n");
    expect(run("sft", { WANDB_API_KEY: "", UPLIFT_SECRETS_DIR: join(folder, "secrets") }).status).toBe(0);
    expect(note("srun")).toContain(`--container-image=${file} `);
    expect(note("environment")).toMatch(/^WANDB_API_KEY=from-file$/m);
  });

  it("ends as the trainer ends", () => {
    expect(run("sft", { WORKER_STATUS: "3" }).status).toBe(3);
  });

  it("hands USR1 to its workers only, waits for their save, and goes on in a further start", async () => {
    const env = environment(folder, "sft", { WORKER_SECONDS: "20", SAVES: "sft/epoch_0_step_11" });
    mkdirSync(join(folder, "other"));
    const child = spawn("bash", [join(runDir, "slurm/sft.sbatch")], { env, stdio: "ignore" });
    // The same module under another job's key, which must not be disturbed.
    const other = spawn("bash", [join(folder, "notes/worker.sh"), "-m", "nemo_automodel.cli.app"], {
      env: { ...env, NOTES: join(folder, "other"), UPLIFT_JOB_KEY: "another-job" },
      stdio: "ignore",
    });
    children.push(child, other);
    const ended = new Promise<number | null>((resolve) => child.on("exit", (code) => resolve(code)));
    while (!existsSync(join(folder, "notes/training")) || !existsSync(join(folder, "other/training"))) await sleep(50);
    child.kill("SIGUSR1");
    expect(await ended).toBe(REQUEUED);
    expect(requeues()).toBe("requeue 17\n");
    expect(existsSync(join(folder, "notes/saved"))).toBe(true);
    expect(existsSync(join(folder, "other/saved"))).toBe(false);
    expect(readFileSync(join(runDir, "logs/sft/batch-17.log"), "utf8")).toContain("USR1 from Slurm");
  });
});

describe("the batch script of GRPO", () => {
  it("runs the image's own ray.sub with its contract, and the driver as its command", () => {
    expect(run("rl", { RUN_ID: "20261129-1", PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True" })).toEqual({
      status: 0,
      stderr: expect.stringMatching(SAID.finished),
    });
    expect(note("driver")).toBe(`examples/nemo_gym/run_grpo_nemo_gym.py --config ${runDir}/config/rl.nemo-rl.yaml\n`);
    const lines = new Set(note("ray-environment").split("\n"));
    for (const line of [
      "GPUS_PER_NODE=8",
      `BASE_LOG_DIR=${runDir}/logs/rl`,
      `COMMAND=python examples/nemo_gym/run_grpo_nemo_gym.py --config ${runDir}/config/rl.nemo-rl.yaml `,
      "SLURM_SUBMIT_DIR=/opt/nemo-rl",
      "RUN_ID=20261129-1",
      "SLURM_JOB_ACCOUNT=uplift",
      `NEMO_GYM_EXTRA_ROOTS=${runDir}/gym`,
      "NODE_MANAGER_PORT=9911",
    ])
      expect([...lines]).toContain(line);
    expect(note("ray-environment")).not.toContain("expandable_segments");
    expect(note("srun")).toContain("cat /opt/nemo-rl/ray.sub\n");
    // Multi-line, and its variables are the container's to fill in.
    expect(note("ray-environment")).toContain('ln -sfn "$RUN_DIR/gym/resources_servers/uplift_environments"');
  });

  it("refuses an image without ray.sub, and ends as the driver ends", () => {
    expect(run("rl", { WORKER_STATUS: "5", SAVES: "" }).status).toBe(5);
    rmSync(join(folder, "notes/driver"));
    write(join(folder, "notes/ray.sub"), "");
    expect(run("rl").status).toBe(START_CHECK_FAILED);
    expect(started()).toBe(false);
  });
});

describe.each(["sft", "rl"] as const)("a batch script of %s that is told its one log", (stage) => {
  const runInto = (log: string, changes: Record<string, string> = {}) => {
    const env = environment(folder, stage, { UPLIFT_LOG: log, ...changes });
    const file = openSync(log, "a");
    const { status } = spawnSync("bash", [join(runDir, `slurm/${stage}.sbatch`)], {
      ...{ env, stdio: ["ignore", file, file], timeout: 30_000 },
    });
    closeSync(file);
    return { status, lines: readFileSync(log, "utf8").trim().split("\n") };
  };

  it("says everything there, and nothing twice", () => {
    const { status, lines } = runInto(join(runDir, `${stage}.log`));
    expect(status).toBe(0);
    expect(lines.filter((line) => line.includes("step 40 of 40 is saved: finished")).length).toBe(1);
    expect(lines.filter((line) => line.includes("all start checks passed")).length).toBe(1);
    expect(new Set(lines).size).toBe(lines.length);
    expect(existsSync(join(runDir, `logs/${stage}/batch-17.log`))).toBe(false);
  });
});

describe("what the driver prints", () => {
  it("is copied into the log from the file that ray.sub keeps it in, also after a restart", () => {
    for (const [restart, name] of [
      ["", "17-logs"],
      ["2", "17-2-logs"],
    ] as const) {
      write(join(runDir, "logs/rl", name, "ray-driver.log"), `first of ${name}\nlast of ${name}\n`);
      const restarted: Record<string, string> = restart === "" ? {} : { SLURM_RESTART_COUNT: restart };
      expect(run("rl", { WORKER_STATUS: "5", SAVES: "", ...restarted }).status).toBe(5);
      const log = readFileSync(join(runDir, "logs/rl/batch-17.log"), "utf8").trim().split("\n");
      expect(log.slice(-3)).toEqual([
        `first of ${name}`,
        `last of ${name}`,
        expect.stringMatching(/^uplift: \S+: ray\.sub ended with 5$/),
      ]);
    }
  });
});

describe("the start checks", () => {
  const refused: [string, Record<string, string>, RegExp][] = [
    ["no run folder", { RUN_DIR: "" }, /RUN_DIR is not set: give the run's folder on shared storage/],
    ["a run folder outside the mount", { RUN_DIR: "/tmp" }, /RUN_DIR is \/tmp: the containers see only/],
    ["a run folder with a comma", { RUN_DIR: "/a,b" }, /an absolute path of letters, digits/],
    ["a W&B id that W&B does not take", { RUN_ID: "lab/run-1" }, /RUN_ID is lab\/run-1: 1 to 64 letters/],
    ["another number of nodes", { SLURM_JOB_NUM_NODES: "1" }, /1 nodes were given, the plan lies on 2/],
    ["a missing secret", { WANDB_API_KEY: "" }, /the secret WANDB_API_KEY is missing/],
    ["a GPU too few", { GPUS_HERE: "7" }, /7 GPUs, the plan needs 8/],
    ["another GPU", { GPU_HERE: "A100-SXM4-80GB" }, /8 of its GPUs are no H100/],
    ["a node whose DNS misses another node", { LOST_HOST: "node-2" }, /cannot resolve node-2/],
    ["a node that takes another for itself", { LOOP_HOST: "node-2" }, /resolves node-2 to 127\.0\.1\.1/],
    ["little shared memory", { SHM_HERE: "64" }, /\/dev\/shm has 64 GiB, the target says 512/],
    ["a lost EFA device", { EFA_HERE: "31" }, /31 EFA devices, the instance has 32/],
  ];

  it.each(refused)("refuse %s in plain words, before anything is started", (_what, changes, message) => {
    const { status, stderr } = run("sft", changes);
    expect(stderr).toMatch(message);
    expect(status).toBe(START_CHECK_FAILED);
    expect(started()).toBe(false);
  });

  it("say all that is wrong with a node at once", () => {
    const { stderr } = run("sft", { GPUS_HERE: "7", LOST_HOST: "node-2", SHM_HERE: "64" });
    expect(stderr.split("\n").filter((line) => /^uplift: node /.test(line)).length).toBe(3);
  });

  it("look for the environment service only where it is used", () => {
    const host = "environments.uplift.svc.cluster.local";
    expect(run("sft", { LOST_HOST: host }).status).toBe(0);
    expect(run("rl", { LOST_HOST: host }).stderr).toContain(`cannot resolve the environment service ${host}`);
  });

  it("refuse a missing or changed configuration, missing data and a missing model", () => {
    const without = (path: string) => {
      const text = readFileSync(path, "utf8");
      rmSync(path);
      const { stderr } = run("sft");
      write(path, text);
      return stderr;
    };
    expect(without(join(runDir, "config/sft.automodel.yaml"))).toContain("is missing: uplift plan --out writes it");
    expect(without(join(runDir, "data/sft.jsonl"))).toContain("data/sft.jsonl is missing or empty");
    expect(without(join(runDir, "slurm/chat_data.py"))).toContain("slurm/chat_data.py is missing or empty");
    expect(without(join(folder, "model/config.json"))).toContain(`no model in ${folder}/model`);
    const config = join(runDir, "config/sft.automodel.yaml");
    write(config, `${readFileSync(config, "utf8")}# edited\n`);
    expect(run("sft").stderr).toContain("is not the plan's: sha256");
    expect(started()).toBe(false);
  });

  it("go on in a folder of the same configuration, and never in another's or an unknown one's", () => {
    const trainer = join(runDir, "trainer/sft");
    expect(run("sft", { SAVES: "sft/epoch_0_step_19" }).status).toBe(REQUEUED);
    expect(run("sft").status).toBe(0);
    writeFileSync(join(trainer, "config.sha256"), `${"0".repeat(64)}\n`);
    expect(run("sft").stderr).toContain("holds checkpoints of another configuration");
    rmSync(join(trainer, "config.sha256"));
    expect(run("sft").stderr).toContain("holds checkpoints of an unknown configuration");
    mkdirSync(join(runDir, "trainer/rl/step_20"), { recursive: true });
    expect(run("rl").stderr).toContain("holds checkpoints of an unknown configuration");
  });
});

describe.each([
  ["sft", (step: number) => `sft/epoch_${step > 20 ? 1 : 0}_step_${step - 1}`],
  ["rl", (step: number) => `rl/step_${step}`],
] as const)("the end of %s, whose trainer ended with 0", (stage, folderOf) => {
  const save = (step: number) => ({ SAVES: folderOf(step) });

  it("is the end of the stage once the last step is saved, and a further start has nothing to do", () => {
    expect(run(stage)).toEqual({ status: 0, stderr: expect.stringMatching(SAID.finished) });
    rmSync(join(folder, "notes"), { recursive: true });
    mkdirSync(join(folder, "notes"));
    // Not even its data, its start model or its nodes are looked at.
    rmSync(join(runDir, "data"), { recursive: true });
    expect(run(stage, { GPUS_HERE: "7", WANDB_API_KEY: "" })).toEqual({ status: 0, stderr: "" });
    expect(started()).toBe(false);
    expect(requeues()).toBe("");
  });

  it("puts the job back into the queue until the last step is saved", () => {
    const first = run(stage, save(13));
    expect(first.status).toBe(REQUEUED);
    expect(first.stderr).toMatch(/: step 13 of 40 \(this job began at 0\): requeued, restart 1 of at most 40\n$/);
    const second = run(stage, { ...save(27), SLURM_RESTART_COUNT: "1" });
    expect(second.status).toBe(REQUEUED);
    expect(second.stderr).toMatch(/: step 27 of 40 \(this job began at 13\): requeued, restart 2 of at most 40\n$/);
    expect(requeues()).toBe("requeue 17\nrequeue 17\n");
    expect(run(stage, { SLURM_RESTART_COUNT: "2" }).status).toBe(0);
    expect(requeues()).toBe("requeue 17\nrequeue 17\n");
  });

  it("never starts itself again where no step was made", () => {
    for (const begun of [0, 13]) {
      if (begun > 0) mkdirSync(join(runDir, "trainer", folderOf(begun)), { recursive: true });
      const { status, stderr } = run(stage, { SAVES: "" });
      expect(status).toBe(NOT_FINISHED);
      expect(stderr).toContain(
        `not finished and not requeued: the trainer ended with 0, but no step after ${begun} of 40`,
      );
      expect(stderr.split("\n").length).toBe(2);
    }
    expect(requeues()).toBe("");
  });

  it("stops at the restarts that the plan allows, and where Slurm refuses", () => {
    const spent = run(stage, { ...save(13), SLURM_RESTART_COUNT: "40" });
    expect(spent.status).toBe(NOT_FINISHED);
    expect(spent.stderr).toMatch(
      /: step 13 of 40 after 40 restarts, the most the plan allows: submit it again to go on/,
    );
    expect(requeues()).toBe("");
    const refused = run(stage, { ...save(14), SLURM_RESTART_COUNT: "39", REQUEUE_STATUS: "1" });
    expect(refused.status).toBe(NOT_FINISHED);
    expect(refused.stderr).toMatch(/: step 14 of 40, and scontrol requeue refused: submit it again to go on/);
    expect(requeues()).toBe("requeue 17\n");
  });

  it("counts no save that was cut off", () => {
    const cut = stage === "sft" ? "sft/epoch_1_step_39" : "rl/tmp_step_40";
    if (stage === "sft") write(join(runDir, "trainer", cut, ".incomplete"), "");
    else mkdirSync(join(runDir, "trainer", cut), { recursive: true });
    // The mark is older than this configuration's own note, which a first start has written.
    write(join(runDir, "trainer", stage, "config.sha256"), configSha256(stage));
    expect(run(stage, save(13)).status).toBe(REQUEUED);
  });

  it("is the trainer's own where that failed, whatever was saved", () => {
    expect(run(stage, { ...save(13), WORKER_STATUS: "3" }).status).toBe(3);
    expect(run(stage, { WORKER_STATUS: "3" }).status).toBe(3);
    expect(requeues()).toBe("");
  });
});

describe("a base model whose revision the recipe pins", () => {
  const REVISION = "0123456789abcdef0123456789abcdef01234567";
  beforeEach(() => layOut(folder, (plan) => ({ ...plan, baseModel: { ...plan.baseModel, revision: REVISION } })));

  it("is trained on only if its folder says that it is of that revision", () => {
    expect(run("sft").stderr).toContain(`may be another revision than the plan's, ${REVISION}: write the commit`);
    write(join(folder, "model/uplift-revision"), `${REVISION.slice(0, 12)}\n`);
    const { status, stderr } = run("sft");
    expect(status).toBe(START_CHECK_FAILED);
    expect(stderr).toContain(
      `${folder}/model is revision 0123456789ab by its file uplift-revision, the plan's is ${REVISION}`,
    );
    expect(started()).toBe(false);
    write(join(folder, "model/uplift-revision"), `${REVISION}\n`);
    expect(run("sft").status).toBe(0);
  });

  it("is asked of no checkpoint of another stage", () => {
    expect(run("rl").status).toBe(0);
  });

  it("is served only if its folder says so, and its folder's name carries the revision", () => {
    const base = `${folder}/models/Qwen--Qwen3.8-27B@0123456789ab`;
    const serve = () => {
      const env = environment(folder, "sft", { VLLM_API_KEY: "not-a-key" });
      const { status, stderr } = spawnSync("bash", [join(runDir, "serving/base.sh")], { env, encoding: "utf8" });
      return { status, stderr };
    };
    expect(serve().stderr).toContain(`no model in ${base}`);
    write(join(base, "config.json"), "{}");
    expect(serve().stderr).toContain(`${base} may be another revision than the plan's`);
    write(join(base, "uplift-revision"), "another\n");
    expect(serve()).toMatchObject({
      status: START_CHECK_FAILED,
      stderr: expect.stringContaining(`${base} is revision another by its file uplift-revision`),
    });
    write(join(base, "uplift-revision"), REVISION);
    write(join(folder, "bin/vllm"), '#!/usr/bin/env bash\necho "$@" >"$NOTES/vllm"\n', true);
    expect(serve()).toEqual({ status: 0, stderr: "" });
    expect(note("vllm")).toBe(`serve ${base}\n`);
  });
});
