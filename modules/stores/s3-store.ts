/**
 * S3 store: buckets of an S3 API → an ObjectStore. The whole key is kept in the bucket its first segment decides.
 * Reads and writes these buckets, and a local folder of copies for those who need files. Credentials come from the SDK's
 * own chain: the environment, or the pod's identity.
 *
 * An object appears whole or not at all: S3 shows a PUT, or a multipart upload, when it is complete. Every object carries
 * the SHA-256 of its bytes, which is checked when it is read: S3's own checksum of a large object covers its parts only.
 * What a killed process left of a multipart upload is in no listing; a lifecycle rule of the bucket removes it.
 */
import { createHash, randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { checkKey, missing, TEMPORARY } from "./object-key.ts";
import { s3Error } from "./s3-errors.ts";

/** Buckets by what lies in them; one bucket may have several roles, or all. */
export interface S3Buckets {
  readonly snapshots: string;
  readonly checkpoints: string;
  readonly traces: string;
  readonly datasets: string;
}

/** Where the buckets are: `objects` of a cluster stack's outputs. */
export interface S3Location {
  /** Null for AWS's own. */
  readonly endpoint: string | null;
  readonly region: string;
  readonly buckets: S3Buckets;
}

export interface S3StoreOptions {
  /** Folder of local copies that `folder` makes; of one process at a time. */
  readonly copies: string;
  /** Bytes of one part of a large upload: at least 5 MiB, S3's least. Default 16 MiB. */
  readonly partBytes?: number;
  /** A connection on which nothing moves for so long is given up. Default 20. */
  readonly idleSeconds?: number;
}

/** Which bucket a key's first segment means; whatever is not listed is input of a run, as data sets are. */
const ROLES: Readonly<Record<string, keyof S3Buckets>> = {
  snapshots: "snapshots",
  checkpoints: "checkpoints",
  traces: "traces",
  evaluations: "traces",
};

/** The user metadata that holds an object's digest. */
const DIGEST = "uplift-sha256";
/** S3 takes at most 10 000 parts. */
const MOST_PARTS = 10_000;
/** Times a read is begun whose connection breaks half-way; the SDK repeats only requests that fail before an answer. */
const READS = 3;
/** Objects that `folder` reads at once. */
const AT_ONCE = 8;

interface Listed {
  readonly key: string;
  readonly bytes: number;
  readonly etag: string;
}

/** An object store on S3; connects when it is first used. */
export function createS3Store(location: S3Location, options: S3StoreOptions): ObjectStore {
  return new S3Store(location, options);
}

/** The bucket of a key. */
export function bucketOf(key: string, buckets: S3Buckets): string {
  return buckets[ROLES[key.split("/", 1)[0] ?? ""] ?? "datasets"];
}

class S3Store implements ObjectStore {
  readonly #client: S3Client;
  readonly #location: S3Location;
  readonly #copies: string;
  readonly #partBytes: number;
  /** Copies are made one prefix at a time: two of them may share files. */
  #copying: Promise<unknown> = Promise.resolve();

  constructor(location: S3Location, options: S3StoreOptions) {
    const { endpoint, region } = location;
    this.#location = location;
    this.#copies = options.copies;
    this.#partBytes = options.partBytes ?? 16 * 2 ** 20;
    this.#client = new S3Client({
      region,
      // Other servers than AWS's know neither buckets as host names nor, all of them, the newer checksum headers. Bodies
      // are signed with their SHA-256 either way.
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true, requestChecksumCalculation: "WHEN_REQUIRED" }),
      requestHandler: { connectionTimeout: 5000, socketTimeout: (options.idleSeconds ?? 20) * 1000 },
    });
  }

  async put(key: string, bytes: Uint8Array | string): Promise<void> {
    const body = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
    await this.#told(checkKey(key), () =>
      this.#client.send(new PutObjectCommand(this.#params(key, sha256(body), body))),
    );
  }

  async putFile(key: string, path: string): Promise<void> {
    checkKey(key);
    // Whoever wrote the file may go on writing to it. What is stored is its bytes up to here, and nothing where they are
    // not the same when they are sent as when they were hashed: then the upload ends before it is complete.
    const { size } = await stat(path);
    const digest = await digestOf(path, size);
    const upload = new Upload({
      client: this.#client,
      params: this.#params(key, digest, Readable.from(unchanged(path, size, digest))),
      partSize: Math.max(this.#partBytes, Math.ceil(size / MOST_PARTS)),
    });
    await this.#told(key, () => upload.done());
  }

  async get(key: string): Promise<Uint8Array> {
    const chunks: Buffer[] = [];
    await this.#read(checkKey(key), async (body) => {
      chunks.length = 0;
      for await (const chunk of body) chunks.push(chunk as Buffer);
    });
    return Buffer.concat(chunks);
  }

  /** Asked by a listing: the answer to HEAD has no body that would tell a missing bucket from a missing object. */
  async exists(key: string): Promise<boolean> {
    const answer = await this.#told(checkKey(key), () =>
      this.#client.send(new ListObjectsV2Command({ Bucket: this.#bucket(key), Prefix: key, MaxKeys: 1 })),
    );
    return answer.Contents?.[0]?.Key === key;
  }

  async list(prefix: string): Promise<string[]> {
    const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    if (folder !== "") checkKey(folder.slice(0, -1));
    return (await this.#listed(prefix)).map(({ key }) => key).sort();
  }

  /** A copy under the folder of copies: what is there already is not read again, what is in the store no more is removed. */
  async folder(prefix: string): Promise<string> {
    const root = `${checkKey(prefix.replace(/\/$/, ""))}/`;
    const copied = this.#copying.then(() => this.#copy(root));
    this.#copying = copied.catch(() => undefined);
    return copied;
  }

  async #copy(root: string): Promise<string> {
    const listed = await this.#listed(root);
    if (listed.length === 0) throw missing(this.#bucket(root), root);
    // Someone else may have put a key here that would lead out of the folder.
    for (const { key } of listed) checkKey(key);
    const waiting = [...listed];
    const readers = Array.from({ length: AT_ONCE }, async () => {
      for (let next = waiting.pop(); next; next = waiting.pop()) await this.#copyOne(next);
    });
    const failed = (await Promise.allSettled(readers)).find((reader) => reader.status === "rejected");
    if (failed) throw failed.reason;
    const folder = join(this.#copies, root);
    const kept = new Set(listed.map(({ key }) => join(this.#copies, key)));
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (!entry.isDirectory() && !kept.has(path)) await rm(path);
    }
    return folder.slice(0, -1);
  }

  async #copyOne({ key, bytes, etag }: Listed): Promise<void> {
    const target = join(this.#copies, key);
    // The ETag of what was copied, beside the copies and not among them.
    const note = join(this.#copies, TEMPORARY, "etags", key);
    const size = await stat(target).then(
      (found) => (found.isFile() ? found.size : null),
      () => null,
    );
    if (size === bytes && (await readFile(note, "utf8").catch(() => "")) === etag) return;
    const partial = join(this.#copies, TEMPORARY, randomUUID());
    for (const path of [target, note]) await mkdir(dirname(path), { recursive: true });
    try {
      await this.#read(key, (body) => pipeline(body, createWriteStream(partial)));
      // In this order a note never speaks of other bytes, wherever this is interrupted.
      await rm(note, { force: true });
      await rename(partial, target);
      await writeFile(note, etag);
    } finally {
      await rm(partial, { force: true });
    }
  }

  /** Hands an object's bytes to `sink` and returns when they are all there with their recorded digest. */
  async #read(key: string, sink: (body: Readable) => Promise<void>): Promise<void> {
    const bucket = this.#bucket(key);
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#told(key, () => this.#client.send(new GetObjectCommand({ Bucket: bucket, Key: key })));
      const hash = createHash("sha256");
      const hashing = new Transform({
        transform(chunk: Buffer, _encoding, done) {
          hash.update(chunk);
          done(null, chunk);
        },
      });
      try {
        await Promise.all([pipeline(answer.Body as Readable, hashing), sink(hashing)]);
      } catch (error) {
        const told = s3Error(error, this.#context(key));
        if (attempt < READS && told instanceof UserError) continue;
        throw told;
      }
      const recorded = answer.Metadata?.[DIGEST];
      if (recorded !== undefined && recorded !== hash.digest("hex")) throw corrupt(bucket, key);
      return;
    }
  }

  async #listed(prefix: string): Promise<Listed[]> {
    const { buckets } = this.#location;
    // A prefix that ends within the first segment may mean keys of several buckets.
    const asked = prefix.includes("/") ? [this.#bucket(prefix)] : [...new Set(Object.values(buckets))];
    const found: Listed[] = [];
    for (const bucket of asked) {
      let token: string | undefined;
      do {
        const page = await this.#told(
          prefix,
          () =>
            this.#client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken: token })),
          bucket,
        );
        for (const { Key: key = "", Size: bytes = 0, ETag: etag = "" } of page.Contents ?? []) {
          // Keys that end in "/" are folders to consoles and to FSx, and no objects of ours.
          if (!key.endsWith("/") && bucketOf(key, buckets) === bucket) found.push({ key, bytes, etag });
        }
        token = page.NextContinuationToken;
      } while (token !== undefined);
    }
    return found;
  }

  async #told<T>(key: string, ask: () => Promise<T>, bucket = this.#bucket(key)): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof Error && error.name === "NoSuchKey") throw missing(`s3://${bucket}`, key);
      throw s3Error(error, { ...this.#context(key), bucket });
    }
  }

  #context(key: string) {
    const { endpoint, region } = this.#location;
    return { endpoint, region, bucket: this.#bucket(key), key };
  }

  #bucket(key: string): string {
    return bucketOf(key, this.#location.buckets);
  }

  #params<Body>(key: string, digest: string, body: Body) {
    return { Bucket: this.#bucket(key), Key: key, Body: body, Metadata: { [DIGEST]: digest } };
  }
}

/** The first `size` bytes of a file. */
async function* beginning(path: string, size: number): AsyncGenerator<Buffer> {
  if (size === 0) return;
  yield* createReadStream(path, { end: size - 1, highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>;
}

async function digestOf(path: string, size: number): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of beginning(path, size)) hash.update(chunk);
  return hash.digest("hex");
}

/** The same bytes again; throws at their end when they are not the ones the digest was made from. */
async function* unchanged(path: string, size: number, digest: string): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  for await (const chunk of beginning(path, size)) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest("hex") === digest) return;
  throw new UserError({
    code: "object-source-changed",
    path,
    asked: "the file was to be stored",
    found: "its content changed while it was read",
    allowed: "a file that nobody writes to meanwhile",
    todo: "store it when whoever writes it is done",
  });
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function corrupt(bucket: string, key: string): UserError {
  return new UserError({
    code: "object-corrupt",
    path: `s3://${bucket}/${key}`,
    asked: "this object was read",
    found: "its bytes are not those that were stored: their SHA-256 differs from the one kept with it",
    allowed: "the bytes as they were stored",
    todo: "restore the object's earlier version (the buckets are versioned), or have it made again",
  });
}
