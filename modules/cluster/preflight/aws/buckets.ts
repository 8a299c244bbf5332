/**
 * Buckets: S3 names are one space for the whole world; each is free, or this target's already.
 */

import { type AwsTarget, TARGET_TAG } from "../../aws/target.ts";
import { type Check, error, ok } from "../check.ts";
import type { AwsApi } from "./api.ts";

/** One check a bucket. */
export function bucketChecks(
  api: Pick<AwsApi, "bucketNames" | "bucket" | "bucketTags">,
  target: AwsTarget,
  buckets: readonly string[],
): Check[] {
  const wanted = `free, or with the tag ${TARGET_TAG}=${target.name}`;
  const todo = "rename the target: its buckets are named after it";
  return buckets.map((bucket) => ({
    ...{ area: "aws", name: "bucket", subject: `bucket ${bucket}` },
    run: async () => {
      if ((await api.bucketNames()).includes(bucket)) {
        const owner = (await api.bucketTags(bucket))[TARGET_TAG];
        if (owner === target.name) return ok({ found: "made by this target", wanted });
        return error({
          ...{ found: owner ? `made for target ${owner}` : "in this account, and not made by Uplift", wanted },
          todo,
        });
      }
      if ((await api.bucket(bucket)) === "missing") return ok({ found: "free", wanted });
      return error({ found: "taken by another account", wanted, todo });
    },
  }));
}
