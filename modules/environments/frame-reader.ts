/**
 * FrameReader: pieces of a byte stream → JSON lines, and raw bytes where a line announced them.
 * Comes in: buffers as they arrive from a sandbox. Goes out: promises. Pure; bounded, because the sender is not trusted.
 */

/** Reads frames from pieces; at most one reader waits at a time. */
export class FrameReader {
  readonly #maxLineBytes: number;
  #pieces: Buffer[] = [];
  #length = 0;
  #wanted: { take: () => boolean; reject: (error: Error) => void } | null = null;
  #failure: Error | null = null;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** Adds what arrived. */
  push(piece: Buffer): void {
    if (this.#failure !== null) return;
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#wanted === null && this.#length > this.#maxLineBytes)
      this.fail(new Error("more came than was asked for"));
    else this.#serve();
  }

  /** Rejects whoever waits and all who come later. */
  fail(error: Error): void {
    this.#failure ??= error;
    this.#pieces = [];
    this.#length = 0;
    this.#wanted?.reject(this.#failure);
    this.#wanted = null;
  }

  /** The next line, as JSON. */
  next(): Promise<{ line: unknown }> {
    return this.#wait(() => {
      const last = this.#pieces.at(-1);
      // Only the newest piece can hold the first newline, unless more than one piece came before anyone asked.
      if (last === undefined || (!last.includes(10) && !this.#pieces.some((piece) => piece.includes(10)))) {
        if (this.#length > this.#maxLineBytes) throw new Error("a line is too long");
        return null;
      }
      const all = this.#pieces.length === 1 ? last : Buffer.concat(this.#pieces);
      const end = all.indexOf(10);
      if (end > this.#maxLineBytes) throw new Error("a line is too long");
      this.#keep(all.subarray(end + 1));
      return { line: JSON.parse(all.toString("utf8", 0, end)) as unknown };
    });
  }

  /** The next so many bytes. */
  bytes(count: number): Promise<Buffer> {
    return this.#wait(() => {
      if (this.#length < count) return null;
      const all = Buffer.concat(this.#pieces);
      this.#keep(all.subarray(count));
      return all.subarray(0, count);
    });
  }

  #keep(rest: Buffer): void {
    this.#pieces = rest.length > 0 ? [rest] : [];
    this.#length = rest.length;
  }

  #wait<T>(take: () => T | null): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#failure !== null) return reject(this.#failure);
      if (this.#wanted !== null) return reject(new Error("two readers at once"));
      this.#wanted = {
        reject,
        take: () => {
          const taken = take();
          if (taken === null) return false;
          resolve(taken);
          return true;
        },
      };
      this.#serve();
    });
  }

  #serve(): void {
    const wanted = this.#wanted;
    if (wanted === null) return;
    try {
      if (wanted.take()) this.#wanted = null;
    } catch (error) {
      this.fail(error instanceof Error ? error : new Error(String(error)));
    }
  }
}
