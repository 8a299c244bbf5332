/**
 * Stores: a location → an ObjectStore or a Drizzle database.
 * Takes folders, buckets or a Postgres URL; returns open stores with their migrations done.
 * Reads and writes only what it was given.
 */
export {
  type Database,
  type DatabaseLocation,
  type HeldLock,
  type ModuleMigrations,
  migrate,
  type OpenDatabase,
  openDatabase,
} from "./database.ts";
export { createDirectoryStore } from "./directory-store.ts";
export { createS3Store, type S3Location } from "./s3-store.ts";
export { createSharedStore } from "./shared-store.ts";
