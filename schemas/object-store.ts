/**
 * Object store: where snapshots, checkpoints and traces lie. A folder on one machine, S3 on a cluster; whoever needs
 * one is handed this interface. Keys are "/"-separated, e.g. "checkpoints/1f2e…/model.safetensors".
 */
export interface ObjectStore {
  /** Stores bytes under a key, whole or not at all. Storing the same key again replaces it. */
  put(key: string, bytes: Uint8Array | string): Promise<void>;
  /** Stores a file without reading it into memory. */
  putFile(key: string, path: string): Promise<void>;
  /** Throws UserError `object-missing` when there is none. */
  get(key: string): Promise<Uint8Array>;
  exists(key: string): Promise<boolean>;
  /** Keys that start with a prefix, sorted. */
  list(prefix: string): Promise<string[]>;
  /** A local folder that holds every object under a prefix (the folder itself, or a copy made now). */
  folder(prefix: string): Promise<string>;
}
