/**
 * Shared store: a cluster's shared storage and its object store → one ObjectStore. What jobs and model servers read and write
 * as files (checkpoints/, runs/, models/) stays there, at MOUNT/key: nothing is copied to be used. All else is in the other.
 *
 * One process at a time writes through it (the controller): unfinished files of others are taken for left-overs.
 */
import { join } from "node:path";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { createDirectoryStore } from "./directory-store.ts";

/** First segments of the keys that are files of the shared storage: the folders there that are the platform's to write in. */
const SHARED = ["checkpoints", "models", "runs"] as const;

export interface SharedStoreOptions {
  /** Where the shared storage is mounted. */
  readonly mountPath: string;
  /** Where everything else is. */
  readonly objects: ObjectStore;
}

/** An object store over both. */
export function createSharedStore({ mountPath, objects }: SharedStoreOptions): ObjectStore {
  const folders = SHARED.map((name) => ({ prefix: `${name}/`, store: createDirectoryStore(join(mountPath, name)) }));
  /** The store of a key, and what the key is called there. */
  const at = (key: string) => {
    const folder = folders.find(({ prefix }) => key.startsWith(prefix));
    return folder ? { store: folder.store, name: key.slice(folder.prefix.length) } : { store: objects, name: key };
  };
  return {
    async put(key, bytes) {
      await at(key).store.put(at(key).name, bytes);
    },
    async putFile(key, path) {
      await at(key).store.putFile(at(key).name, path);
    },
    get: async (key) => at(key).store.get(at(key).name),
    exists: async (key) => at(key).store.exists(at(key).name),
    async list(asked) {
      const ofFolders = folders.flatMap(({ prefix, store }) => {
        const rest = asked.startsWith(prefix) ? asked.slice(prefix.length) : prefix.startsWith(asked) ? "" : null;
        return rest === null ? [] : [store.list(rest).then((names) => names.map((name) => prefix + name))];
      });
      // What lies in the other store below those names is not to be read through this one.
      const others = at(asked).store === objects ? await objects.list(asked) : [];
      const keys = [...others.filter((key) => at(key).store === objects), ...(await Promise.all(ofFolders)).flat()];
      return keys.sort();
    },
    async folder(prefix) {
      const { store, name } = at(prefix);
      return store.folder(name);
    },
  };
}
