/**
 * Sandbox driver: what makes sandboxes of one kind. bubblewrap.ts makes processes, pod-driver.ts makes pods; the rest of the
 * service does not know which. Types only.
 */
import type { UserError } from "../../schemas/error.ts";
import type { SandboxLimits } from "../../schemas/task.ts";
import type { SandboxFiles } from "./python-file.ts";
import type { SandboxChannel } from "./sandbox.ts";
import type { SandboxPurpose } from "./sandbox-profile.ts";

/** A sandbox that is wanted. */
export interface SandboxRequest {
  readonly purpose: SandboxPurpose;
  readonly limits: SandboxLimits;
  readonly files: SandboxFiles;
  /** Its id, or NO_ATTEMPT: for people who look at what runs, and `uplift destroy`. */
  readonly attempt: string;
}

/** Makes sandboxes of one kind. */
export interface SandboxDriver {
  /** How many may be on their way up, or grading, at once. */
  readonly startsAtOnce: number;
  /** Whether the kernel counts a sandbox's processes for itself. */
  readonly limitsProcesses: boolean;
  /** Starts a sandbox with the executor in it. Rejects with SandboxLost, then nothing of it is left. */
  open(request: SandboxRequest): Promise<SandboxChannel>;
  /** Ends what an earlier service left; says how many. */
  endOrphans(): Promise<number>;
  /** What a user is told when the first sandbox did not start, with the reason given. */
  refused(words: string): UserError;
  /** Starts no more; sandboxes on their way up are ended. */
  close(): Promise<void>;
}
