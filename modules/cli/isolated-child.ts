/**
 * Isolated child: a program and its arguments → a process that can be ended with all that it started, in bubblewrap or
 * plain. Starts and ends processes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";

/** A process that a plain child detached may hold its output open; nobody waits for that one. */
const DRAIN_SECONDS = 1;

/** A child that can be ended with all that it started. */
export interface Child {
  readonly process: ChildProcess;
  /** Its exit code, and whether the sandbox failed before it came to run. Rejects where no process could be started. */
  readonly ended: Promise<{ code: number | null; notStarted?: boolean }>;
  /** Ends it and all that it started, at once. */
  kill(): void;
}

/** A child in bubblewrap, behind the gate of isolation-profile.ts. */
export class SandboxedChild implements Child {
  readonly process: ChildProcess;
  readonly ended: Promise<{ code: number | null; notStarted?: boolean }>;
  readonly #status: () => string;
  #killed = false;

  constructor(bwrap: string, args: readonly string[]) {
    // bwrap's own environment can be read from inside.
    const stdio = ["pipe", "pipe", "pipe", "pipe", "pipe"] as const;
    this.process = spawn(bwrap, args, { env: {}, cwd: "/", stdio: [...stdio] });
    this.#status = collect(this.process.stdio[3] as Readable, 65_536, () => this.#killed && this.#killInner());
    this.process.stdin?.on("error", () => {}); // It is gone: its exit code tells.
    (this.process.stdio[4] as Readable).once("data", () => this.#killed || this.process.stdin?.end("\n"));
    this.ended = exitOf(this.process).then((code) => ({ code, notStarted: !this.#status().includes('"exit-code"') }));
  }

  /**
   * The sandbox's process 1 takes all others with it. bwrap names it before it lets it go on; to end bwrap any earlier
   * would leave it waiting for ever.
   */
  kill(): void {
    this.#killed = true;
    this.process.stdin?.destroy();
    this.#killInner();
    setTimeout(() => this.process.kill("SIGKILL"), 5000).unref();
  }

  #killInner(): void {
    const pid = Number(/"child-pid":\s*(\d+)/.exec(this.#status())?.[1] ?? 0);
    // Not reaped while bwrap runs, so that the number is still this process's.
    if (pid > 1 && this.process.exitCode === null && this.process.signalCode === null) signal(pid);
  }
}

/** A child in a process group of its own. */
export class PlainChild implements Child {
  readonly process: ChildProcess;
  readonly ended: Promise<{ code: number | null }>;

  constructor(program: string, args: readonly string[], options: { env: Record<string, string>; cwd: string }) {
    this.process = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"], detached: true });
    this.process.once("exit", () => this.kill());
    this.ended = exitOf(this.process).then((code) => ({ code }));
  }

  kill(): void {
    if (this.process.pid !== undefined) signal(-this.process.pid);
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error; // It ended meanwhile.
  }
}

/** A child's exit code once its output has come; rejects where it could not be started. */
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => {
      setTimeout(() => {
        for (const stream of child.stdio) stream?.destroy();
      }, DRAIN_SECONDS * 1000).unref();
    });
    child.once("close", (code) => resolve(code));
  });
}

/** What a stream brings, up to a number of bytes. */
export function collect(stream: Readable | null, maxBytes: number, count: (bytes: number) => void): () => string {
  const pieces: Buffer[] = [];
  let bytes = 0;
  stream?.on("data", (piece: Buffer) => {
    if (bytes < maxBytes) pieces.push(piece.subarray(0, maxBytes - bytes));
    bytes += piece.length;
    count(piece.length);
  });
  // A destroyed pipe is no news: the exit code tells.
  stream?.on("error", () => {});
  return () => Buffer.concat(pieces).toString("utf8");
}
