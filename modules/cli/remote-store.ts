/**
 * Remote store: a cluster's controller → as much of its object store as `uplift train` needs: code and task sets are sent,
 * earlier runs' pass rates are read. Everything else of the store is the controller's own.
 */
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { ControllerClient } from "./controller-client.ts";
import { mostBytesOf, tooLarge } from "./objects-app.ts";

/** What submitting a run needs of an object store. */
export type SubmissionStore = Pick<ObjectStore, "put" | "get" | "exists">;

/** The store behind a controller. */
export function remoteStore(client: ControllerClient): SubmissionStore {
  return {
    async put(key, content) {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : new Uint8Array(content);
      // Asked here: a controller that refuses a body half-way ends the connection, and says nothing then.
      const most = mostBytesOf(key) ?? Number.POSITIVE_INFINITY;
      if (bytes.length > most) throw tooLarge(key, bytes.length, most);
      await client.putObject(key, bytes);
    },
    get: (key) => client.getObject(key),
    exists: (key) => client.hasObject(key),
  };
}
