/**
 * NeMo-RL's run → how far it is, and what its rollouts solved. Reads the job's log, into which rl.sh copies what the driver prints,
 * and the run's folder: the driver writes a file of samples a step, checkpoints get their name when they are whole.
 */
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ifAbsent, LogLines } from "../log-lines.ts";
import type { ProgressReader, RolloutOutcome, StageLog, StepMetrics } from "../trainer.ts";

/** The configuration's logger.log_dir. */
const LOGS = "logs/rl";

// The driver's lines of a step, in their order (nemo_rl/algorithms/grpo.py). "Step N/M" counts within an epoch, the
// name of the file of samples counts all steps.
const SAMPLES = /Logged data to \S*\btrain_data_step(\d+)\.jsonl/;
const LOSS = /• Loss: (\S+)/;
const REWARD = /• Avg Reward: (\S+)/;
const SECONDS = /• Total step time: ([\d.]+)s/;
const STEP_BEGINS = /={25} Step \d+\/\d+ ={25}/;

/** The steps in the log of a GRPO job; a step that was made again after a restart counts as it was made last. */
export function nemoRlProgress({ logPath, steps }: StageLog): ProgressReader {
  const log = new LogLines(logPath);
  const metrics = new Map<number, StepMetrics>();
  let isTraining = false;
  let open: { step: number; loss: number | null; reward: number | null } | null = null;
  const take = (line: string) => {
    if (STEP_BEGINS.test(line)) isTraining = true;
    const step = SAMPLES.exec(line)?.[1];
    if (step !== undefined) open = { step: Number(step), loss: null, reward: null };
    if (open === null) return;
    const [loss, reward, seconds] = [LOSS, REWARD, SECONDS].map((one) => numberIn(one, line));
    open.loss = loss ?? open.loss;
    open.reward = reward ?? open.reward;
    if (seconds === null || seconds === undefined) return;
    metrics.set(open.step, { ...open, steps, attemptsLost: null, seconds });
    open = null;
  };
  return {
    async read() {
      await log.read(take);
      return {
        phase: isTraining ? "training" : null,
        metrics: [...metrics.values()].sort((a, b) => a.step - b.step),
      };
    },
  };
}

function numberIn(pattern: RegExp, line: string): number | null {
  const found = Number(pattern.exec(line)?.[1] ?? Number.NaN);
  return Number.isFinite(found) ? found : null;
}

/** The steps whose checkpoints are whole; the same rule as launch/files/steps-rl.sh. */
export async function nemoRlSavedSteps(runDir: string): Promise<number[]> {
  const names = await namesIn(join(runDir, "trainer/rl"));
  return names
    .flatMap((name) => /^step_(\d+)$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
}

/**
 * How every rollout that was trained on ended, from the files of samples: GBs where contexts are long, so once, at the
 * end. A row names its task in agent_ref, which NeMo-RL copies from our data; a sample without weight in the loss is one
 * that the infrastructure spoilt. None where the recipe's overrides have NeMo-RL write no such files.
 */
export async function nemoRlOutcomes(runDir: string): Promise<RolloutOutcome[]> {
  const outcomes: RolloutOutcome[] = [];
  for (const [step, path] of await sampleFiles(runDir)) {
    // Only ASCII is looked for, and a line is as long as its sample's tokens, masks and probabilities together.
    const lines = createInterface({ input: createReadStream(path, { encoding: "latin1" }), crlfDelay: Infinity });
    for await (const line of lines) {
      const taskId = /"task_id": ?"([^"]+)"/.exec(line.slice(0, 1000))?.[1];
      const [reward, weight] = [memberOf(line, "rewards"), memberOf(line, "sample_loss_mask")];
      if (taskId === undefined || reward === null) continue;
      outcomes.push({ step, taskId, outcome: weight === 0 ? "infrastructure" : reward >= 1 ? "passed" : "failed" });
    }
  }
  return outcomes;
}

/** The one number of a member that is a list of one. Quotes inside a text are escaped, so a text never looks like it. */
function memberOf(line: string, name: string): number | null {
  const mark = `"${name}": [`;
  const at = line.indexOf(mark);
  const value = at < 0 ? Number.NaN : Number.parseFloat(line.slice(at + mark.length, at + mark.length + 30));
  return Number.isFinite(value) ? value : null;
}

/** Step → its file of samples. Each start writes to a folder of its own, exp_001, exp_002 …: the last that made it counts. */
async function sampleFiles(runDir: string): Promise<[number, string][]> {
  const folder = join(runDir, LOGS);
  const starts = (await namesIn(folder)).flatMap((name) => /^exp_(\d+)$/.exec(name)?.[0] ?? []);
  starts.sort((a, b) => Number(a.slice(4)) - Number(b.slice(4)));
  const files = new Map<number, string>();
  for (const start of starts)
    for (const name of await namesIn(join(folder, start))) {
      const step = /^train_data_step(\d+)\.jsonl$/.exec(name)?.[1];
      if (step !== undefined) files.set(Number(step), join(folder, start, name));
    }
  return [...files].sort(([a], [b]) => a - b);
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(ifAbsent([]));
}
