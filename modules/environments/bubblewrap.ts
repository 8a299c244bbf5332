/**
 * Bubblewrap: sandboxes as processes of this machine, each with a user of its own where the service is root.
 * Comes in: purpose, limits, files. Goes out: channels to executors. Starts one process a sandbox; it ends with this one.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { UserError } from "../../schemas/error.ts";
import { type Host, sandboxRefused } from "./host.ts";
import { endOrphans } from "./orphans.ts";
import { type SandboxChannel, SandboxLost } from "./sandbox.ts";
import type { SandboxDriver, SandboxRequest } from "./sandbox-driver.ts";
import { sandboxArguments } from "./sandbox-profile.ts";

/** Makes bubblewrap sandboxes on one host. */
export class BubblewrapDriver implements SandboxDriver {
  readonly startsAtOnce = 2 * availableParallelism();
  readonly limitsProcesses: boolean;
  readonly #host: Host;
  readonly #staging: string;
  readonly #usersInUse = new Set<number>();
  #nextUser = 0;

  constructor(args: { host: Host; staging: string }) {
    this.#host = args.host;
    this.#staging = args.staging;
    this.limitsProcesses = args.host.limitsProcesses;
  }

  async open(request: SandboxRequest): Promise<SandboxChannel> {
    const user = this.#takeUser();
    const free = (): void => {
      if (user !== null) this.#usersInUse.delete(user);
    };
    try {
      const channel = new ProcessChannel(this.#host, user, request);
      void channel.ended.then(free);
      return channel;
    } catch (error) {
      free();
      throw new SandboxLost(
        `a sandbox could not be started: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }

  async endOrphans(): Promise<number> {
    return endOrphans(this.#staging);
  }

  refused(words: string): UserError {
    return sandboxRefused(words);
  }

  async close(): Promise<void> {} // Its sandboxes are ended by the pool, and nothing else is left.

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

/** One bubblewrap process. */
class ProcessChannel implements SandboxChannel {
  readonly #child: ChildProcess;
  readonly ended: Promise<string>;
  /** Resolves with the executor's first word. */
  readonly #up: Promise<void>;
  #stderr = "";

  constructor(host: Host, user: number | null, { purpose, limits, files }: SandboxRequest) {
    const opened = Object.entries(files).map(([path, file]) => ({ path, fd: openSync(file, "r") }));
    const injected = opened.map(({ path }, index) => ({ path, fd: index + 3 }));
    try {
      this.#child = spawn(host.bwrap, sandboxArguments(purpose, limits, injected, host.layout), {
        env: {},
        cwd: "/",
        stdio: ["pipe", "pipe", "pipe", ...opened.map(({ fd }) => fd)],
        ...(user === null ? {} : { uid: user, gid: user }),
      });
    } finally {
      for (const { fd } of opened) closeSync(fd);
    }
    this.#up = new Promise((resolve) => this.#child.stdout?.once("data", () => resolve()));
    this.#child.stderr?.on("data", (piece: Buffer) => {
      this.#stderr = (this.#stderr + piece.toString("utf8")).slice(-4096);
    });
    // EPIPE when the sandbox ends while we write: the answer that never comes reports it.
    this.#child.stdin?.on("error", () => {});
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => resolve(error.message));
      this.#child.once("close", (code, signal) =>
        resolve(`ended with ${signal ?? `code ${code}`}: ${this.#stderr.trim()}`),
      );
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get stderr(): string {
    return this.#stderr;
  }

  write(bytes: Buffer | string): void {
    this.#child.stdin?.write(bytes);
  }

  listen(listener: (piece: Buffer) => void): void {
    this.#child.stdout?.on("data", listener);
  }

  async kill(): Promise<void> {
    // The executor ends when its input does. That also holds for one that is still on its way up, and it must come
    // up first: a bwrap killed before it has let its child go on leaves that child waiting for ever.
    this.#child.stdin?.destroy();
    await Promise.race([this.#up, this.ended]);
    this.#child.kill("SIGKILL");
    await this.ended;
  }
}
