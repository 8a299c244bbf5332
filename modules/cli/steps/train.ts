/**
 * Train: one stage's process, from its configuration to its last checkpoint. A restart goes on from the trainer's
 * newest complete checkpoint, which the trainer finds by itself. What RL's rollouts solved is stored beside the run.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { UserError } from "../../../schemas/error.ts";
import type { TrainJob } from "../../../schemas/job.ts";
import type { Run } from "../../../schemas/run.ts";
import { findComplete, folderOf } from "../../checkpoints/index.ts";
import type { StepExecutor } from "../../runs/index.ts";
import { familyEntry, loadFamily, ratesOf } from "../../tasks/index.ts";
import { type TrainingInputs, trl } from "../../trainers/index.ts";
import { putPassRates, rolloutRatesKey } from "./pass-rates.ts";
import { rlTasksOf } from "./selection.ts";
import { endProcess, followProcess, type StepTools, taskSetOf } from "./step-tools.ts";
import { progressOf, summaryOf } from "./training-progress.ts";

/** The executor. */
export function train(tools: StepTools): StepExecutor<"train"> {
  return {
    slots: 1,
    sharedKey: () => null,
    async advance(context) {
      const { run, job } = context;
      if (job.trainer !== "trl") throw notHere(run, job);
      const outputDir = tools.layout.output(run.id, job.id);
      return followProcess(tools, context, {
        waitFor: async () => (job.stage === "rl" ? tools.environmentOutage() : null),
        process: async () => {
          const start = await tools.checkpoint(String(context.resultOf(job.startFrom).checkpoint));
          const inputs = await trainingInputs(tools, run, job, await folderOf(start, tools.store));
          const configPath = tools.layout.config(run.id, job.id);
          await mkdir(outputDir, { recursive: true });
          await writeFile(configPath, `${JSON.stringify(trl.completeConfig(job.config, inputs), null, 2)}\n`);
          const codeDir = await tools.codeOf(run);
          const { threads, python } = tools;
          return {
            ...trl.trainCommand({ python, codeDir, stage: job.stage, configPath, outputDir, threads }),
            cwd: outputDir,
          };
        },
        progress: async () => progressOf(job, await trl.readProgress(outputDir)),
        done: async () => {
          const { complete } = await findComplete(outputDir);
          if (!complete.some(({ step }) => step === job.steps))
            return { kind: "failed", error: `it ended without its last checkpoint, step ${job.steps}`, restart: true };
          const { metrics } = await trl.readProgress(outputDir);
          const passRates =
            job.stage === "rl" ? await storeOutcomes(tools, run, job, await trl.readOutcomes(outputDir)) : null;
          return { kind: "succeeded", result: { ...summaryOf(metrics), ...(passRates && { passRates }) } };
        },
      });
    },
    cancel: (context) => endProcess(tools, context),
  };
}

/** Keeps how often each task was solved while RL trained on it; the key under which a later run finds that. */
export async function storeOutcomes(
  tools: StepTools,
  run: Run,
  job: TrainJob,
  outcomes: Parameters<typeof ratesOf>[0],
): Promise<string> {
  const rates = ratesOf(outcomes);
  const key = rolloutRatesKey(run.id);
  const made = { runId: run.id, step: job.id, checkpoint: null, taskSet: run.plan.taskSet.digest };
  await putPassRates(tools.store, key, { ...made, rates });
  return key;
}

async function trainingInputs(tools: StepTools, run: Run, job: TrainJob, model: string): Promise<TrainingInputs> {
  const { threads } = tools;
  if (job.stage === "sft") return { model, threads, trajectories: tools.layout.sftTrajectories(run.id) };
  const [taskSet, tasks] = await Promise.all([taskSetOf(tools, run), rlTasksOf(tools, run)]);
  const chosen = new Set(tasks);
  const { family } = await loadFamily(familyEntry(taskSet.family.name).dir);
  return {
    model,
    threads,
    tasks,
    prompts: Object.fromEntries(taskSet.tasks.filter(({ id }) => chosen.has(id)).map(({ id, prompt }) => [id, prompt])),
    tools: family.tools,
    environment: { url: tools.environmentsUrl, taskSet: run.plan.taskSet.digest },
  };
}

function notHere(run: Run, job: TrainJob): UserError {
  return new UserError({
    code: "trainer-not-here",
    path: `${run.id}/${job.id}`,
    asked: `${job.id} is trained with ${job.trainer}`,
    found: `${run.plan.target.name} runs its jobs as processes of one machine, and that trainer needs a cluster`,
    allowed: "trl, the trainer of a local target",
    todo: "plan the recipe for a local target (--target local)",
  });
}
