/**
 * Collect: the expert acts on the run's tasks in real sandboxes → a file of trajectories, shared by every run that
 * asks for the same ones. A process of the scheduler; resumes from the trajectories it has.
 */
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { digestJson } from "../../../schemas/digest.ts";
import type { Job } from "../../../schemas/job.ts";
import type { Run } from "../../../schemas/run.ts";
import type { StepExecutor } from "../../runs/index.ts";
import { readTrajectories } from "../../tasks/index.ts";
import { endProcess, followProcess, type StepTools, taskSetFile } from "./step-tools.ts";

type CollectJob = Extract<Job, { kind: "collect" }>;

/** The file a collection's trajectories are in. */
export function trajectoriesFile(tools: StepTools, run: Run): string {
  const job = run.plan.jobs.find((candidate): candidate is CollectJob => candidate.kind === "collect");
  if (!job) throw new Error(`${run.id} has no collect job`);
  return join(tools.layout.collection(collectionKey(run, job)), "trajectories.jsonl");
}

/** Written when every trajectory is there; says how many. */
function markerOf(tools: StepTools, run: Run, job: CollectJob): string {
  return join(tools.layout.collection(collectionKey(run, job)), "complete.json");
}

const Counts = z.object({ trajectories: z.number(), passed: z.number(), infrastructure: z.number() });

function collectionKey(run: Run, job: CollectJob) {
  const { taskSet } = run.plan;
  const { expert, splits, attempts, seed } = job;
  return digestJson({ taskSet: taskSet.digest, expert, splits, attempts, seed });
}

/** The executor. */
export function collect(tools: StepTools): StepExecutor<"collect"> {
  return {
    slots: 1,
    sharedKey: ({ run, job }) => `collect ${collectionKey(run, job)}`,
    async made({ run, job }) {
      const made = await readFile(markerOf(tools, run, job), "utf8").catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return null;
        throw error;
      });
      return made === null ? null : Counts.parse(JSON.parse(made));
    },
    async advance(context) {
      const { run, job } = context;
      const file = trajectoriesFile(tools, run);
      const { train, heldOut, validation } = run.plan.taskSet;
      const size = { train, validation, "held-out": heldOut };
      const total = job.splits.reduce((sum, split) => sum + size[split], 0) * job.attempts;
      return followProcess(tools, context, {
        waitFor: tools.environmentOutage,
        // It exits 1 for a mistake of ours and 75 for an outage.
        final: [1],
        process: async () => {
          const code = await tools.codeOf(run);
          return {
            command: process.execPath,
            args: [
              ...["--import", "tsx", join(code, "modules/tasks/main.ts"), "collect"],
              ...["--task-set", await taskSetFile(tools, run), "--environment", tools.environmentsUrl],
              ...["--attempts", String(job.attempts), "--seed", String(job.seed), "--split", job.splits.join(",")],
              ...["--concurrency", String(job.concurrency), "--out", file],
            ],
            env: {},
            cwd: code,
          };
        },
        progress: async () => ({
          done: await countLines(file),
          total,
          unit: "trajectories",
          note: "",
          etaSeconds: null,
        }),
        done: async () => {
          const trajectories = await readTrajectories(file);
          const count = (kind: string) => trajectories.filter(({ outcome }) => outcome.kind === kind).length;
          const result = {
            trajectories: trajectories.length,
            passed: count("passed"),
            infrastructure: count("infrastructure"),
          };
          // By rename: a kill leaves the whole marker or none.
          const marker = markerOf(tools, run, job);
          await writeFile(`${marker}.new`, JSON.stringify(result));
          await rename(`${marker}.new`, marker);
          return { kind: "succeeded", result };
        },
      });
    },
    cancel: (context) => endProcess(tools, context),
  };
}

async function countLines(path: string): Promise<number> {
  const bytes = await readFile(path).catch(() => Buffer.alloc(0));
  return bytes.reduce((lines, byte) => lines + (byte === 10 ? 1 : 0), 0);
}
