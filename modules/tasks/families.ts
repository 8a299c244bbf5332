/**
 * Families: the task families this repository has, by name, and reading one from its folder.
 * Takes a name or a folder, returns the family with its digest. Reads family.json, grader.py and tools.py; writes
 * nothing.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Digest, digestBytes, digestJson } from "../../schemas/digest.ts";
import { fromZod, UserError } from "../../schemas/error.ts";
import { type Task, TaskFamily } from "../../schemas/task.ts";
import { generateRepoChores } from "./repo-chores/generate.ts";

/** The files that decide what a family's tools and grader do; its generator's output is digested with the task set. */
export const FAMILY_FILES = ["family.json", "grader.py", "tools.py"] as const;

/** A family this repository can make tasks of. */
export interface FamilyEntry {
  /** Its folder. */
  dir: string;
  /** Seed and number → tasks; must be deterministic. */
  generate: (seed: number, tasks: number) => Task[];
}

/** Every family by name. */
export const FAMILIES: Readonly<Record<string, FamilyEntry>> = {
  "repo-chores": {
    dir: fileURLToPath(new URL("repo-chores", import.meta.url)),
    generate: (seed, tasks) => generateRepoChores(seed, tasks).tasks,
  },
};

/** A family by name; a UserError `unknown-family` names those there are. */
export function familyEntry(name: string): FamilyEntry {
  const entry = Object.hasOwn(FAMILIES, name) ? FAMILIES[name] : undefined;
  if (entry) return entry;
  const known = Object.keys(FAMILIES).sort().join(", ");
  throw new UserError({
    code: "unknown-family",
    path: "tasks.family",
    asked: `the task family "${name}" was asked for`,
    found: "there is no family of that name",
    allowed: known,
    todo: "use one of those, or add a family's folder to modules/tasks and its entry to families.ts",
  });
}

/** A family as its folder has it. */
export interface LoadedFamily {
  dir: string;
  family: TaskFamily;
  digest: Digest;
}

/** Reads and checks a family's folder; a missing or wrong file is a UserError `family-unreadable`. */
export async function loadFamily(dir: string): Promise<LoadedFamily> {
  const files: Record<string, Buffer> = {};
  for (const name of FAMILY_FILES) {
    files[name] = await readFile(join(dir, name)).catch((error: NodeJS.ErrnoException) => {
      throw unreadable(join(dir, name), `reading it failed: ${error.code ?? error.message}`);
    });
  }
  const path = join(dir, "family.json");
  let json: unknown;
  try {
    json = JSON.parse((files["family.json"] as Buffer).toString("utf8"));
  } catch (error) {
    throw unreadable(path, `it is not JSON: ${(error as Error).message}`);
  }
  const family = TaskFamily.safeParse(json);
  if (!family.success) throw fromZod(family.error, path, "family-unreadable");
  return { dir, family: family.data, digest: familyDigest(files) };
}

/** The digest of a family's files, by file name; any changed byte of tools, grader or declaration changes it. */
export function familyDigest(files: Readonly<Record<string, Uint8Array | string>>): Digest {
  return digestJson(Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, digestBytes(bytes)])));
}

function unreadable(path: string, found: string): UserError {
  return new UserError({
    code: "family-unreadable",
    path,
    asked: "a file of a task family was expected",
    found,
    allowed: `a folder with ${FAMILY_FILES.join(", ")}`,
    todo: "restore the file",
  });
}
