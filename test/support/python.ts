/**
 * The trainers' Python as tools/setup.sh makes it.
 */
import { homedir } from "node:os";
import { join } from "node:path";
import { trainersToolchain } from "../../stacks/toolchain.ts";

/** Path of the interpreter. */
export async function trainersPython(): Promise<string> {
  const cache = process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift");
  return (await trainersToolchain(join(import.meta.dirname, "../.."), cache)).python;
}
