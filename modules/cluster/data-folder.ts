/**
 * Data folder: results that outlive every service: objects, database, runs.
 * In: a path inside a home. Out: the folder. Creates it; deletes it only when the user said that results may go.
 */
import { mkdir, rm, stat } from "node:fs/promises";
import { isAbsolute, relative } from "node:path";
import { z } from "zod";

export const DataFolderInputs = z.object({
  kind: z.literal("folder"),
  home: z.string().startsWith("/"),
  path: z.string(),
});
export type DataFolderInputs = z.infer<typeof DataFolderInputs>;

/** Makes the folder; one that is there already is kept as it is, with all it holds. */
export async function createFolder({ path }: DataFolderInputs): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}

/** Whether the folder is there. */
export async function folderIsThere({ path }: DataFolderInputs): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Forgets the folder, and deletes what it holds only when asked to. */
export async function removeFolder({ home, path }: DataFolderInputs, deleteResults: boolean): Promise<void> {
  if (!deleteResults) return;
  const inside = relative(home, path);
  if (inside === "" || inside.startsWith("..") || isAbsolute(inside)) {
    throw new Error(`${path} is not inside ${home}: not deleted`);
  }
  await rm(path, { recursive: true, force: true });
}
