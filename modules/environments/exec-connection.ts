/**
 * Exec connection: a command in a pod → its stdin, stdout and stderr over one WebSocket, and how it ended.
 * Comes in: the API, a pod, a command. Goes out: bytes and an end. Opens one connection to the API server.
 *
 * The protocol is v5.channel.k8s.io or v4: the first byte of a message is its channel, 0 stdin, 1 stdout, 2 stderr, 3 a Status
 * of how the command ended. A message is at most 32 KiB, as kubectl sends. Pings keep balancers from cutting a connection
 * over which a model thinks for minutes (EKS: 350 s), and find out when nobody is there any more.
 */
import { channel as diagnostics } from "node:diagnostics_channel";
import { type CloseEvent, type MessageEvent, ping, WebSocket } from "undici";
import { z } from "zod";
import { type KubernetesApi, KubernetesError } from "./kubernetes-api.ts";

const PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;
const PIECE_BYTES = 32 * 1024;
const PING_MILLISECONDS = 15_000;
const SILENT_PINGS = 3;

const Status = z.object({
  status: z.string(),
  message: z.string().optional(),
  details: z
    .object({ causes: z.array(z.object({ reason: z.string().optional(), message: z.string().optional() })).optional() })
    .optional(),
});

/** How a command ended: its exit code, or null when the connection did not live to tell. */
export interface CommandEnd {
  readonly code: number | null;
  readonly why: string;
}

/** A command that runs in a pod. */
export class ExecConnection {
  readonly #socket: WebSocket;
  readonly #open: Promise<void>;
  readonly ended: Promise<CommandEnd>;
  #end: (end: CommandEnd) => void = () => {};
  #listener: ((piece: Buffer) => void) | null = null;
  /** What came before anyone listened. */
  #early: Buffer[] = [];
  #stderr = "";
  #status: CommandEnd | null = null;

  private constructor(url: string, token: string, api: KubernetesApi, pingMilliseconds: number) {
    const headers = { authorization: `Bearer ${token}` };
    this.#socket = new WebSocket(url, { protocols: PROTOCOLS, dispatcher: api.dispatcher, headers });
    this.#socket.binaryType = "arraybuffer";
    let isOpen = false;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#open = new Promise((resolve, reject) => {
      this.#socket.addEventListener("open", () => {
        isOpen = true;
        this.#stayAwake(pingMilliseconds);
        resolve();
      });
      this.#socket.addEventListener("error", (event) => {
        if (!isOpen) reject(new KubernetesError(0, `the command was not started: ${reasonOf(event)}`));
      });
    });
    this.#socket.addEventListener("message", (event: MessageEvent) => this.#read(Buffer.from(event.data)));
    this.#socket.addEventListener("close", (event: CloseEvent) => {
      const why = `the connection to the Kubernetes API was lost (${event.code} ${event.reason})`.replace(" )", ")");
      this.#end(this.#status ?? { code: null, why });
    });
  }

  /** Resolves when the command runs; throws a KubernetesError otherwise. */
  static async open(
    api: KubernetesApi,
    pod: string,
    command: readonly string[],
    pingMilliseconds = PING_MILLISECONDS,
  ): Promise<ExecConnection> {
    const url = api.execUrl(pod, "sandbox", command);
    const connection = new ExecConnection(url, await api.access.token(), api, pingMilliseconds);
    await connection.#open;
    return connection;
  }

  /** The last the command said on stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Who gets what the command writes on stdout. */
  listen(listener: (piece: Buffer) => void): void {
    this.#listener = listener;
    for (const piece of this.#early.splice(0)) listener(piece);
  }

  write(bytes: Buffer | string): void {
    const all = Buffer.from(bytes as Buffer);
    for (let start = 0; start < all.length && this.#socket.readyState === WebSocket.OPEN; start += PIECE_BYTES) {
      this.#socket.send(Buffer.concat([Buffer.from([STDIN]), all.subarray(start, start + PIECE_BYTES)]));
    }
  }

  /** Cuts the connection: the command reads the end of its input. Whoever waits is told why. */
  cut(why: string): void {
    this.#end(this.#status ?? { code: null, why });
    this.#socket.close();
  }

  #read(message: Buffer): void {
    const piece = message.subarray(1);
    if (message[0] === STDOUT && piece.length > 0) (this.#listener ?? ((early) => this.#early.push(early)))(piece);
    if (message[0] === STDERR) this.#stderr = (this.#stderr + piece.toString("utf8")).slice(-4096);
    if (message[0] === STATUS) {
      this.#status = readStatus(piece.toString("utf8"));
      this.#end(this.#status);
      this.#socket.close();
    }
  }

  #stayAwake(pingMilliseconds: number): void {
    let unanswered = 0;
    const heard = diagnostics("undici:websocket:pong");
    const onPong = (message: unknown): void => {
      if ((message as { websocket?: unknown }).websocket === this.#socket) unanswered = 0;
    };
    heard.subscribe(onPong);
    const timer = setInterval(() => {
      unanswered += 1;
      if (unanswered > SILENT_PINGS) this.cut("the Kubernetes API no longer answers");
      else ping(this.#socket);
    }, pingMilliseconds);
    timer.unref();
    void this.ended.then(() => {
      clearInterval(timer);
      heard.unsubscribe(onPong);
    });
  }
}

function reasonOf(event: { message?: string; error?: unknown }): string {
  return event.error instanceof Error ? event.error.message : (event.message ?? "the connection was refused");
}

/** The Status at the end of a command; pure. */
export function readStatus(text: string): CommandEnd {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { code: null, why: `the command ended with ${text.slice(0, 200)}` };
  }
  const parsed = Status.safeParse(value);
  if (!parsed.success) return { code: null, why: `the command ended with ${text.slice(0, 200)}` };
  const { status, message, details } = parsed.data;
  if (status === "Success") return { code: 0, why: "the command ended" };
  const code = details?.causes?.find(({ reason }) => reason === "ExitCode")?.message;
  return { code: code === undefined ? null : Number(code), why: message ?? "the command failed" };
}
