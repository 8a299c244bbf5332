/**
 * Checkpoints: a trainer's output folder, or a cluster's exported model → full models in the object store, with digest and lineage.
 * Takes folders and an ObjectStore; returns Checkpoint records.
 * Reads the trainer's folder and the model's; writes only below `checkpoints/` of the store.
 */
export {
  findCheckpoint,
  folderOf,
  isUnchanged,
  listCheckpoints,
  type PublishCheckpoint,
  publishCheckpoint,
  type RecordCheckpoint,
  readProbe,
  recordCheckpoint,
} from "./checkpoint-store.ts";
export { digestFiles, hashFiles } from "./files.ts";
export { readManifest, readProbeFile } from "./manifest.ts";
export { verifyModelFolder } from "./model-folder.ts";
export { CompleteMarker, type CompleteStep, findComplete, type TornStep, verifyStep } from "./trainer-output.ts";
