/**
 * Checkpoint store: a full model's folder → a Checkpoint in the object store, and back.
 * Reads the folder, writes `checkpoints/<short digest>/model/…` and, last, `checkpoints/<short digest>/checkpoint.json`:
 * without that record an upload does not count, and doing it again finishes it.
 */
import { join } from "node:path";
import { Checkpoint, type RenderingProbe, type Stage } from "../../schemas/checkpoint.ts";
import { type Digest, shortDigest } from "../../schemas/digest.ts";
import { fromZod, UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { digestFiles, hashFile, hashFiles } from "./files.ts";
import { verifyModelFolder } from "./model-folder.ts";

const ROOT = "checkpoints";
const RECORD = "checkpoint.json";

/** A model to keep, and where it came from. */
export interface PublishCheckpoint {
  modelDir: string;
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

/**
 * Verifies a model, uploads it, reads back what was uploaded, and records it. The same files give the same record:
 * publishing again, or after an interruption, changes nothing that was already right.
 */
export async function publishCheckpoint(input: PublishCheckpoint): Promise<Checkpoint> {
  const { store } = input;
  await verifyModelFolder(input.modelDir);
  const files = await hashFiles(input.modelDir);
  const digest = digestFiles(files);
  const home = `${ROOT}/${shortDigest(digest)}`;
  if (await store.exists(`${home}/${RECORD}`)) {
    const known = await readRecord(store, `${home}/${RECORD}`);
    if (known.digest !== digest)
      throw new Error(`two checkpoints share the short digest ${shortDigest(digest)}: ${known.digest}, ${digest}`);
    return known;
  }
  const checkpoint: Checkpoint = {
    schemaVersion: 1,
    digest,
    name: input.name,
    stage: input.stage,
    step: input.step,
    runId: input.runId,
    parent: input.parent,
    base: input.base ?? digest,
    files,
    prefix: `${home}/model`,
    createdAt: input.now().toISOString(),
  };
  for (const file of files) await store.putFile(`${checkpoint.prefix}/${file.path}`, join(input.modelDir, file.path));
  await verifyStored(checkpoint, store);
  await store.put(`${home}/${RECORD}`, `${JSON.stringify(checkpoint, null, 2)}\n`);
  return checkpoint;
}

/** Every recorded checkpoint, oldest first. Uploads without a record are not listed: they never finished. */
export async function listCheckpoints(store: ObjectStore): Promise<Checkpoint[]> {
  const records = (await store.list(`${ROOT}/`)).filter((key) =>
    new RegExp(`^${ROOT}/[0-9a-f]{12}/${RECORD}$`).test(key),
  );
  const checkpoints = await Promise.all(records.map((key) => readRecord(store, key)));
  return checkpoints.sort((a, b) =>
    a.createdAt === b.createdAt ? (a.digest < b.digest ? -1 : 1) : a.createdAt < b.createdAt ? -1 : 1,
  );
}

/** One checkpoint by its digest, or by the first digits of it; UserError `checkpoint-unknown` or `checkpoint-ambiguous`. */
export async function findCheckpoint(store: ObjectStore, reference: string): Promise<Checkpoint> {
  const all = await listCheckpoints(store);
  const wanted = reference.replace(/^sha256:/, "");
  const found = all.filter(
    ({ digest, name }) => name === reference || (wanted.length >= 4 && digest.startsWith(`sha256:${wanted}`)),
  );
  const only = found.length === 1 ? found[0] : undefined;
  if (only !== undefined) return only;
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

/** The checkpoint's rendering probe. */
export async function readProbe(checkpoint: Checkpoint, store: ObjectStore): Promise<RenderingProbe> {
  return verifyModelFolder(await store.folder(checkpoint.prefix));
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
  throw new UserError({
    code: "checkpoint-corrupt",
    path: checkpoint.prefix,
    asked: `the checkpoint ${checkpoint.name} (${shortDigest(checkpoint.digest)}) was to be used`,
    found: wrong.join("; "),
    allowed: "the files its record names, unchanged",
    todo: `remove ${checkpoint.prefix} and its record from the object store and publish it again`,
  });
}

async function readRecord(store: ObjectStore, key: string): Promise<Checkpoint> {
  const text = new TextDecoder().decode(await store.get(key));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Not JSON is not a record either; the schema says so below.
    value = text;
  }
  const record = Checkpoint.safeParse(value);
  if (record.success) return record.data;
  throw fromZod(record.error, key, "checkpoint-record");
}
