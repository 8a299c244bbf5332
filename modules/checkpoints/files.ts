/**
 * Files: a model's folder → its files with sizes and hashes, and the digest of them all.
 * Takes a folder; reads only. Names that start with a dot (caches, temporary files) are not part of a model.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { CheckpointFile } from "../../schemas/checkpoint.ts";
import { type Digest, digestJson } from "../../schemas/digest.ts";

/** Every file of a model's folder, by path. */
export async function hashFiles(folder: string): Promise<CheckpointFile[]> {
  const files: CheckpointFile[] = [];
  for (const path of await listFiles(folder)) {
    const full = join(folder, path);
    files.push({ path, bytes: (await stat(full)).size, sha256: await hashFile(full) });
  }
  return files;
}

/** The digest of a model: of its files' paths, sizes and hashes, whatever their order. */
export function digestFiles(files: readonly CheckpointFile[]): Digest {
  return digestJson(
    [...files].sort((a, b) => (a.path < b.path ? -1 : 1)).map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })),
  );
}

/** A file's SHA-256, 64 hex digits, without reading it into memory at once. */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

/** Whether a path in a record stays below the folder it is relative to. */
export function isInside(path: string): boolean {
  return (
    path !== "" &&
    !path.startsWith("/") &&
    path.split("/").every((part) => part !== "" && part !== "." && part !== "..")
  );
}

async function listFiles(folder: string, prefix = ""): Promise<string[]> {
  const paths: string[] = [];
  for (const entry of await readdir(join(folder, prefix), { withFileTypes: true })) {
    if (entry.name.startsWith(".")) continue;
    const path = `${prefix}${entry.name}`;
    const kind = entry.isSymbolicLink() ? await stat(join(folder, path)) : entry;
    if (kind.isDirectory()) paths.push(...(await listFiles(folder, `${path}/`)));
    else if (kind.isFile()) paths.push(path);
  }
  return paths.sort();
}
