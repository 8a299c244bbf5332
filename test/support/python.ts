/**
 * The trainers' Python as tools/setup.sh makes it: the one whose name carries the lock file's digest.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { digestBytes, shortDigest } from "../../schemas/digest.ts";

/** Path of the interpreter. */
export async function trainersPython(): Promise<string> {
  const lock = await readFile(join(import.meta.dirname, "../../modules/trainers/trl/requirements.lock"));
  const cache = process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift");
  return join(cache, `python-${shortDigest(digestBytes(lock))}`, "bin", "python");
}
