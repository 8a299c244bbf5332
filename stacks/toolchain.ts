/**
 * Trainers' toolchain: lock file → where tools/setup.sh puts the Python made from it. Reads the lock file only.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { LocalPlatformArgs } from "../modules/cluster/component.ts";
import { digestBytes, shortDigest } from "../schemas/digest.ts";

/** The trainers' Python of this clone, in the cache folder of tools/setup.sh. */
export async function trainersToolchain(root: string, cache: string): Promise<LocalPlatformArgs["toolchain"]> {
  const lockDigest = digestBytes(await readFile(join(root, "modules/trainers/trl/requirements.lock")));
  return {
    python: join(cache, `python-${shortDigest(lockDigest)}`, "bin", "python"),
    lockDigest,
    modules: ["torch", "transformers", "trl", "peft"],
  };
}
