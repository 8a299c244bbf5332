/**
 * Sandbox pool: every live sandbox of a service, each with a user of its own where the service is root.
 * Comes in: purpose, family limits, files. Goes out: started sandboxes. Starts processes; `closeAll` ends them all.
 */
import type { SandboxLimits } from "../../schemas/task.ts";
import { type Host, sandboxRefused } from "./host.ts";
import type { SandboxFiles } from "./python-file.ts";
import { Sandbox, SandboxLost } from "./sandbox.ts";
import type { SandboxPurpose } from "./sandbox-profile.ts";

const PROBE_LIMITS: SandboxLimits = {
  ...{ toolSeconds: 10, attemptSeconds: 10, graderSeconds: 10 },
  ...{ memoryMib: 256, processes: 16, diskMib: 1, outputCharacters: 100 },
};
/** A tar archive of nothing. */
const EMPTY_ARCHIVE = Buffer.alloc(1024);

/** Makes sandboxes and knows all that live. */
export class SandboxPool {
  readonly #host: Host;
  readonly #executorFiles: SandboxFiles;
  readonly #live = new Set<Sandbox>();
  readonly #usersInUse = new Set<number>();
  #nextUser = 0;
  #closed = false;

  constructor(args: { host: Host; executorFiles: SandboxFiles }) {
    this.#host = args.host;
    this.#executorFiles = args.executorFiles;
  }

  /** The outer processes of the live sandboxes. */
  get pids(): number[] {
    return [...this.#live].flatMap((sandbox) => sandbox.pid ?? []);
  }

  /** Starts a sandbox and unpacks the repository in it. Rejects with SandboxLost, then nothing of it is left. */
  async start(args: {
    purpose: SandboxPurpose;
    limits: SandboxLimits;
    files: SandboxFiles;
    archive: Buffer;
  }): Promise<Sandbox> {
    if (this.#closed) throw new SandboxLost("the service is stopping");
    const user = this.#takeUser();
    const files = { ...this.#executorFiles, ...args.files };
    let sandbox: Sandbox;
    try {
      sandbox = new Sandbox({ host: this.#host, purpose: args.purpose, limits: args.limits, user, files });
    } catch (error) {
      if (user !== null) this.#usersInUse.delete(user);
      throw new SandboxLost(
        `a sandbox could not be started: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
    this.#live.add(sandbox);
    void sandbox.ended.then(() => {
      this.#live.delete(sandbox);
      if (user !== null) this.#usersInUse.delete(user);
    });
    try {
      await sandbox.start(args.archive, args.purpose === "grading");
      return sandbox;
    } catch (error) {
      await sandbox.kill();
      throw error;
    }
  }

  /** One sandbox of each purpose, started and ended: throws a UserError where this machine cannot have them. */
  async probe(): Promise<void> {
    for (const purpose of ["attempt", "grading"] as const) {
      try {
        const sandbox = await this.start({ purpose, limits: PROBE_LIMITS, files: {}, archive: EMPTY_ARCHIVE });
        await sandbox.kill();
      } catch (error) {
        if (error instanceof SandboxLost) throw sandboxRefused(error.message);
        throw error;
      }
    }
  }

  /** Ends all sandboxes and starts no more. */
  async closeAll(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#live].map((sandbox) => sandbox.kill()));
  }

  #takeUser(): number | null {
    const users = this.#host.users;
    if (users === null) return null;
    for (let tried = 0; tried < users.count; tried++) {
      const user = users.first + (this.#nextUser++ % users.count);
      if (this.#usersInUse.has(user)) continue;
      this.#usersInUse.add(user);
      return user;
    }
    throw new SandboxLost(`all ${users.count} users for sandboxes are in use`);
  }
}
