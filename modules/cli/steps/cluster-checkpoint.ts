/**
 * Cluster checkpoint: a saved step → a merged, verified model in the run's folder, by a Slurm job, or the base model where it
 * lies; then its record. Weights are hashed on the nodes and never copied: a record's prefix is below the shared storage.
 */
import { join, relative } from "node:path";
import { modelFolder } from "../../../schemas/model.ts";
import type { Run } from "../../../schemas/run.ts";
import {
  isUnchanged,
  listCheckpoints,
  readManifest,
  readProbe,
  readProbeFile,
  recordCheckpoint,
} from "../../checkpoints/index.ts";
import type { StepContext, StepExecutor, StepStatus } from "../../runs/index.ts";
import { checkpointSize, trainers } from "../../trainers/index.ts";
import { lineageOf, notReady, probeConversations } from "./checkpoint.ts";
import { writeRunFiles } from "./cluster-files.ts";
import { type ClusterStepTools, clusterTarget, followBatch } from "./cluster-tools.ts";
import { stepIn } from "./outages.ts";
import { processKey } from "./step-tools.ts";

/** The executor. */
export function clusterCheckpoint(tools: ClusterStepTools): StepExecutor<"checkpoint"> {
  return {
    slots: 0,
    // Runs from the same base share its record: one hashes it, the others find it.
    sharedKey: ({ run, job }) =>
      job.train === null ? `base ${run.plan.baseModel.name} ${run.plan.baseModel.revision}` : null,
    made: async ({ run, job }) => (job.train === null ? recordedBase(tools, run) : null),
    async advance(context) {
      const { run, job } = context;
      const runDir = tools.layout.run(run.id);
      const folder = join(runDir, "checkpoints", job.id);
      const early = isStarted(context) ? null : notReady(run, job, await isSaved(runDir, job));
      return (
        early ??
        followBatch(tools, context, {
          size: checkpointSize(run.plan, clusterTarget(context), job),
          prepare: async () => writeRunFiles(tools, run, job.id, await dataOf(context)),
          isComplete: async () => (await readManifest(folder)) !== null,
          progress: async () => null,
          done: () => record(tools, context, folder),
        })
      );
    },
    cancel: (context) => tools.batch.cancel(processKey(context)),
  };
}

/** What its job reads was there when it was handed over. */
function isStarted(context: StepContext<"checkpoint">): boolean {
  const { state, handedOver } = stepIn(context);
  return state === "running" || handedOver;
}

async function isSaved(runDir: string, { stage, step }: StepContext<"checkpoint">["job"]): Promise<boolean> {
  return stage === "base" || (await trainers[stage].savedSteps(runDir)).includes(step);
}

async function dataOf({ run, job }: StepContext<"checkpoint">): Promise<Record<string, string>> {
  if (job.train !== null) return {};
  const conversations = await probeConversations(run.plan.recipe.tasks.family);
  return { "data/probe-conversations.json": JSON.stringify(conversations) };
}

/** Records what the job has made. Every checkpoint has its base's tokenizer byte for byte, so it has its base's probe too. */
async function record(
  tools: ClusterStepTools,
  context: StepContext<"checkpoint">,
  folder: string,
): Promise<StepStatus> {
  const { run, job } = context;
  const manifest = await readManifest(folder);
  if (manifest === null) return { kind: "failed", error: `it ended without ${folder}`, restart: true };
  const { name, stage, step } = job;
  const { store, now } = tools;
  const lineage = await lineageOf(tools, context);
  const probe =
    lineage.base === null ? await readProbeFile(folder) : await readProbe(await tools.checkpoint(lineage.base), store);
  if (probe === null)
    return { kind: "failed", error: `it ended without a rendering probe in ${folder}`, restart: true };
  const prefix = lineage.base === null ? basePrefix(tools, run) : relative(tools.mountPath, folder);
  const made = await recordCheckpoint({
    ...{ store, prefix, files: manifest.files, probe, name, stage, step, now },
    ...lineage,
  });
  return { kind: "succeeded", result: { checkpoint: made.digest, name: made.name } };
}

/** The base model's record, as long as its files are those that were hashed. */
async function recordedBase(tools: ClusterStepTools, run: Run): Promise<Record<string, unknown> | null> {
  const prefix = basePrefix(tools, run);
  // The newest first: a folder may have held another revision before.
  for (const one of (await listCheckpoints(tools.store)).reverse())
    if (one.stage === "base" && one.prefix === prefix && (await isUnchanged(one, tools.store)))
      return { checkpoint: one.digest, name: one.name };
  return null;
}

function basePrefix({ mountPath }: ClusterStepTools, { plan }: Run): string {
  return relative(mountPath, modelFolder(mountPath, plan.baseModel.name, plan.baseModel.revision));
}
