/**
 * Fetch model: a model's files in a bucket → the same files in a folder, each with the size and SHA-256 that the bucket's
 * uplift-manifest.json lists. Reads below one prefix, many ranges at once; writes the folder.
 *
 * Killed at any moment, the next call goes on: a part that was written is noted in FOLDER/.uplift-fetch, a file gets its name when
 * its hash is right, and the manifest comes last. Throws WeightsError for what no further try would change.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { appendFile, type FileHandle, mkdir, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { GetObjectCommand, ListObjectsV2Command, type S3Client } from "@aws-sdk/client-s3";
import { z } from "zod";
import { CheckpointFile, MODEL_MANIFEST } from "../../../schemas/checkpoint.ts";

/** What is wrong with the model, or with the way to it, in a sentence for whoever serves it. */
export class WeightsError extends Error {}

export interface FetchModel {
  readonly s3: S3Client;
  readonly bucket: string;
  /** Without a slash at its end. */
  readonly prefix: string;
  readonly folder: string;
  /** What the folder's disk has for it. */
  readonly mostBytes: number;
  /** Bytes of one range. */
  readonly partBytes: number;
  /** Ranges at once. */
  readonly atOnce: number;
  /** After each part: bytes that are there, of all; `found`: what was there before. */
  onProgress(progress: { readonly done: number; readonly total: number; readonly found: number }): void;
}

/** A file of the model; its path never leads out of the folder. */
const File = CheckpointFile.extend({
  path: z.string().refine((path) => path.split("/").every((part) => !["", ".", ".."].includes(part))),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
type File = z.infer<typeof File>;

/** Of a model's manifest, what is needed to fetch it. */
const Manifest = z.object({ files: z.array(File).min(1) });

/** Commit of a base model; no file of the model itself. */
const REVISION = "uplift-revision";
const PARTIAL = ".uplift-fetch";
/** Seconds before each further try of a request, after those of the SDK: an outage of two minutes is waited out. */
const WAITS = [1, 2, 4, 8, 15, 30, 60];

/** A file under way. */
interface Underway {
  readonly file: File;
  readonly target: string;
  /** Bytes as they come, each part at its place. */
  readonly partial: string;
  /** Parts still missing. */
  missing: Set<number>;
  /** Some were there from a call before, whose disk may have lost what it had noted. */
  resumed: boolean;
}

/** Fetches what is missing; returns the bytes in all. */
export async function fetchModel(input: FetchModel): Promise<number> {
  const { bucket, prefix, folder, mostBytes, partBytes } = input;
  const text = (await bytesOf(input, MODEL_MANIFEST)).toString();
  const { files } = parsed(text, `s3://${bucket}/${prefix}/${MODEL_MANIFEST}`);
  const sizes = await listed(input);
  checkListed(files, sizes, `s3://${bucket}/${prefix}`);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total > mostBytes)
    throw new WeightsError(
      `the model in s3://${bucket}/${prefix} has ${gib(total)} GiB, and its node keeps ${gib(mostBytes)} GiB for it`,
    );

  await mkdir(join(folder, PARTIAL), { recursive: true });
  const underway: Underway[] = [];
  for (const [index, file] of files.entries()) {
    const target = join(folder, file.path);
    const size = await stat(target).then(
      ({ size }) => size,
      () => null,
    );
    // Only what was checked has its name.
    if (size === file.bytes) continue;
    const partial = join(folder, PARTIAL, `${index}-${file.sha256}`);
    underway.push(await begun({ file, target, partial }, partBytes));
  }
  const found = total - underway.reduce((sum, one) => sum + bytesLeft(one, partBytes), 0);
  const progress = { done: found, total, found };
  const report = (bytes: number) => {
    progress.done += bytes;
    input.onProgress({ ...progress });
  };
  report(0);

  const waiting = underway.flatMap((one) => [...one.missing].map((part) => ({ one, part })));
  // Whole, but not checked before the end came.
  for (const one of underway) if (one.missing.size === 0) await finish(one, input, report);
  const read = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { bytes, isLast } = await fetchPart(next.one, next.part, input);
      report(bytes);
      if (isLast) await finish(next.one, input, report);
    }
  };
  const failures: unknown[] = [];
  await Promise.all(
    Array.from({ length: input.atOnce }, () =>
      read().catch((error: unknown) => {
        failures.push(error);
        waiting.length = 0;
      }),
    ),
  );
  // Of several, the one that says most.
  if (failures.length > 0) throw failures.find((error) => error instanceof WeightsError) ?? failures[0];

  if (sizes.has(REVISION)) await writeFile(join(folder, REVISION), await bytesOf(input, REVISION));
  await writeFile(join(folder, MODEL_MANIFEST), text);
  await rm(join(folder, PARTIAL), { recursive: true });
  return total;
}

