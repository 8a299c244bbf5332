/**
 * Checkpoint store: a full model's folder → a Checkpoint in the object store, and back.
 * Reads the folder, writes `checkpoints/<short digest>/model/…` and, last, `checkpoints/<short digest>/checkpoint.json`:
 * without that record an upload does not count, and doing it again finishes it. A cluster's model is recorded where it lies.
 */
import { join } from "node:path";
import type { z } from "zod";
import { Checkpoint, type CheckpointFile, RenderingProbe, type Stage } from "../../schemas/checkpoint.ts";
import { type Digest, shortDigest } from "../../schemas/digest.ts";
import { fromZod, UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { digestFiles, hashFile, hashFiles } from "./files.ts";
import { changedFiles, PROBE } from "./manifest.ts";
import { verifyModelFolder } from "./model-folder.ts";

const ROOT = "checkpoints";
const RECORD = "checkpoint.json";
const RECORD_UNREADABLE = "checkpoint-record";

/** What a model is called, and where it came from. */
interface Lineage {
  store: ObjectStore;
  name: string;
  stage: Stage;
  step: number;
  runId: string | null;
  /** Checkpoint its training started from; null for a base model. */
  parent: Digest | null;
  /** The base model at the root of its lineage; null if this is one. */
  base: Digest | null;
  now: () => Date;
}

/** A model to keep. */
export interface PublishCheckpoint extends Lineage {
  modelDir: string;
}

/** A model that stays where it is, and what a job on the cluster has found out about it. */
export interface RecordCheckpoint extends Lineage {
  /** The model's folder as a prefix of the store, e.g. "runs/r1/checkpoints/rl-40". */
  prefix: string;
  /** Every file with its hash, from the job's manifest. */
  files: readonly CheckpointFile[];
  probe: RenderingProbe;
}

/**
 * Verifies a model, uploads it, reads back what was uploaded, and records it. The same files give the same record:
 * publishing again, or after an interruption, changes nothing that was already right.
 */
export async function publishCheckpoint(input: PublishCheckpoint): Promise<Checkpoint> {
  const { store } = input;
  await verifyModelFolder(input.modelDir);
  const files = await hashFiles(input.modelDir);
  const digest = digestFiles(files);
  const known = await recorded(store, digest);
  if (known !== null) return known;
  const checkpoint = checkpointOf(input, digest, files, `${homeOf(digest)}/model`);
  for (const file of files) await store.putFile(`${checkpoint.prefix}/${file.path}`, join(input.modelDir, file.path));
  await verifyStored(checkpoint, store);
  await writeRecord(store, checkpoint);
  return checkpoint;
}

/**
 * Records a model that lies in the store already and was hashed and verified there: nothing is copied or read again but the
 * files' sizes. Its probe goes beside the record, which is written last. The same files give the same record.
 */
export async function recordCheckpoint(input: RecordCheckpoint): Promise<Checkpoint> {
  const { store, files, prefix, probe } = input;
  const digest = digestFiles(files);
  const known = await recorded(store, digest);
  // One whose folder was removed is recorded anew, where its files are now.
  if (known !== null && (await isUnchanged(known, store))) return known;
  const checkpoint = checkpointOf(input, digest, [...files], prefix);
  const changed = await changedFiles(await store.folder(prefix), files);
  if (changed.length > 0) throw corrupt(checkpoint, `${changed.join(", ")} missing or of another size`);
  await store.put(`${homeOf(digest)}/${PROBE}`, `${JSON.stringify(probe)}\n`);
  await writeRecord(store, checkpoint);
  return checkpoint;
}

/**
 * Whether a recorded model's files are where its record says, of their sizes, and not written since: a look at the files' entries,
 * where hashing them would take minutes.
 */
export async function isUnchanged({ prefix, files, createdAt }: Checkpoint, store: ObjectStore): Promise<boolean> {
  const folder = await store.folder(prefix).catch(() => null);
  return folder !== null && (await changedFiles(folder, files, Date.parse(createdAt))).length === 0;
}

function homeOf(digest: Digest): string {
  return `${ROOT}/${shortDigest(digest)}`;
}

async function recorded(store: ObjectStore, digest: Digest): Promise<Checkpoint | null> {
  const key = `${homeOf(digest)}/${RECORD}`;
  if (!(await store.exists(key))) return null;
  const known = await readRecord(store, key);
  if (known.digest === digest) return known;
  throw new Error(`two checkpoints share the short digest ${shortDigest(digest)}: ${known.digest}, ${digest}`);
}

function checkpointOf(input: Lineage, digest: Digest, files: CheckpointFile[], prefix: string): Checkpoint {
  const { name, stage, step, runId, parent, base, now } = input;
  return {
    ...{ schemaVersion: 1, digest, name, stage, step, runId, parent, base: base ?? digest, files, prefix },
    createdAt: now().toISOString(),
  };
}

async function writeRecord(store: ObjectStore, checkpoint: Checkpoint): Promise<void> {
  await store.put(`${homeOf(checkpoint.digest)}/${RECORD}`, `${JSON.stringify(checkpoint, null, 2)}\n`);
}

/**
 * Every recorded checkpoint, oldest first. Uploads without a record are not listed: they never finished. A record that is none
 * is warned of and left out, so that one of them does not hold up the use of all others.
 */
export async function listCheckpoints(store: ObjectStore): Promise<Checkpoint[]> {
  const { checkpoints, unreadable } = await readRecords(store);
  for (const { error } of unreadable) process.emitWarning(error.message, "CheckpointRecordWarning");
  return checkpoints;
}

/** All records, oldest first, and the keys that hold something else. */
async function readRecords(store: ObjectStore) {
  const keys = (await store.list(`${ROOT}/`)).filter((key) => new RegExp(`^${ROOT}/[0-9a-f]{12}/${RECORD}$`).test(key));
  const unreadable: { key: string; error: UserError }[] = [];
  const read = async (key: string) => {
    try {
      return [await readRecord(store, key)];
    } catch (error) {
      // A store that does not answer says nothing of its records.
      if (!(error instanceof UserError && error.code === RECORD_UNREADABLE)) throw error;
      unreadable.push({ key, error });
      return [];
    }
  };
  const checkpoints = (await Promise.all(keys.map(read))).flat();
  checkpoints.sort((a, b) =>
    a.createdAt === b.createdAt ? (a.digest < b.digest ? -1 : 1) : a.createdAt < b.createdAt ? -1 : 1,
  );
  return { checkpoints, unreadable };
}

/**
 * One checkpoint by its digest, or by the first digits of it; UserError `checkpoint-unknown` or `checkpoint-ambiguous`, or
 * `checkpoint-record` where the record of that digest cannot be read.
 */
export async function findCheckpoint(store: ObjectStore, reference: string): Promise<Checkpoint> {
  const { checkpoints: all, unreadable } = await readRecords(store);
  const wanted = reference.replace(/^sha256:/, "");
  const found = all.filter(
    ({ digest, name }) => name === reference || (wanted.length >= 4 && digest.startsWith(`sha256:${wanted}`)),
  );
  const only = found.length === 1 ? found[0] : undefined;
  if (only !== undefined) return only;
  const broken = unreadable.find(({ key }) => wanted.length >= 4 && key.startsWith(`${ROOT}/${wanted.slice(0, 12)}`));
  if (found.length === 0 && broken) throw broken.error;
  throw new UserError({
    code: found.length === 0 ? "checkpoint-unknown" : "checkpoint-ambiguous",
    path: reference,
    asked: "this checkpoint was asked for",
    found:
      found.length === 0
        ? "no checkpoint has this digest or name"
        : `${found.length} checkpoints do: ${found.map((one) => shortDigest(one.digest)).join(", ")}`,
    allowed:
      all.length === 0
        ? "none yet: train a recipe first"
        : `${all
            .slice(-8)
            .map((one) => `${shortDigest(one.digest)} (${one.name})`)
            .join(", ")}`,
    todo: "give a digest, at least its first 4 digits, or an exact name",
  });
}

/** A local folder with the checkpoint's model, after checking that every file is there with its recorded content. */
export async function folderOf(checkpoint: Checkpoint, store: ObjectStore): Promise<string> {
  return verifyStored(checkpoint, store);
}

/** The checkpoint's rendering probe: the one beside its record, else the one in the model's folder. */
export async function readProbe(checkpoint: Checkpoint, store: ObjectStore): Promise<RenderingProbe> {
  const key = `${homeOf(checkpoint.digest)}/${PROBE}`;
  if (!(await store.exists(key))) return verifyModelFolder(await store.folder(checkpoint.prefix));
  return parsed(store, key, RenderingProbe);
}

async function verifyStored(checkpoint: Checkpoint, store: ObjectStore): Promise<string> {
  const folder = await store.folder(checkpoint.prefix);
  const wrong: string[] = [];
  for (const file of checkpoint.files) {
    const stored = await hashFile(join(folder, file.path)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "missing";
      throw error;
    });
    if (stored !== file.sha256)
      wrong.push(stored === "missing" ? `${file.path} is missing` : `${file.path} has another content`);
  }
  if (wrong.length === 0) return folder;
  throw corrupt(checkpoint, wrong.join("; "));
}

function corrupt({ prefix, name, digest }: Checkpoint, found: string): UserError {
  return new UserError({
    code: "checkpoint-corrupt",
    path: prefix,
    asked: `the checkpoint ${name} (${shortDigest(digest)}) was to be used`,
    found,
    allowed: "the files its record names, unchanged",
    todo: `remove ${prefix} and its record from the object store and publish it again`,
  });
}

async function readRecord(store: ObjectStore, key: string): Promise<Checkpoint> {
  return parsed(store, key, Checkpoint);
}

async function parsed<T>(store: ObjectStore, key: string, schema: z.ZodType<T>): Promise<T> {
  const text = new TextDecoder().decode(await store.get(key));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Not JSON is not a record either; the schema says so below.
    value = text;
  }
  const record = schema.safeParse(value);
  if (record.success) return record.data;
  throw fromZod(record.error, key, RECORD_UNREADABLE);
}
