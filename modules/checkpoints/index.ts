/**
 * Checkpoints: a trainer's output folder → full models in the object store, with digest and lineage.
 * Takes folders and an ObjectStore; returns Checkpoint records.
 * Reads the trainer's folder and the model's; writes only below `checkpoints/` of the store.
 */
export {
  findCheckpoint,
  folderOf,
  listCheckpoints,
  type PublishCheckpoint,
  publishCheckpoint,
  readProbe,
} from "./checkpoint-store.ts";
export { digestFiles, hashFiles } from "./files.ts";
export { verifyModelFolder } from "./model-folder.ts";
export { CompleteMarker, type CompleteStep, findComplete, type TornStep, verifyStep } from "./trainer-output.ts";
