/**
 * Sandbox: the executor at the other end of a channel, as an object that answers requests one at a time.
 * Comes in: purpose, limits, the repository's tar. Goes out: tool results, the repository's tar, a grader's output.
 * Starts nothing; what comes out of the channel is not trusted: every line is bounded and parsed.
 */
import { z } from "zod";
import { ToolResult } from "../../schemas/environment.ts";
import type { SandboxLimits } from "../../schemas/task.ts";
import { FrameReader } from "./frame-reader.ts";
import type { SandboxPurpose } from "./sandbox-profile.ts";

/** How much longer than its own limit the executor may take before it counts as lost: the machine may be busy. */
const GRACE_SECONDS = 20;
const START_SECONDS = 60;
const MAX_LINE_BYTES = 2 * 1024 * 1024;

const Started = z.object({ ok: z.boolean() });
const Called = ToolResult.extend({ detail: z.string().optional() });
const Packed = z.union([z.object({ bytes: z.number().int().nonnegative() }), z.object({ refused: z.string() })]);
const Graded = z.object({ exit: z.number().int().nullable(), stdout: z.string(), stderr: z.string() });

/** What a grader's process left behind; `exit` null means that its time was up. */
export type GraderOutput = z.infer<typeof Graded>;

/** The sandbox is gone or speaks nonsense. Never the policy's answer. */
export class SandboxLost extends Error {
  override readonly name = "SandboxLost";
}

/** The executor's stdin and stdout, and the end of all that runs behind them: a bubblewrap process, or a pod. */
export interface SandboxChannel {
  /** The process to look for when something is left over; undefined for a pod. */
  readonly pid: number | undefined;
  /** The last the sandbox said on stderr, for error messages. */
  readonly stderr: string;
  /** Resolves with the reason when the sandbox is gone, whoever ended it. */
  readonly ended: Promise<string>;
  /** Sends; does nothing once the sandbox is gone: the answer that never comes reports it. */
  write(bytes: Buffer | string): void;
  /** Hands on what the executor writes; called once, before anything is written. */
  listen(listener: (piece: Buffer) => void): void;
  /** Ends the sandbox with all its processes, and resolves when it is gone. */
  kill(): Promise<void>;
}

/** What a sandbox is made of. */
export interface SandboxArgs {
  readonly channel: SandboxChannel;
  readonly purpose: SandboxPurpose;
  readonly limits: SandboxLimits;
  /** Whether the kernel counts a sandbox's processes for itself. */
  readonly limitsProcesses: boolean;
}

/** A running sandbox. It ends with `kill()`, or with this process. */
export class Sandbox {
  readonly #channel: SandboxChannel;
  readonly #frames: FrameReader;
  readonly #args: SandboxArgs;
  /** Resolves when the sandbox is gone, whoever ended it. */
  readonly ended: Promise<void>;
  #lost: SandboxLost | null = null;
  /** Requests wait for each other: the executor does one thing at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(args: SandboxArgs) {
    this.#args = args;
    this.#channel = args.channel;
    this.#frames = new FrameReader(MAX_LINE_BYTES);
    this.#channel.listen((piece) => this.#frames.push(piece));
    this.ended = this.#channel.ended.then((why) => this.#lose(why));
  }

  /** The process to look for when something is left over; undefined when there is none. */
  get pid(): number | undefined {
    return this.#channel.pid;
  }

  /** The last the sandbox said on stderr, for error messages. */
  get stderr(): string {
    return this.#channel.stderr;
  }

  /** Waits for the executor, then unpacks the repository. `clean` also removes what could steer git (for grading). */
  async start(archive: Buffer, clean: boolean): Promise<void> {
    await this.#exclusively(START_SECONDS, () =>
      this.#frames.next().then(({ line }) => z.object({ ready: z.literal(true) }).parse(line)),
    );
    const { limits, limitsProcesses, purpose } = this.#args;
    const started = await this.#request(START_SECONDS, Started, archive, {
      op: "start",
      bytes: archive.length,
      clean,
      limits: {
        seconds: purpose === "grading" ? limits.graderSeconds : limits.toolSeconds,
        memoryBytes: limits.memoryMib * 1024 * 1024,
        processes: limitsProcesses ? limits.processes : 0,
        diskBytes: limits.diskMib * 1024 * 1024,
        outputCharacters: limits.outputCharacters,
      },
    });
    if (!started.ok)
      throw new SandboxLost(`the repository does not fit into the sandbox (${limits.diskMib} MiB): ${this.stderr}`);
  }

  /** Runs one tool; never rejects for what the tool does. */
  async call(name: string, given: Record<string, string>): Promise<z.infer<typeof Called>> {
    return this.#request(this.#args.limits.toolSeconds + GRACE_SECONDS, Called, null, {
      op: "call",
      name,
      arguments: given,
    });
  }

  /** The repository as it is now, or why it cannot be packed (then the attempt made it so). */
  async pack(): Promise<{ archive: Buffer } | { refused: string }> {
    const { limits } = this.#args;
    return this.#exclusively(limits.toolSeconds + GRACE_SECONDS, async () => {
      this.#write({ op: "pack" }, null);
      const packed = Packed.parse((await this.#frames.next()).line);
      if ("refused" in packed) return packed;
      if (packed.bytes > 2 * limits.diskMib * 1024 * 1024) throw new Error("the archive is larger than the disk");
      return { archive: await this.#frames.bytes(packed.bytes) };
    });
  }

  /** Runs the grader to its end or its time limit. */
  async grade(): Promise<GraderOutput> {
    return this.#request(this.#args.limits.graderSeconds + GRACE_SECONDS, Graded, null, { op: "grade" });
  }

  /** Ends the sandbox with all its processes, and waits until it is gone. */
  async kill(): Promise<void> {
    this.#lose("ended by the service");
    await this.#channel.kill();
    await this.ended;
  }

  #lose(why: string): void {
    this.#lost ??= new SandboxLost(`the sandbox is gone: ${why}`);
    this.#frames.fail(this.#lost);
  }

  #write(request: unknown, body: Buffer | null): void {
    this.#channel.write(`${JSON.stringify(request)}\n`);
    if (body !== null) this.#channel.write(body);
  }

  #request<T>(seconds: number, schema: z.ZodType<T>, body: Buffer | null, request: unknown): Promise<T> {
    return this.#exclusively(seconds, async () => {
      this.#write(request, body);
      return schema.parse((await this.#frames.next()).line);
    });
  }

  /** One at a time, each within its seconds; whatever goes wrong, the sandbox is of no more use. */
  #exclusively<T>(seconds: number, work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(async () => {
      if (this.#lost !== null) throw this.#lost;
      const timer = setTimeout(() => this.#lose(`no answer within ${seconds} s`), seconds * 1000);
      try {
        return await work();
      } catch (error) {
        this.#lose(error instanceof Error ? error.message : String(error));
        void this.kill();
        throw this.#lost;
      } finally {
        clearTimeout(timer);
      }
    });
    this.#last = turn.catch(() => {}); // Whoever asked has the rejection; the next in line only waits.
    return turn;
  }
}
