/**
 * Automodel's run → how far it is: its steps from the job's log, its checkpoints from the run's folder. Reads only.
 * Not from training.jsonl beside the checkpoints: it is written a hundred steps at a time (loggers/metric_logger.py).
 */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { ifAbsent, LogLines } from "../log-lines.ts";
import type { ProgressReader, StageLog, StepMetrics } from "../trainer.ts";

/** What train_ft.py logs of every step. Automodel counts from 0: the recipe's step 40 is its step 39. */
const STEP = /\bstep (\d+) \| epoch \d+ \| loss (\S+) \|/;
/** Its log's time, the node's own: only differences are used. */
const TIME = /^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})/;
/** What start-checks.sh says at each start of the job. */
const STARTED = /^uplift: \S+: all start checks passed/;

/** The steps in the log of an SFT job; a step that was made twice counts as it was made last. */
export function automodelProgress({ logPath, steps }: StageLog): ProgressReader {
  const log = new LogLines(logPath);
  const metrics = new Map<number, StepMetrics>();
  let before: number | null = null;
  return {
    async read() {
      await log.read((line) => {
        if (STARTED.test(line)) before = null;
        const found = STEP.exec(line);
        if (!found) return;
        const [, date, time] = TIME.exec(line) ?? [];
        const at = date ? Date.parse(`${date}T${time}Z`) : null;
        const step = Number(found[1]) + 1;
        const loss = Number(found[2]);
        metrics.set(step, {
          ...{ step, steps, reward: null, attemptsLost: null },
          loss: Number.isFinite(loss) ? loss : null,
          seconds: at === null || before === null ? null : (at - before) / 1000,
        });
        before = at;
      });
      return {
        phase: metrics.size > 0 ? "training" : null,
        metrics: [...metrics.values()].sort((a, b) => a.step - b.step),
      };
    },
  };
}

/** The steps whose checkpoints are whole, as the recipe counts them; the same rule as launch/files/steps-sft.sh. */
export async function automodelSavedSteps(runDir: string): Promise<number[]> {
  const folder = join(runDir, "trainer/sft");
  const names = await readdir(folder).catch(ifAbsent([]));
  const saved = await Promise.all(
    names.map(async (name) => {
      const step = /^epoch_\d+_step_(\d+)$/.exec(name)?.[1];
      if (step === undefined) return [];
      const isCutOff = await stat(join(folder, name, ".incomplete")).then(() => true, ifAbsent(false));
      return isCutOff ? [] : [Number(step) + 1];
    }),
  );
  return saved.flat().sort((a, b) => a - b);
}
