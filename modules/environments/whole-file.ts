/**
 * Whole file: a path and bytes → a file that readers, and the next start after a kill, see complete or not at all.
 * Writes that file, readable by its owner only: some of them are what the grader compares with.
 */
import { randomUUID } from "node:crypto";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes aside, then renames. */
export async function writeWhole(path: string, bytes: Uint8Array | string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.${randomUUID()}.part`;
  await writeFile(aside, bytes, { mode: 0o600 });
  await rename(aside, path);
}
