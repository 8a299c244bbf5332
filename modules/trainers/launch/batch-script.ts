/**
 * Batch script: a train job → what Slurm runs: its #SBATCH lines, the job's values as variables, and the fixed parts
 * of files/ that use them. The same plan gives the same bytes.
 */
import type { TrainJob } from "../../../schemas/job.ts";
import type { Launch } from "../../../schemas/launch.ts";
import { type ClusterTarget, instanceOf } from "../../../schemas/target.ts";
import { pyxisImage, squashFile } from "./images.ts";
import { AUTOMODEL_DIR, configFile, NEMO_RL_DIR, RUN_DIR } from "./launch-of.ts";
import { list, slurmTime, word } from "./shell.ts";
import { textOf } from "./texts.ts";

/** Exit status of a job that found at its start that it cannot run; nothing was trained. sysexits' EX_CONFIG. */
export const START_CHECK_FAILED = 78;

/** Exit status of a job that put itself back into the queue, to go on from its newest checkpoint. EX_TEMPFAIL. */
export const REQUEUED = 75;

/**
 * Exit status of a job whose trainer ended well before the last step and that was not put back: no step was made, it
 * was restarted as often as the plan allows, or Slurm refused. The first number after those of sysexits.
 */
export const NOT_FINISHED = 79;

/** File of the node check in the run's folder. */
export const NODE_CHECK = "slurm/node-check.sh";

/** Module of the run's folder that reads data/sft.jsonl for Automodel. */
export const CHAT_DATA = "slurm/chat_data.py";

/** What nvidia-smi calls each GPU. */
const GPU_NAMES = {
  ...{ a100: "A100", h100: "H100", h200: "H200", b200: "B200", b300: "B300", l40s: "L40S" },
  ...{ "rtx-pro-6000": "RTX PRO 6000", "rtx-5090": "RTX 5090" },
} as const;

/** Files of the run's folder that a stage needs. */
const NEEDED = { sft: ["data/sft.jsonl", CHAT_DATA], rl: ["data/rl-train.jsonl", "gym/uplift.yaml"] } as const;

/** What a job asks Slurm for. */
export type BatchSize = Pick<Launch, "nodes" | "gpusPerNode" | "partition" | "account" | "walltimeSeconds" | "signal">;

/** What a batch script is made from. */
interface BatchJob {
  readonly job: TrainJob;
  readonly launch: Launch;
  readonly target: ClusterTarget;
  /** Our own name of the job: in Slurm's job name and comment, since JobIds are given out again. */
  readonly key: string;
  /** SHA-256 of the configuration file's text, hex. */
  readonly configSha256: string;
  /** Commit of the model that the stage starts from; null for another stage's checkpoint, or where none is pinned. */
  readonly revision: string | null;
  /** Most times Slurm may have restarted a job that restarts itself. */
  readonly mostRestarts: number;
}

/** The batch script as it lies on the node. */
export function batchScript(batch: BatchJob): string {
  const { job, launch, target, key, configSha256, revision, mostRestarts } = batch;
  const { UPLIFT_START_FROM: startFrom = "", ...env } = launch.env;
  const instance = instanceOf(target);
  const ports = launch.ports.map(({ first, last }) => `${first}-${last}`).join(" ");
  const forNodes = {
    UPLIFT_GPUS: String(launch.gpusPerNode),
    UPLIFT_GPU_NAME: GPU_NAMES[instance.gpu],
    UPLIFT_EFA: String(launch.nodes > 1 ? instance.efaInterfaces : 0),
    UPLIFT_SHM_GIB: String(target.slurm.sharedMemoryGib),
    UPLIFT_PORTS: ports,
    UPLIFT_SERVICE_HOST: job.stage === "rl" ? target.environments.host : "",
  };
  return [
    "#!/usr/bin/env bash",
    ...header(launch, key),
    `# Stage ${job.stage} with ${job.trainer}. Comes in: RUN_DIR, and the run's own UPLIFT_JOB_KEY. Goes out: checkpoints in`,
    "# RUN_DIR/trainer, logs in RUN_DIR/logs. Written by uplift from a plan: change the recipe, not this file.",
    `key=${word(key)}`,
    `mount=${word(target.storage.mountPath)}`,
    textOf("run-dir.sh"),
    `job=${word(job.id)}`,
    `config=${word(`${RUN_DIR}/${configFile(job.stage)}`)}`,
    `config_sha256=${configSha256}`,
    `needed=${list(NEEDED[job.stage])}`,
    `start_from=${word(startFrom)}`,
    `revision=${word(revision ?? "")}`,
    `steps=${job.steps}`,
    `most_restarts=${mostRestarts}`,
    `secrets=${list(launch.secrets)}`,
    `nodes=${launch.nodes}`,
    `container=${word(pyxisImage(launch.image))}`,
    `squash_file=${word(squashFile(launch.image, target.storage.mountPath) ?? "")}`,
    ...exports(forNodes),
    "",
    textOf(`steps-${job.stage}.sh`),
    textOf("finished.sh"),
    textOf("model-check.sh"),
    textOf("start-checks.sh"),
    ...(job.stage === "rl" ? [`account=${word(launch.account)}`] : []),
    `mounts=${word(launch.mounts.join(","))}`,
    `workdir=${job.stage === "sft" ? AUTOMODEL_DIR : NEMO_RL_DIR}`,
    ...exports(env),
    `command=${list(launch.command)}`,
    "",
    textOf(`${job.stage}.sh`),
    textOf("go-on.sh").trimEnd(),
    "",
  ].join("\n");
}

/** #SBATCH lines of a job. Slurm expands no variable in them, so the run's folder is not here. */
export function header(launch: BatchSize, key: string): string[] {
  return [
    `--job-name=${key}`,
    `--comment=${key}`,
    `--nodes=${launch.nodes}`,
    "--ntasks-per-node=1",
    `--gres=gpu:${launch.gpusPerNode}`,
    "--exclusive",
    // All of the node's memory; a cluster's DefMemPerCPU would give a part of it.
    "--mem=0",
    `--partition=${launch.partition}`,
    `--account=${launch.account}`,
    `--time=${slurmTime(launch.walltimeSeconds)}`,
    ...(launch.signal === null ? [] : [`--signal=${launch.signal}`]),
    // Trainers go on from their newest whole checkpoint, exports start over: a lost node costs steps, not the run.
    // Slurm does this for a lost node only; go-on.sh does it for a trainer that ended before its last step.
    "--requeue",
    "--open-mode=append",
    // Never two jobs of this name at once: they would write one folder.
    "--dependency=singleton",
  ].map((line) => `#SBATCH ${line}`);
}

/** `export NAME=value` lines, in code-unit order of the names. */
export function exports(env: Readonly<Record<string, string>>): string[] {
  return Object.keys(env)
    .sort()
    .map((name) => `export ${name}=${word(env[name] ?? "")}`);
}
