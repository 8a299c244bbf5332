/**
 * Code digest: source folders → one digest, so that a service is replaced when the code it runs has changed.
 * In: files of the clone. Out: a digest that is the same in every clone with the same files. Reads only.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestBytes, digestJson } from "../../schemas/digest.ts";

// Tests and caches do not change what a service does.
const IRRELEVANT = /(^|\/)(__pycache__|node_modules|\.[^/]*)(\/|$)|\.test\.tsx?$|\.pyc$|(^|\/)test_[^/]*\.py$/;

/** Digest of every relevant file under these folders or files of a clone. A path that does not exist is left out. */
export async function codeDigest(root: string, paths: readonly string[]): Promise<Digest> {
  const files: Record<string, Digest> = {};
  for (const path of paths) {
    for (const file of await filesUnder(root, path)) files[file] = digestBytes(await readFile(join(root, file)));
  }
  return digestJson(files);
}

async function filesUnder(root: string, path: string): Promise<string[]> {
  let entries: Awaited<ReturnType<typeof readEntries>>;
  try {
    entries = await readEntries(join(root, path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOTDIR") return [path];
    if (code === "ENOENT") return [];
    throw error;
  }
  const nested = await Promise.all(
    entries.map(async (entry) => {
      const inner = `${path}/${entry.name}`;
      if (IRRELEVANT.test(inner)) return [];
      return entry.isDirectory() ? filesUnder(root, inner) : entry.isFile() ? [inner] : [];
    }),
  );
  return nested.flat();
}

function readEntries(folder: string) {
  return readdir(folder, { withFileTypes: true });
}
