/**
 * File system: what FSx for Lustre can make, and which of its folders are copied to S3. Pure.
 */
import type { Issue } from "../../../schemas/error.ts";

/** Ports of Lustre, of clients and of servers alike. */
export const LUSTRE_PORTS = [
  { fromPort: 988, toPort: 988 },
  { fromPort: 1018, toPort: 1023 },
] as const;

/**
 * Folders that FSx copies to the checkpoints bucket by itself, under shared/: finished checkpoints, and runs, in which the
 * trainers' own lie. An association is made of fixed folders, so a run's checkpoints come with the rest of the run.
 */
export const EXPORTED_FOLDERS = ["checkpoints", "runs"] as const;
/** Apart from checkpoints/, which the controller writes through S3: two writers of one key would undo each other. */
export const EXPORT_PREFIX = "shared";

/** New and changed files only. DELETED would take away the copy after a mistaken rm, which is what the copy is for. */
export const EXPORTED_EVENTS = ["NEW", "CHANGED"] as const;

/** 1200 GiB, or a multiple of 2400: any other size FSx refuses, or rounds and then differs at every preview. */
export function fileSystemIssues(gib: number): Issue[] {
  if (gib === 1200 || (gib > 0 && gib % 2400 === 0)) return [];
  const below = Math.floor(gib / 2400) * 2400 || 1200;
  const above = gib < 1200 ? 1200 : Math.ceil(gib / 2400) * 2400;
  return [
    {
      ...{ code: "aws-fsx-size", path: "platform.fsx.gib" },
      asked: `a file system of ${gib} GiB`,
      found: "a size that FSx for Lustre does not make",
      allowed: "1200, or a multiple of 2400",
      todo: below < gib ? `write ${below} or ${above}` : `write ${above}`,
    },
  ];
}
