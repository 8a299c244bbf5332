/**
 * Sandbox pool: every live sandbox of a service, whatever they are made of.
 * Comes in: purpose, family limits, files. Goes out: started sandboxes. Starts them by its driver; `closeAll` ends them all.
 */
import { NO_ATTEMPT } from "../../schemas/manifest.ts";
import type { SandboxLimits } from "../../schemas/task.ts";
import type { Metrics } from "./metrics.ts";
import type { SandboxFiles } from "./python-file.ts";
import { Sandbox, SandboxLost } from "./sandbox.ts";
import type { SandboxDriver, SandboxRequest } from "./sandbox-driver.ts";

const PROBE_LIMITS: SandboxLimits = {
  ...{ toolSeconds: 10, attemptSeconds: 10, graderSeconds: 10 },
  ...{ memoryMib: 256, processes: 16, diskMib: 1, outputCharacters: 100 },
};
/** A tar archive of nothing. */
const EMPTY_ARCHIVE = Buffer.alloc(1024);

/** Makes sandboxes and knows all that live. */
export class SandboxPool {
  readonly #driver: SandboxDriver;
  readonly #executorFiles: SandboxFiles;
  readonly #metrics: Metrics;
  readonly #live = new Set<Sandbox>();
  readonly #opening = new Set<Promise<unknown>>();
  #closed = false;

  constructor(args: { driver: SandboxDriver; executorFiles: SandboxFiles; metrics: Metrics }) {
    this.#driver = args.driver;
    this.#executorFiles = args.executorFiles;
    this.#metrics = args.metrics;
  }

  /** The outer processes of the live sandboxes. */
  get pids(): number[] {
    return [...this.#live].flatMap((sandbox) => sandbox.pid ?? []);
  }

  /** How many may be on their way up, or grading, at once. */
  get startsAtOnce(): number {
    return this.#driver.startsAtOnce;
  }

  /** Starts a sandbox and unpacks the repository in it. Rejects with SandboxLost, then nothing of it is left. */
  async start(request: SandboxRequest & { archive: Buffer }): Promise<Sandbox> {
    if (this.#closed) throw new SandboxLost("the service is stopping");
    const started = performance.now();
    const starting = this.#start(request);
    this.#opening.add(starting);
    try {
      const sandbox = await starting;
      this.#metrics.sandboxStarted(request.purpose, (performance.now() - started) / 1000);
      return sandbox;
    } finally {
      this.#opening.delete(starting);
    }
  }

  /** One sandbox of each purpose, started and ended: throws a UserError where this machine cannot have them. */
  async probe(): Promise<void> {
    for (const purpose of ["attempt", "grading"] as const) {
      try {
        const request = { purpose, limits: PROBE_LIMITS, files: {}, archive: EMPTY_ARCHIVE, attempt: NO_ATTEMPT };
        const sandbox = await this.start(request);
        await sandbox.kill();
      } catch (error) {
        if (error instanceof SandboxLost) throw this.#driver.refused(error.message);
        throw error;
      }
    }
  }

  /** Ends all sandboxes and starts no more. */
  async closeAll(): Promise<void> {
    this.#closed = true;
    await this.#driver.close();
    await Promise.all([...this.#live].map((sandbox) => sandbox.kill()));
    await Promise.allSettled(this.#opening); // Each of them sees that the pool is closed, and ends its own.
  }

  async #start(request: SandboxRequest & { archive: Buffer }): Promise<Sandbox> {
    const { purpose, limits, archive, attempt } = request;
    const files = { ...this.#executorFiles, ...request.files };
    const channel = await this.#driver.open({ purpose, limits, files, attempt });
    const sandbox = new Sandbox({ channel, purpose, limits, limitsProcesses: this.#driver.limitsProcesses });
    this.#live.add(sandbox);
    void sandbox.ended.then(() => this.#live.delete(sandbox));
    try {
      if (this.#closed) throw new SandboxLost("the service is stopping");
      await sandbox.start(archive, purpose === "grading");
      return sandbox;
    } catch (error) {
      await sandbox.kill();
      throw error;
    }
  }
}
