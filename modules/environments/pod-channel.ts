/**
 * Pod channel: a running pod and the exec in it → the executor's stdin and stdout, and one end for whatever ends them.
 * Comes in: both, and what removes the pod. Goes out: a SandboxChannel. Every end says why: evicted, out of memory, API gone.
 */
import type { ExecConnection } from "./exec-connection.ts";
import type { Pod } from "./kubernetes-api.ts";
import { stateOf } from "./pod-state.ts";
import type { SandboxChannel } from "./sandbox.ts";

/** How long an end may wait for its reason. */
const REASON_MILLISECONDS = 3000;

/** A pod's executor. */
export class PodChannel implements SandboxChannel {
  readonly pid = undefined;
  readonly ended: Promise<string>;
  readonly #exec: ExecConnection;
  readonly #remove: () => Promise<void>;
  #why: string | null = null;

  constructor(args: {
    exec: ExecConnection;
    /** The pod as it is now; undefined when it is gone. */
    look: () => Promise<Pod | undefined>;
    remove: () => Promise<void>;
  }) {
    this.#exec = args.exec;
    this.#remove = args.remove;
    this.ended = args.exec.ended.then(async ({ why }) => {
      const words = args.exec.stderr.trim();
      this.#why = `${await reasonOf(args.look, why)}${words === "" ? "" : `; it said last: ${words}`}`;
      return this.#why;
    });
  }

  /** Once it has ended, why: a pod's end says more than its last words. */
  get stderr(): string {
    return this.#why ?? this.#exec.stderr;
  }

  write(bytes: Buffer | string): void {
    this.#exec.write(bytes);
  }

  listen(listener: (piece: Buffer) => void): void {
    this.#exec.listen(listener);
  }

  /** Told by whoever watches the pod: its end is the sandbox's, even while the connection still stands. */
  changed(pod: Pod | undefined): void {
    const why = endOf(pod);
    if (why !== null) this.#exec.cut(why);
  }

  async kill(): Promise<void> {
    this.#exec.cut("ended by the service");
    await this.#remove();
    await this.ended;
  }
}

/** Why a pod is over, or null. One that succeeded ended because its executor did: the connection knows why. */
function endOf(pod: Pod | undefined): string | null {
  const state = stateOf(pod);
  return state.kind === "over" && pod?.status.phase !== "Succeeded" ? state.why : null;
}

/** The pod's own reason where it has ended, else the connection's. */
async function reasonOf(look: () => Promise<Pod | undefined>, why: string): Promise<string> {
  if (why === "ended by the service") return why;
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(why), REASON_MILLISECONDS);
  });
  const looked = look().then(
    (pod) => endOf(pod) ?? why,
    () => why, // The API is away: that is what the connection's end says already.
  );
  const reason = await Promise.race([looked, tooLong]);
  clearTimeout(timer);
  return reason;
}
