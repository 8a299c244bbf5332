/**
 * Manifest: what a cluster's checkpoint job says of a model that it has hashed and verified on shared storage.
 * Takes folders; reads them only, and no weights.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { type CheckpointFile, MODEL_MANIFEST, ModelManifest, RenderingProbe } from "../../schemas/checkpoint.ts";
import { fromZod } from "../../schemas/error.ts";

/** Name of the probe, in a model's folder or beside a record. */
export const PROBE = "rendering-probe.json";

/** A folder's manifest; null where its job has not finished. UserError `checkpoint-record` where it is none. */
export async function readManifest(folder: string): Promise<ModelManifest | null> {
  return readAs(join(folder, MODEL_MANIFEST), ModelManifest);
}

/** The probe that lies in a folder; null where there is none. UserError `checkpoint-record` where it is none. */
export async function readProbeFile(folder: string): Promise<RenderingProbe | null> {
  return readAs(join(folder, PROBE), RenderingProbe);
}

/** Which of a model's files are gone, have another size, or were written after `since` (a time, milliseconds). */
export async function changedFiles(
  folder: string,
  files: readonly CheckpointFile[],
  since = Number.POSITIVE_INFINITY,
): Promise<string[]> {
  const changed = await Promise.all(
    files.map(async ({ path, bytes }) => {
      const info = await stat(join(folder, path)).catch(() => null);
      return info?.size === bytes && Math.floor(info.mtimeMs) <= since ? [] : [path];
    }),
  );
  return changed.flat();
}

async function readAs<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return null;
  let value: unknown = text;
  try {
    value = JSON.parse(text);
  } catch {
    // Not JSON is not one either; the schema says so below.
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw fromZod(parsed.error, path, "checkpoint-record");
}
