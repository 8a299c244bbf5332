/**
 * Test WebSocket: the server's side of RFC 6455, as far as an API server needs it for exec. For the tests beside this file.
 * Comes in: an upgrade request and its socket. Goes out: messages. Binary messages, pings, closes; no extensions.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** One accepted connection. */
export class ServerSocket {
  readonly #socket: Duplex;
  #rest: Buffer = Buffer.alloc(0);
  #fragments: Buffer[] = [];
  onMessage: (message: Buffer) => void = () => {};
  onClose: () => void = () => {};
  /** False makes it one that is connected and dead. */
  answersPings = true;

  constructor(request: IncomingMessage, socket: Duplex, protocol: string) {
    this.#socket = socket;
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${GUID}`).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: ${protocol}\r\n\r\n`,
    );
    socket.on("data", (piece: Buffer) => this.#read(piece));
    socket.on("error", () => {}); // The other side is gone; "close" follows.
    socket.on("close", () => this.onClose());
  }

  send(message: Buffer): void {
    this.#frame(BINARY, message);
  }

  close(): void {
    this.#frame(CLOSE, Buffer.from([0x03, 0xe8]));
    this.#socket.end();
  }

  /** As when a wire is cut. */
  destroy(): void {
    this.#socket.destroy();
  }

  #frame(opcode: number, body: Buffer): void {
    if (this.#socket.destroyed || this.#socket.writableEnded) return;
    const head = Buffer.alloc(body.length < 126 ? 2 : body.length < 65_536 ? 4 : 10);
    head[0] = 0x80 | opcode;
    if (head.length === 2) head[1] = body.length;
    else if (head.length === 4) head.writeUInt16BE(body.length, 2);
    else head.writeBigUInt64BE(BigInt(body.length), 2);
    if (head.length > 2) head[1] = head.length === 4 ? 126 : 127;
    this.#socket.write(Buffer.concat([head, body]));
  }

  #read(piece: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, piece]);
    for (;;) {
      const all = this.#rest;
      if (all.length < 2) return;
      const [first = 0, second = 0] = all;
      let length = second & 0x7f;
      let offset = 2;
      if (length === 126) {
        if (all.length < 4) return;
        length = all.readUInt16BE(2);
        offset = 4;
      } else if (length === 127) {
        if (all.length < 10) return;
        length = Number(all.readBigUInt64BE(2));
        offset = 10;
      }
      if (all.length < offset + 4 + length) return;
      const mask = all.subarray(offset, offset + 4);
      const body = Buffer.from(all.subarray(offset + 4, offset + 4 + length));
      for (let index = 0; index < body.length; index++) body[index] = (body[index] ?? 0) ^ (mask[index % 4] ?? 0);
      this.#rest = all.subarray(offset + 4 + length);
      this.#take(first & 0x0f, (first & 0x80) !== 0, body);
    }
  }

  #take(opcode: number, isLast: boolean, body: Buffer): void {
    if (opcode === PING && this.answersPings) this.#frame(PONG, body);
    if (opcode === CLOSE) this.close();
    if (opcode > BINARY) return;
    this.#fragments.push(body);
    if (isLast) this.onMessage(Buffer.concat(this.#fragments.splice(0)));
  }
}
