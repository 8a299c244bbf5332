/**
 * Log lines: a log that grows → its whole lines, each once. Reads only. It keeps its place, so that looking often costs
 * what was written since; a new one begins at the top. With it, what readers of a run's folder do about absent files.
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
    const file = await open(this.#path, "r").catch(ifAbsent(null));
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

/** For `catch`: only what is not there is `value`; a storage that cannot be read for a moment says nothing of what it holds. */
export function ifAbsent<T>(value: T) {
  return (error: NodeJS.ErrnoException): T => {
    if (error.code === "ENOENT") return value;
    throw error;
  };
}
