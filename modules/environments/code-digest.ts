/**
 * Code digest: this module's own source → one digest, part of what every answer of the service depends on.
 * Comes in: the folder. Goes out: a digest that is the same in every checkout of the same code. Reads the folder.
 *
 * All of it counts, not a list of the files that decide something: such a list would miss the next one.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestBytes, digestJson } from "../../schemas/digest.ts";

/** The folder itself, and what it hands into sandboxes. */
const FOLDERS = [".", "payload"];
const SOURCE = /\.(ts|py)$/;
/** Tests, and what only tests use. */
const TEST = /\.test\.ts$|^test-|_test\.py$/;

/** Digest of the service's source files, tests left out, by path. */
export async function codeDigest(folder: string): Promise<Digest> {
  const files: Record<string, Digest> = {};
  for (const inner of FOLDERS) {
    for (const entry of await readdir(join(folder, inner), { withFileTypes: true })) {
      if (!entry.isFile() || !SOURCE.test(entry.name) || TEST.test(entry.name)) continue;
      files[join(inner, entry.name)] = digestBytes(await readFile(join(folder, inner, entry.name)));
    }
  }
  return digestJson(files);
}
