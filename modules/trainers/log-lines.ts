/**
 * Log lines: a log that grows → its whole lines, each once. Reads only. It keeps its place, so that looking often costs
 * what was written since; a new one begins at the top.
 */
import { open } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";

/** Bytes read at once: a log of an hour may be hundreds of MB. */
const CHUNK = 1 << 20;

/** One log. An absent file has no lines yet. */
export class LogLines {
  readonly #path: string;
  #offset = 0;
  #rest = "";
  #decoder = new StringDecoder("utf8");

  constructor(path: string) {
    this.#path = path;
  }

  /** Hands over every line that was finished since the last call. */
  async read(take: (line: string) => void): Promise<void> {
    const file = await open(this.#path, "r").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null;
      throw error;
    });
    if (file === null) return;
    try {
      const buffer = Buffer.alloc(CHUNK);
      for (;;) {
        const { bytesRead } = await file.read(buffer, 0, CHUNK, this.#offset);
        if (bytesRead === 0) return;
        this.#offset += bytesRead;
        const lines = (this.#rest + this.#decoder.write(buffer.subarray(0, bytesRead))).split("\n");
        this.#rest = lines.pop() ?? "";
        for (const line of lines) take(line);
      }
    } finally {
      await file.close();
    }
  }
}
