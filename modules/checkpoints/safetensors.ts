/**
 * Safetensors: a weights file → what is wrong with it, without reading the weights.
 * Takes a path; reads the header only. The format: 8 bytes little-endian header length, a JSON header of
 * name → {dtype, shape, data_offsets}, then the tensors' bytes without gaps.
 */
import { open } from "node:fs/promises";
import { z } from "zod";

/** Bits of one element. */
const BITS: Record<string, number> = {
  BOOL: 8,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  F8_E8M0: 8,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  I64: 64,
  U64: 64,
  F64: 64,
  C64: 64,
};

/** The format's own limit. */
const LARGEST_HEADER = 100_000_000;

const Header = z.record(
  z.string(),
  z.object({
    dtype: z.string(),
    shape: z.array(z.number().int().nonnegative()),
    data_offsets: z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]),
  }),
);

/** The names of a file's tensors, or what is wrong with it. */
export async function readTensorNames(path: string): Promise<{ names: string[] } | { wrong: string }> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (size < 8) return { wrong: `has ${size} bytes, too few for a header` };
    const length = Number((await file.read(Buffer.alloc(8), 0, 8, 0)).buffer.readBigUInt64LE(0));
    if (length > LARGEST_HEADER || 8 + length > size)
      return { wrong: `its header of ${length} bytes does not fit the file of ${size}` };
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, 8);
    return checkHeader(buffer.toString("utf8"), size - 8 - length);
  } finally {
    await file.close();
  }
}

function checkHeader(text: string, dataBytes: number): { names: string[] } | { wrong: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { wrong: "its header is not JSON" };
  }
  if (typeof value !== "object" || value === null) return { wrong: "its header is not an object" };
  const { __metadata__, ...tensors } = value as Record<string, unknown>;
  const header = Header.safeParse(tensors);
  if (!header.success) return { wrong: `its header: ${z.prettifyError(header.error).replaceAll("\n", " ")}` };
  const entries = Object.entries(header.data).sort(
    ([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0] || a.data_offsets[1] - b.data_offsets[1],
  );
  if (entries.length === 0) return { wrong: "it has no tensors" };
  let expected = 0;
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [begin, end],
    },
  ] of entries) {
    const bits = BITS[dtype];
    if (bits === undefined) return { wrong: `tensor ${name} has the unknown type ${dtype}` };
    const bytes = (shape.reduce((product, side) => product * side, 1) * bits) / 8;
    if (begin !== expected || end - begin !== bytes)
      return { wrong: `tensor ${name} of ${bytes} bytes lies at ${begin}–${end}, expected at ${expected}` };
    expected = end;
  }
  if (expected !== dataBytes)
    return {
      wrong: `its tensors end at ${expected} and its data at ${dataBytes}: the file is cut or has been appended to`,
    };
  return { names: entries.map(([name]) => name) };
}
