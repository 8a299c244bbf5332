/**
 * Slurm by its commands, for a machine that has them and no slurmrestd: sbatch, squeue and scancel → the same as over REST.
 * Jobs are those of the user who runs this.
 */
import { type ExecaError, execa } from "execa";
import type { BatchJob } from "./batch-scheduler.ts";
import { Jobs, wordsOf } from "./slurm-answers.ts";
import {
  jobEnvironment,
  limitMinutes,
  refused,
  type SlurmJob,
  type SlurmTransport,
  unreachable,
} from "./slurm-transport.ts";

export interface SlurmCommandsOptions {
  /** Added to the environment of the commands, not of jobs: SLURM_CONF. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Beyond the 9 s after which they give slurmctld up by themselves. */
const TIMEOUT_MILLISECONDS = 30_000;
/** What they say where a job may well be taken later. No number tells these apart. */
const PASSES =
  /fatal:|contact slurm controller|timed out|zero bytes|temporarily unable|standby mode|authentication|munge|connection|submissions? .*disabled/i;
const GONE = /invalid job id|already completing|already completed/i;

/** Slurm's command line. */
export class SlurmCommands implements SlurmTransport {
  readonly #env: Readonly<Record<string, string>>;

  constructor({ env = {} }: SlurmCommandsOptions = {}) {
    this.#env = env;
  }

  async submit(job: BatchJob): Promise<void> {
    try {
      // The environment goes by another file than standard input, which has the script; a command line can be read by all.
      const environment = Object.entries(jobEnvironment(job)).map(([name, value]) => `${name}=${value}\0`);
      const stdio = ["pipe", "pipe", "pipe", [new TextEncoder().encode(environment.join(""))]] as const;
      await execa("sbatch", sbatchArguments(job), { ...this.#options(), input: job.script, stdio });
    } catch (error) {
      const words = wordsOfCommand(error);
      if (!isExit(error) || PASSES.test(words)) throw unreachable("sbatch", words);
      throw refused(job, words);
    }
  }

  async jobs(): Promise<SlurmJob[]> {
    let stdout: string;
    try {
      ({ stdout } = await execa("squeue", ["--json", "--states=all"], this.#options()));
    } catch (error) {
      throw unreachable("squeue", wordsOfCommand(error));
    }
    const { jobs, errors } = Jobs.parse(JSON.parse(stdout));
    // Its exit code is 0 all the same.
    if (errors.length > 0 || !jobs) throw unreachable("squeue", wordsOf(errors));
    return jobs;
  }

  async cancel({ jobId, name }: SlurmJob): Promise<void> {
    try {
      // Both must fit: a JobId that meanwhile is another job's has another name.
      await execa("scancel", [`--name=${name}`, String(jobId)], this.#options());
    } catch (error) {
      const words = wordsOfCommand(error);
      if (!GONE.test(words)) throw unreachable("scancel", words);
    }
  }

  #options() {
    return { env: this.#env, timeout: TIMEOUT_MILLISECONDS };
  }
}

/** Every option, so that no #SBATCH line of the script counts. */
function sbatchArguments(job: BatchJob): string[] {
  return [
    "--parsable",
    `--job-name=${job.name}`,
    `--comment=${job.key}`,
    `--nodes=${job.nodes}`,
    "--ntasks-per-node=1",
    ...(job.gpusPerNode > 0 ? [`--gres=gpu:${job.gpusPerNode}`] : []),
    "--exclusive",
    "--mem=0",
    `--partition=${job.partition}`,
    `--account=${job.account}`,
    `--time=${limitMinutes(job)}`,
    ...(job.signal === null ? [] : [`--signal=${job.signal}`]),
    "--requeue",
    "--open-mode=append",
    "--dependency=singleton",
    `--chdir=${job.workingDirectory}`,
    `--output=${job.logPath}`,
    `--error=${job.logPath}`,
    "--export-file=3",
  ];
}

/** Whether the command ran and said no; else it is missing or was stopped. */
function isExit(error: unknown): boolean {
  return (error as ExecaError).exitCode !== undefined;
}

/** "sbatch: error: Batch job submission failed: Invalid partition name specified" → its words. */
function wordsOfCommand(error: unknown): string {
  const { stderr, originalMessage, shortMessage, timedOut } = error as ExecaError;
  const words = typeof stderr === "string" ? stderr.replaceAll(/^\w+: (error: )?/gm, "").trim() : "";
  if (timedOut || words === "") return originalMessage || shortMessage;
  return words.replaceAll(/\n+/g, "; ");
}