/** What an earlier call left of a file. */
async function begun(one: Omit<Underway, "missing" | "resumed">, partBytes: number): Promise<Underway> {
  const noted = (await readFile(noteOf(one), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
  const there = new Set(noted.map(Number));
  const missing = partsOf(one.file, partBytes).filter((part) => !there.has(part));
  await (await open(one.partial, "a")).close();
  return { ...one, missing: new Set(missing), resumed: there.size > 0 };
}

/** The file with the numbers of the parts that are there, a line each. */
function noteOf({ partial }: Pick<Underway, "partial">): string {
  return `${partial}.parts`;
}

/** Numbers of all its parts. */
function partsOf({ bytes }: File, partBytes: number): number[] {
  return Array.from({ length: Math.ceil(bytes / partBytes) }, (_, part) => part);
}

function bytesLeft({ file, missing }: Underway, partBytes: number): number {
  return [...missing].reduce((sum, part) => sum + Math.min(partBytes, file.bytes - part * partBytes), 0);
}

/** Writes one part at its place and notes it; its bytes, and whether the file's others were all there. */
async function fetchPart(one: Underway, part: number, input: FetchModel): Promise<{ bytes: number; isLast: boolean }> {
  const { file, partial } = one;
  const first = part * input.partBytes;
  const bytes = Math.min(input.partBytes, file.bytes - first);
  const handle = await open(partial, "r+");
  try {
    await tried(input, file.path, async () => {
      const range = `bytes=${first}-${first + bytes - 1}`;
      const { Body } = await input.s3.send(
        new GetObjectCommand({ Bucket: input.bucket, Key: `${input.prefix}/${file.path}`, Range: range }),
      );
      const written = await writeAll(Body as Readable, handle, first);
      if (written !== bytes) throw new Error(`${file.path}: ${written} bytes came for ${range}`);
    });
  } finally {
    await handle.close();
  }
  await appendFile(noteOf(one), `${part}\n`);
  one.missing.delete(part);
  return { bytes, isLast: one.missing.size === 0 };
}

async function writeAll(body: Readable, handle: FileHandle, start: number): Promise<number> {
  let position = start;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    await handle.write(chunk, 0, chunk.length, position);
    position += chunk.length;
  }
  return position - start;
}

/** Gives a file its name if its bytes are the manifest's; what an earlier call left is fetched once more before it is blamed. */
async function finish(one: Underway, input: FetchModel, report: (bytes: number) => void): Promise<void> {
  const { file, target, partial } = one;
  for (;;) {
    const found = await sha256Of(partial);
    if (found === file.sha256) break;
    await rm(noteOf(one), { force: true });
    if (!one.resumed)
      throw new WeightsError(
        `s3://${input.bucket}/${input.prefix}/${file.path} is damaged: its SHA-256 is ${found}, ${MODEL_MANIFEST} says ${file.sha256}`,
      );
    one.resumed = false;
    report(-file.bytes);
    const parts = partsOf(file, input.partBytes);
    one.missing = new Set(parts);
    for (const part of parts) report((await fetchPart(one, part, input)).bytes);
  }
  const handle = await open(partial, "r+");
  await handle.sync();
  await handle.close();
  await mkdir(dirname(target), { recursive: true });
  await rename(partial, target);
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 2 ** 20 })) hash.update(chunk);
  return hash.digest("hex");
}

function parsed(text: string, where: string): z.infer<typeof Manifest> {
  try {
    return Manifest.parse(JSON.parse(text));
  } catch {
    throw new WeightsError(`${where} is no list of a model's files: export the checkpoint again`);
  }
}

/** Names every file that is not there, or is of another size, before the first byte is fetched. */
function checkListed(files: readonly File[], sizes: ReadonlyMap<string, number>, where: string): void {
  const wrong = files.flatMap(({ path, bytes }) => {
    const size = sizes.get(path);
    if (size === undefined) return [`${path} is missing`];
    return size === bytes ? [] : [`${path} has ${size} bytes instead of ${bytes}`];
  });
  if (wrong.length === 0) return;
  const more = wrong.length > 5 ? `, and ${wrong.length - 5} more` : "";
  throw new WeightsError(`${where} is not what its ${MODEL_MANIFEST} lists: ${wrong.slice(0, 5).join(", ")}${more}`);
}

/** Sizes of the objects below the prefix, by path. */
async function listed(input: FetchModel): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  let token: string | undefined;
  do {
    const page = await tried(input, "the list of files", () =>
      input.s3.send(
        new ListObjectsV2Command({ Bucket: input.bucket, Prefix: `${input.prefix}/`, ContinuationToken: token }),
      ),
    );
    for (const { Key = "", Size = 0 } of page.Contents ?? []) sizes.set(Key.slice(input.prefix.length + 1), Size);
    token = page.NextContinuationToken;
  } while (token !== undefined);
  return sizes;
}

async function bytesOf(input: FetchModel, path: string): Promise<Buffer> {
  return tried(input, path, async () => {
    const { Body } = await input.s3.send(
      new GetObjectCommand({ Bucket: input.bucket, Key: `${input.prefix}/${path}` }),
    );
    const chunks: Buffer[] = [];
    for await (const chunk of Body as Readable) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  });
}

/** Asks again while the bucket's server is away; what it refuses is a WeightsError. */
async function tried<T>({ bucket, prefix }: FetchModel, path: string, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      const refused = refusal(error, bucket, `s3://${bucket}/${prefix}/${path}`);
      if (refused !== null) throw new WeightsError(refused, { cause: error });
      const seconds = WAITS[attempt];
      if (seconds === undefined || (error as NodeJS.ErrnoException).code === "ENOSPC") throw error;
      await sleep(seconds * 1000);
    }
  }
}

/** Why the server will not give it, however often it is asked; null for an outage. */
function refusal(error: unknown, bucket: string, where: string): string | null {
  if (!(error instanceof Error)) return null;
  const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
  if (error.name === "NoSuchBucket") return `there is no bucket ${bucket}`;
  if (error.name === "NoSuchKey" || status === 404) return `${where} is missing`;
  if (error.name === "PermanentRedirect" || status === 301) return `the bucket ${bucket} lies in another region`;
  if (error.name === "CredentialsProviderError") return `no credentials for s3://${bucket}: ${error.message}`;
  return status === 401 || status === 403 ? `${where} may not be read with these credentials (${error.name})` : null;
}

const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1);
