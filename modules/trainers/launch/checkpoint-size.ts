/**
 * Checkpoint size: plan + checkpoint job → what its batch job asks Slurm for: one node's worth, and time by what is read
 * and written. Pure.
 */
import type { Job } from "../../../schemas/job.ts";
import { modelFacts } from "../../../schemas/model.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import type { BatchSize } from "./batch-script.ts";

/** Start of the image, import of its libraries, building the model: an upper bound, seconds. */
const SET_UP_SECONDS = 3600;
/**
 * Times a model's bytes are read or written. Export: the start model read, converted weights read, the result written, both
 * read to verify, once more at half the speed. The base: read once to hash it, at half the speed.
 */
const PASSES = { export: 10, register: 2 } as const;

/** One GPU of one node that nobody else uses, though a base model's job needs none: the images are made for those nodes. */
export function checkpointSize(
  plan: Pick<Plan, "baseModel">,
  target: ClusterTarget,
  job: Extract<Job, { kind: "checkpoint" }>,
): BatchSize {
  const model = modelFacts(plan.baseModel.name);
  // Two bytes a parameter: bfloat16.
  const bytes = model ? 2 * model.parameters : plan.baseModel.bytes;
  const passes = job.train === null ? PASSES.register : PASSES.export;
  const pass = bytes / (target.storage.readGbPerSecond * 1e9);
  const longest = SET_UP_SECONDS + Math.ceil((passes * pass) / 60) * 60;
  const { partition, account, maxWalltimeHours } = target.slurm;
  return {
    ...{ nodes: 1, gpusPerNode: 1, partition, account, signal: null },
    // The partition's limit bounds it.
    walltimeSeconds: Math.min(longest, Math.floor(maxWalltimeHours * 3600)),
  };
}
