/**
 * Orphans: what a kill -9 of an earlier service can leave → ended.
 * Comes in: the staging folder whose files its sandboxes had open. Goes out: how many were ended. Reads /proc.
 *
 * bubblewrap's two halves wait for each other before the sandbox exists. Killed within those microseconds, its outer
 * half leaves the inner one waiting for ever: no code of an attempt ever ran in it, but it is a process too many.
 */
import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";

/** Ends inner halves of bubblewrap without an outer one that hold files of this folder open. */
export function endOrphans(staging: string): number {
  const folder = `${realpathSync(staging)}/`;
  let ended = 0;
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    try {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const isInner = /^Name:\tbwrap$/m.test(status) && /^NSpid:\t\d+\t1$/m.test(status);
      if (!isInner || parentName(status) === "bwrap" || !holds(pid, folder)) continue;
      process.kill(pid, "SIGKILL");
      ended += 1;
    } catch (error) {
      // Gone meanwhile, or another user's: then it is none of ours.
      if (!["ENOENT", "ESRCH", "EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
  return ended;
}

function parentName(status: string): string {
  const parent = /^PPid:\t(\d+)$/m.exec(status)?.[1] ?? "0";
  return parent === "0" ? "" : readFileSync(`/proc/${parent}/comm`, "utf8").trim();
}

function holds(pid: number, folder: string): boolean {
  return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(folder));
}
