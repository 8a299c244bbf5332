/** Lines and bytes out of pieces of any size. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameReader } from "./frame-reader.ts";

describe("a frame reader", () => {
  it("gives the same lines and bytes however the stream is cut", async () => {
    const stream = Buffer.from('{"a":"é"}\n{"bytes":5}\n12\n45{"b":[]}\n');
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: stream.length - 1 })), async (cuts) => {
        const reader = new FrameReader(1000);
        const edges = [0, ...[...new Set(cuts)].sort((a, b) => a - b), stream.length];
        const read = (async () => [
          await reader.next(),
          await reader.next(),
          (await reader.bytes(5)).toString(),
          await reader.next(),
        ])();
        for (let i = 1; i < edges.length; i++) {
          reader.push(stream.subarray(edges[i - 1], edges[i]));
          if (i % 2 === 0) await new Promise(setImmediate);
        }
        expect(await read).toEqual([{ line: { a: "é" } }, { line: { bytes: 5 } }, "12\n45", { line: { b: [] } }]);
      }),
    );
  });

  it("rejects a line that is too long, one that is no JSON, and more than anyone asked for", async () => {
    const long = new FrameReader(10);
    const waiting = long.next();
    long.push(Buffer.alloc(11, "x"));
    await expect(waiting).rejects.toThrow("too long");
    await expect(long.next()).rejects.toThrow("too long");
    const wrong = new FrameReader(10);
    wrong.push(Buffer.from("{]\n"));
    await expect(wrong.next()).rejects.toThrow();
    const unasked = new FrameReader(10);
    unasked.push(Buffer.alloc(11));
    await expect(unasked.bytes(1)).rejects.toThrow("more came");
  });

  it("rejects whoever waits when the sandbox is gone, and everyone after", async () => {
    const reader = new FrameReader(10);
    const waiting = reader.bytes(3);
    reader.fail(new Error("gone"));
    await expect(waiting).rejects.toThrow("gone");
    await expect(reader.next()).rejects.toThrow("gone");
  });
});
