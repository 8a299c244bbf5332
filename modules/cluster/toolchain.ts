/**
 * Toolchain: the trainers' Python, made by tools/setup.sh and only checked here.
 * In: its path and the modules it must have. Out: nothing, or a UserError. Runs that Python once (0.1 s, no imports).
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { z } from "zod";
import { UserError } from "../../schemas/error.ts";

export const ToolchainInputs = z.object({
  kind: z.literal("toolchain"),
  python: z.string(),
  /** Digest of the lock file it was made from: another lock, another toolchain. */
  lockDigest: z.string(),
  /** Python modules that must be there, e.g. "trl". */
  modules: z.array(z.string()),
});
export type ToolchainInputs = z.infer<typeof ToolchainInputs>;

const FIND_MISSING =
  "import importlib.util, sys; print(' '.join(m for m in sys.argv[1:] if importlib.util.find_spec(m) is None))";

/** Why the toolchain cannot be used; null when it can. */
export async function toolchainFault({ python, modules }: ToolchainInputs): Promise<string | null> {
  try {
    // Not execa: the driver that calls this is started anew for each resource, and loading execa would be half its cost.
    const { stdout } = await promisify(execFile)(python, ["-c", FIND_MISSING, ...modules], { timeout: 60_000 });
    return stdout.trim() === "" ? null : `${python} lacks ${stdout.trim().split(" ").join(", ")}`;
  } catch (error) {
    return `${python} does not run (${(error as Error).message.split("\n")[0]})`;
  }
}

/** Throws with the remedy when the toolchain cannot be used. */
export async function requireToolchain(inputs: ToolchainInputs): Promise<void> {
  const fault = await toolchainFault(inputs);
  if (fault === null) return;
  throw new UserError({
    code: "toolchain-missing",
    path: "toolchain",
    asked: "the trainers' Python is needed",
    found: fault,
    allowed: "the environment that tools/setup.sh makes from modules/trainers/trl/requirements.lock",
    todo: "run `npm run setup`",
  });
}
