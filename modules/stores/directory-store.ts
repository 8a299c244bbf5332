/**
 * Directory store: a folder on this machine → an ObjectStore.
 * Takes a folder; reads and writes only below it. An object appears whole or not at all: bytes go to a temporary
 * file on the same filesystem, are synced to disk, and are renamed into place.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { checkKey, missing, TEMPORARY } from "./object-key.ts";

/** An object store on a folder, which is made when the first object is stored. */
export function createDirectoryStore(root: string): ObjectStore {
  let ready: Promise<void> | undefined;
  const prepare = (): Promise<void> => {
    // One that failed is tried again: storage may have been away for a moment.
    ready ??= sweep(join(root, TEMPORARY)).catch((error: unknown) => {
      ready = undefined;
      throw error;
    });
    return ready;
  };

  const store = async (key: string, write: (temporary: string) => Promise<void>): Promise<void> => {
    const target = join(root, checkKey(key));
    await prepare();
    const temporary = join(root, TEMPORARY, `${process.pid}-${randomUUID()}`);
    try {
      await write(temporary);
      await sync(temporary);
      await mkdir(dirname(target), { recursive: true });
      await rename(temporary, target);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    await sync(dirname(target));
  };

  return {
    put: (key, bytes) =>
      store(key, async (temporary) => {
        const file = await open(temporary, "wx");
        try {
          await file.writeFile(bytes);
        } finally {
          await file.close();
        }
      }),
    // A copy, never a hard link: whoever wrote the source may go on writing to it. Copy-on-write where the disk can.
    putFile: (key, path) => store(key, (temporary) => copyFile(path, temporary, constants.COPYFILE_FICLONE)),
    get: async (key) => {
      try {
        return await readFile(join(root, checkKey(key)));
      } catch (error) {
        if (isAbsent(error)) throw missing(root, key);
        throw error;
      }
    },
    exists: async (key) => (await kindOf(join(root, checkKey(key)))) === "file",
    list: async (prefix) => {
      const keys: string[] = [];
      // Only the folder that the prefix names can hold matches, so a large store is not walked whole.
      const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
      if (folder !== "") checkKey(folder.slice(0, -1));
      await walk(join(root, folder), folder, keys);
      return keys.filter((key) => key.startsWith(prefix)).sort();
    },
    folder: async (prefix) => {
      const path = join(root, checkKey(prefix.replace(/\/$/, "")));
      if ((await kindOf(path)) !== "folder") throw missing(root, prefix);
      return path;
    },
  };
}

/** Makes the temporary folder and removes what processes that are gone left in it. */
async function sweep(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder)) {
    const pid = Number(name.split("-")[0]);
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid)) await rm(join(folder, name), { force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Another user's process is alive too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function walk(folder: string, prefix: string, keys: string[]): Promise<void> {
  let entries: Awaited<ReturnType<typeof readEntries>>;
  try {
    entries = await readEntries(folder);
  } catch (error) {
    if (isAbsent(error)) return;
    throw error;
  }
  for (const entry of entries) {
    if (prefix === "" && entry.name === TEMPORARY) continue;
    if (entry.isDirectory()) await walk(join(folder, entry.name), `${prefix}${entry.name}/`, keys);
    else if (entry.isFile()) keys.push(`${prefix}${entry.name}`);
  }
}

function readEntries(folder: string) {
  return readdir(folder, { withFileTypes: true });
}

async function kindOf(path: string): Promise<"file" | "folder" | "none"> {
  try {
    const found = await stat(path);
    return found.isDirectory() ? "folder" : found.isFile() ? "file" : "none";
  } catch (error) {
    if (isAbsent(error)) return "none";
    throw error;
  }
}

function isAbsent(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR";
}
