/**
 * Whole file: a path and bytes → a file that readers, and the next start after a kill, see complete or not at all.
 * Writes that file, readable by its owner only: some of them are what the grader compares with.
 */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { digestBytes, shortDigest } from "../../schemas/digest.ts";

/** Writes aside, then renames. */
export async function writeWhole(path: string, bytes: Uint8Array | string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.${randomUUID()}.part`;
  await writeFile(aside, bytes, { mode: 0o600 });
  await rename(aside, path);
}

/** Writes bytes under a name that says its content, once; returns the path. */
export async function stageFile(folder: string, name: string, bytes: Uint8Array): Promise<string> {
  const path = join(folder, `${shortDigest(digestBytes(bytes))}-${name}`);
  if (existsSync(path)) return path;
  await writeWhole(path, bytes);
  return path;
}
