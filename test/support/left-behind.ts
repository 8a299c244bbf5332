/**
 * Left behind: folders, buckets and databases → what lies in them, as bytes; and which of it holds a text, as it is or in base64.
 */
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { gunzipSync, inflateSync } from "node:zlib";
import { GetObjectCommand, paginateListObjectsV2, type S3Client } from "@aws-sdk/client-s3";
import { writtenAs } from "./secret-search.ts";

/** One file, object or dump; `name` is searched too. */
export interface Left {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Every file below a folder, what is gzipped and Git's objects unpacked; those that go while this reads are left out. */
export async function filesIn(folder: string): Promise<Left[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const found: Left[] = [];
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null;
      throw error;
    });
    if (bytes) found.push({ name: relative(folder, path), bytes: unpacked(bytes) });
  }
  return found;
}

/** Every object of a bucket. */
export async function objectsIn(client: S3Client, bucket: string): Promise<Left[]> {
  const found: Left[] = [];
  for await (const { Contents = [] } of paginateListObjectsV2({ client }, { Bucket: bucket }))
    for (const { Key: name = "" } of Contents) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: name }));
      found.push({ name, bytes: unpacked(Buffer.from((await Body?.transformToByteArray()) ?? [])) });
    }
  return found;
}

/** Names of those that hold it. */
export function holdersOf(text: string, left: readonly Left[]): string[] {
  const forms = writtenAs(Buffer.from(text));
  return left
    .filter(({ name, bytes }) => forms.some((form) => name.includes(form) || bytes.includes(form)))
    .map(({ name }) => name);
}

function unpacked(bytes: Buffer): Buffer {
  try {
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) return gunzipSync(bytes);
    if (bytes[0] === 0x78) return inflateSync(bytes);
  } catch {
    // It only begins so.
  }
  return bytes;
}
