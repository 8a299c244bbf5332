/**
 * Home: the folder of a target's state → whether Uplift may use it, and what of it may be deleted.
 * In: paths. Out: a UserError, or nothing. Looks at the folder; deletes results when it is told to.
 */
import { access, readdir, realpath, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join, relative, resolve } from "node:path";
import { UserError } from "../schemas/error.ts";
import type { ClusterTarget } from "../schemas/target.ts";

/** The engine's own state within a home; it outlives results. */
export const STATE_FOLDER = "pulumi";

/** Folder of a cluster target's state on this machine, relative to the clone. */
export function clusterHome({ name, platform }: ClusterTarget): string {
  return platform?.home ?? join(".uplift", "clusters", name);
}

/** All that Uplift makes in a home beside its state (docs/operations.md): what `destroy --delete-results` deletes. */
export const RESULTS = [
  "objects",
  "database",
  // The lock of the embedded database, beside its folder.
  "database.owner",
  "environments",
  "runs",
  "collections",
  "evaluations",
  "code",
  "jobs",
  "processes",
  "keys",
  "logs",
] as const;

/** Deletes what Uplift made, all of it: an evaluation's half would be taken for the next one's beginning. Nothing else. */
export async function deleteAllResults(home: string): Promise<void> {
  for (const name of RESULTS) await rm(join(home, name), { recursive: true, force: true });
}

/**
 * Throws `home-invalid` where deleting results would delete something else: the clone and what it lies in, the user's own
 * folder, and a folder that holds things under our names which are not ours.
 */
export async function requireUsableHome({ root, home }: { root: string; home: string }): Promise<void> {
  const folder = await real(home);
  if (folder === "/") throw invalid(home, "that is the file system's root");
  // Not configuration: whose folder it is, whatever the caller was told.
  if (folder === (await real(homedir()))) throw invalid(home, "that is your own home directory");
  const clone = relative(folder, await real(root));
  if (clone === "") throw invalid(home, "that is the clone itself");
  if (clone.split("/")[0] !== "..") throw invalid(home, `the clone lies in it (${clone})`);
  if (await exists(join(folder, STATE_FOLDER, "locks"))) return;
  const strange = (await listOrEmpty(folder)).filter((name) => (RESULTS as readonly string[]).includes(name));
  if (strange.length > 0) throw invalid(home, `it holds ${strange.sort().join(", ")}, which Uplift did not make`);
}

function invalid(home: string, found: string): UserError {
  return new UserError({
    code: "home-invalid",
    path: home,
    asked: "this folder is to hold the target's state and results",
    found,
    allowed: 'a folder for Uplift alone, e.g. ".uplift"; a new one is made',
    todo: "correct `home` in the target file (stacks/targets/)",
  });
}

/** Links resolved as far as the path is there. */
async function real(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return resolve(path);
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function listOrEmpty(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
