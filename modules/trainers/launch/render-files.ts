/**
 * Plan → every file that `uplift plan --out` writes besides plan.json, exactly as it will lie in the run's folder on the
 * node. Reads only the fixed texts of this folder: the same plan gives the same bytes.
 */
import { canonicalJson, digestBytes, shortDigest } from "../../../schemas/digest.ts";
import type { ServingSettings } from "../../../schemas/endpoint.ts";
import type { Job, TrainJob } from "../../../schemas/job.ts";
import type { ServingLayout } from "../../../schemas/layout.ts";
import { type Model, modelFacts, modelFolder } from "../../../schemas/model.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { batchScript, CHAT_DATA, NODE_CHECK } from "./batch-script.ts";
import { checkpointSize } from "./checkpoint-size.ts";
import { exportScript, FINISH_CHECKPOINT, type TrainedCheckpoint } from "./export-script.ts";
import { gymFiles } from "./gym-files.ts";
import { RUN_DIR } from "./launch-of.ts";
import { REGISTER_MODEL, registerScript } from "./register-script.ts";
import { mostRestarts } from "./restarts.ts";
import { servingScript } from "./serving-script.ts";
import { textOf } from "./texts.ts";
import { yamlText } from "./yaml-text.ts";

/** The arguments of `vllm serve`; modules/serving's vllmFlags, handed in because modules know nothing of each other. */
export type VllmFlags = (
  settings: ServingSettings,
  layout: ServingLayout,
  model: {
    readonly path: string;
    readonly servedName: string;
    readonly facts: Model | null;
  },
) => string[];

const KEY = /^[a-z0-9][a-z0-9.-]*$/;

/** Our name of a plan's job in Slurm, until whoever submits it gives the run's own. */
export function jobKey(plan: Plan, jobId: string): string {
  const key = `uplift-${plan.name}-${jobId}-${shortDigest(plan.digest)}`;
  if (!KEY.test(key)) throw new TypeError(`${key} is no job name that every Slurm takes`);
  return key;
}

/** File name → text. */
export function renderFiles(plan: Plan, vllmFlags: VllmFlags): Record<string, string> {
  const { target } = plan;
  const train = plan.jobs.filter((job): job is TrainJob => job.kind === "train");
  const files = new Map<string, string>();
  const add = (more: Record<string, string>) => {
    for (const [name, text] of Object.entries(more)) files.set(name, text);
  };
  if (train.some(({ trainer }) => trainer === "automodel")) add({ [CHAT_DATA]: textOf("chat_data.py") });
  for (const job of train) add(target.kind === "local" ? localFiles(job) : clusterFiles(plan, job, target));
  if (target.kind !== "local") {
    add(gymFiles(plan.recipe, target));
    add({ [NODE_CHECK]: textOf("node-check.sh"), [FINISH_CHECKPOINT]: textOf("finish_checkpoint.py") });
    add({ [REGISTER_MODEL]: textOf("register_model.py") });
    add(registerFiles(plan, target));
    add(exportFiles(plan, target));
    add(servingFiles(plan, target, vllmFlags));
  }
  return Object.fromEntries([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function localFiles(job: TrainJob): Record<string, string> {
  const sorted: unknown = JSON.parse(canonicalJson(job.config));
  return { [`config/${job.id}.trl.json`]: `${JSON.stringify(sorted, null, 2)}\n` };
}

/** A stage's configuration as it lies on the node. */
function configText(plan: Plan, { config, stage, trainer }: TrainJob): string {
  return yamlText(config, [
    `${trainer === "automodel" ? "NeMo Automodel" : "NeMo-RL"}'s configuration of ${plan.name}, stage ${stage}.`,
    "Written by uplift from a plan: change the recipe, not this file.",
  ]);
}

function hexDigest(text: string): string {
  return digestBytes(text).slice("sha256:".length);
}

/** Commit that the model a stage starts from has to be of; null where it is a checkpoint, or none is pinned. */
function startRevision(plan: Plan, job: TrainJob): string | null {
  return job.startFrom === "base" ? plan.baseModel.revision : null;
}

function clusterFiles(plan: Plan, job: TrainJob, target: ClusterTarget): Record<string, string> {
  const { launch, trainer } = job;
  if (launch === null || trainer === "trl") throw new TypeError(`job ${job.id} of a cluster's plan has no launch`);
  const config = configText(plan, job);
  const key = jobKey(plan, job.id);
  return {
    [`config/${job.id}.${trainer}.yaml`]: config,
    [`slurm/${job.id}.sbatch`]: batchScript({
      ...{ job, launch, target, key, configSha256: hexDigest(config) },
      ...{ revision: startRevision(plan, job), mostRestarts: mostRestarts(plan, job, launch) },
    }),
  };
}

/** The base model lies on shared storage as it is: it is only read. */
function registerFiles(plan: Plan, target: ClusterTarget): Record<string, string> {
  return Object.fromEntries(
    plan.jobs.flatMap((job) => {
      if (job.kind !== "checkpoint" || job.train !== null) return [];
      const { baseModel } = plan;
      const size = checkpointSize(plan, target, job);
      const script = registerScript({ jobId: job.id, baseModel, target, size, key: jobKey(plan, job.id) });
      return [[`slurm/${job.id}.sbatch`, script]];
    }),
  );
}

/** One job a checkpoint that a stage trained. */
function exportFiles(plan: Plan, target: ClusterTarget): Record<string, string> {
  const { recipe, contextTokens } = plan;
  const isTrained = (job: Job): job is TrainedCheckpoint => job.kind === "checkpoint" && job.train !== null;
  return Object.fromEntries(
    plan.jobs.filter(isTrained).map((checkpoint) => {
      const train = plan.jobs.find((job): job is TrainJob => job.kind === "train" && job.id === checkpoint.train);
      const model = modelFacts(plan.baseModel.name);
      if (!train || !model) throw new TypeError(`checkpoint ${checkpoint.id} has no train job, or its model no row`);
      const configSha256 = hexDigest(configText(plan, train));
      const key = jobKey(plan, checkpoint.id);
      const script = exportScript({
        ...{ checkpoint, train, recipe, model, contextTokens, target, key, configSha256 },
        ...{ revision: startRevision(plan, train), size: checkpointSize(plan, target, checkpoint) },
      });
      return [`slurm/${checkpoint.id}.sbatch`, script];
    }),
  );
}

function servingFiles(plan: Plan, target: ClusterTarget, vllmFlags: VllmFlags): Record<string, string> {
  const layout = plan.layouts.flatMap(({ layout: one }) => (one.kind === "serving" ? [one] : []))[0];
  if (!layout) return {};
  const facts = modelFacts(plan.baseModel.name);
  return Object.fromEntries(
    plan.jobs.flatMap((job) => {
      if (job.kind !== "evaluate") return [];
      const isBase = job.checkpoint === "base";
      const { name, revision } = plan.baseModel;
      const path = isBase
        ? modelFolder(target.storage.mountPath, name, revision)
        : `${RUN_DIR}/checkpoints/${job.checkpoint}`;
      const servedName = `${plan.name}-${job.checkpoint}`;
      const args = vllmFlags(plan.serving, layout, { path, servedName, facts });
      const script = servingScript(args, layout.gpusPerNode, servedName, isBase ? revision : null);
      return [[`serving/${job.checkpoint}.sh`, script]];
    }),
  );
}
