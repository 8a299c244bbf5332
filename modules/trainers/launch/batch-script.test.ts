import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { targetOf } from "./fixture.ts";
import { START_CHECK_FAILED } from "./index.ts";
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
const note = (name: string) => readFileSync(join(folder, "notes", name), "utf8");
const started = () => existsSync(join(folder, "notes/torchrun")) || existsSync(join(folder, "notes/driver"));

// The rendered scripts in the real bash, on the stub cluster.
describe("the batch script of SFT", () => {
  it("runs torchrun in the pinned image, with the run's folder filled in and our key in the environment", () => {
    expect(run("sft")).toEqual({ status: 0, stderr: "" });
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

  it("hands USR1 to its workers only, waits for their save, and ends well", async () => {
    const env = environment(folder, "sft", { WORKER_SECONDS: "20" });
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
    expect(await ended).toBe(0);
    expect(existsSync(join(folder, "notes/saved"))).toBe(true);
    expect(existsSync(join(folder, "other/saved"))).toBe(false);
    expect(readFileSync(join(runDir, "logs/sft/batch-17.log"), "utf8")).toContain("USR1 from Slurm");
  });
});

describe("the batch script of GRPO", () => {
  it("runs the image's own ray.sub with its contract, and the driver as its command", () => {
    expect(run("rl", { RUN_ID: "20261129-1", PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True" })).toEqual({
      status: 0,
      stderr: "",
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
    expect(run("rl", { WORKER_STATUS: "5" }).status).toBe(5);
    rmSync(join(folder, "notes/driver"));
    write(join(folder, "notes/ray.sub"), "");
    expect(run("rl").status).toBe(START_CHECK_FAILED);
    expect(started()).toBe(false);
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
    expect(without(join(folder, "model/config.json"))).toContain(`no model in ${folder}/model`);
    const config = join(runDir, "config/sft.automodel.yaml");
    write(config, `${readFileSync(config, "utf8")}# edited\n`);
    expect(run("sft").stderr).toContain("is not the plan's: sha256");
    expect(started()).toBe(false);
  });

  it("go on in a folder of the same configuration, and never in another's or an unknown one's", () => {
    const trainer = join(runDir, "trainer/sft");
    expect(run("sft").status).toBe(0);
    mkdirSync(join(trainer, "epoch_0_step_20"));
    expect(run("sft").status).toBe(0);
    writeFileSync(join(trainer, "config.sha256"), `${"0".repeat(64)}\n`);
    expect(run("sft").stderr).toContain("holds checkpoints of another configuration");
    rmSync(join(trainer, "config.sha256"));
    expect(run("sft").stderr).toContain("holds checkpoints of an unknown configuration");
    mkdirSync(join(runDir, "trainer/rl/step_20"), { recursive: true });
    expect(run("rl").stderr).toContain("holds checkpoints of an unknown configuration");
  });
});
