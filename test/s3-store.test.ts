/**
 * The S3 store against moto's real HTTP server: the contract of every object store, and what only S3 has: parts, buckets,
 * credentials, outages, bytes that somebody else changed.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer as createProxy, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { objectStoreContract } from "../modules/stores/object-store-contract.ts";
import { createS3Store, type S3Buckets } from "../modules/stores/s3-store.ts";
import { type Moto, startMoto } from "./support/moto.ts";

const REGION = "us-east-1";
const MIB = 2 ** 20;

let moto: Moto;
let raw: S3Client;
let number = 0;

beforeAll(async () => {
  process.env.AWS_ACCESS_KEY_ID = "test";
  process.env.AWS_SECRET_ACCESS_KEY = "test";
  moto = await startMoto();
  raw = clientOf(moto);
});
afterAll(async () => {
  await moto.stop();
  delete process.env.AWS_ACCESS_KEY_ID;
  delete process.env.AWS_SECRET_ACCESS_KEY;
});

function clientOf({ url }: Moto): S3Client {
  return new S3Client({ endpoint: url, region: REGION, forcePathStyle: true });
}

/** New buckets: four, or one for everything. */
async function makeBuckets(kind: "four" | "one", client = raw): Promise<S3Buckets> {
  number += 1;
  const name = (role: string) => (kind === "four" ? `uplift-${number}-${role}` : `uplift-${number}`);
  const buckets = {
    snapshots: name("snapshots"),
    checkpoints: name("checkpoints"),
    traces: name("traces"),
    datasets: name("datasets"),
  };
  for (const Bucket of new Set(Object.values(buckets))) await client.send(new CreateBucketCommand({ Bucket }));
  return buckets;
}

const storeOn = (buckets: S3Buckets, copies: string, more: { endpoint?: string; idleSeconds?: number } = {}) =>
  createS3Store(
    { endpoint: more.endpoint ?? moto.url, region: REGION, buckets },
    { copies, partBytes: 5 * MIB, idleSeconds: more.idleSeconds ?? 20 },
  );

/** A proxy before a server that breaks connections as `judge` says of the bytes each carried so far. */
async function breakingProxy(target: string, judge: (sent: number, received: number) => boolean) {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const proxy = createProxy((client) => {
    const server = connect(Number(port), hostname);
    const carried = { sent: 0, received: 0 };
    const end = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.on("error", end).on("close", end);
    sockets.add(client);
    client.on("data", (bytes) => {
      carried.sent += bytes.length;
      if (judge(carried.sent, carried.received)) end();
      else server.write(bytes);
    });
    server.on("data", (bytes) => {
      carried.received += bytes.length;
      if (judge(carried.sent, carried.received)) client.write(bytes.subarray(0, 2000), end);
      else client.write(bytes);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => proxy.close(resolve));
  };
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, stop };
}

const cutShort = (target: string, bytes: number) => breakingProxy(target, (sent) => sent > bytes);

/** Breaks the first `times` answers that are larger than 10 000 bytes. */
function breakingReads(target: string, times: number) {
  let left = times;
  return breakingProxy(target, (_sent, received) => received > 10_000 && left-- > 0);
}

describe.each(["four", "one"] as const)("a store on %s bucket(s), as every object store,", (kind) => {
  objectStoreContract(async (root) => storeOn(await makeBuckets(kind), join(root, "copies")));
});

describe("a store on S3", () => {
  let root: string;
  let buckets: S3Buckets;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "uplift-s3-"));
    buckets = await makeBuckets("four");
  });
  afterEach(() => rm(root, { recursive: true, force: true }));
  const store = () => storeOn(buckets, join(root, "copies"));
  const uploadsUnderWay = async () =>
    (await raw.send(new ListMultipartUploadsCommand({ Bucket: buckets.checkpoints }))).Uploads ?? [];

  test("puts each kind of object into its bucket and under its whole key", async () => {
    for (const key of ["snapshots/1", "checkpoints/1", "traces/1", "datasets/1"]) await store().put(key, key);
    for (const role of ["snapshots", "checkpoints", "traces", "datasets"] as const) {
      const found = await raw.send(new GetObjectCommand({ Bucket: buckets[role], Key: `${role}/1` }));
      expect(await found.Body?.transformToString()).toBe(`${role}/1`);
    }
  });

  test("sends a large file in parts and gives back the same bytes, as bytes and as a folder", async () => {
    const bytes = randomBytes(12 * MIB + 1);
    await writeFile(join(root, "weights"), bytes);
    await store().putFile("checkpoints/1/model/weights", join(root, "weights"));
    const { ETag } = await raw.send(
      new HeadObjectCommand({ Bucket: buckets.checkpoints, Key: "checkpoints/1/model/weights" }),
    );
    // S3 writes the number of parts behind the dash.
    expect(ETag).toMatch(/-3"$/);
    expect(bytes.equals(Buffer.from(await store().get("checkpoints/1/model/weights")))).toBe(true);
    const folder = await store().folder("checkpoints/1/model");
    expect(bytes.equals(await readFile(join(folder, "weights")))).toBe(true);
  });

  test("lists more objects than one answer of S3 holds", async () => {
    const keys = Array.from({ length: 1005 }, (_, index) => `datasets/${String(index).padStart(4, "0")}`);
    for (let from = 0; from < keys.length; from += 50)
      await Promise.all(keys.slice(from, from + 50).map((key) => store().put(key, "x")));
    expect(await store().list("datasets/")).toEqual(keys);
  });

  test("stores nothing of a file that changes while it is sent, and leaves no upload half-done", async () => {
    const path = join(root, "changing");
    await writeFile(path, randomBytes(12 * MIB));
    await store().put("checkpoints/1", "before");
    // The file is read once for its digest and once to be sent; its last bytes count on all the while.
    const file = await open(path, "r+");
    let done = false;
    const changing = (async () => {
      for (const bytes = Buffer.alloc(4); !done; bytes.writeUInt32LE(bytes.readUInt32LE() + 1))
        await file.write(bytes, 0, 4, 12 * MIB - 4);
    })();
    await expect(store().putFile("checkpoints/1", path)).rejects.toMatchObject({ code: "object-source-changed" });
    done = true;
    await changing;
    await file.close();
    expect(new TextDecoder().decode(await store().get("checkpoints/1"))).toBe("before");
    expect(await uploadsUnderWay()).toEqual([]);
  });

  test("stores no part of a file whose sending the server cuts short, and leaves what was there", async () => {
    const path = join(root, "file");
    await writeFile(path, randomBytes(6 * MIB));
    await store().put("checkpoints/1", "before");
    const limited = await cutShort(moto.url, 2 * MIB);
    const cut = storeOn(buckets, join(root, "copies"), { endpoint: limited.url });
    await expect(cut.putFile("checkpoints/1", path)).rejects.toMatchObject({ code: "object-store-unreachable" });
    await limited.stop();
    expect(new TextDecoder().decode(await store().get("checkpoints/1"))).toBe("before");
  });

  test("reads again what breaks off half-way, and gives up on what always does", async () => {
    await store().put("traces/1", "x".repeat(100_000));
    const once = await breakingReads(moto.url, 1);
    const text = await storeOn(buckets, join(root, "copies"), { endpoint: once.url }).get("traces/1");
    expect(text.byteLength).toBe(100_000);
    await once.stop();
    const always = await breakingReads(moto.url, Number.POSITIVE_INFINITY);
    const broken = storeOn(buckets, join(root, "copies"), { endpoint: always.url });
    await expect(broken.get("traces/1")).rejects.toMatchObject({ code: "object-store-unreachable" });
    await expect(broken.folder("traces")).rejects.toMatchObject({ code: "object-store-unreachable" });
    await always.stop();
  });

  test("refuses bytes that are not the ones that were stored", async () => {
    await store().put("traces/1", "what was stored");
    const key = { Bucket: buckets.traces, Key: "traces/1" };
    const { Metadata } = await raw.send(new HeadObjectCommand(key));
    await raw.send(new PutObjectCommand({ ...key, Body: "what was storeD", Metadata }));
    await expect(store().get("traces/1")).rejects.toMatchObject({ code: "object-corrupt" });
    await expect(store().folder("traces")).rejects.toMatchObject({ code: "object-corrupt" });
    expect(await readdir(join(root, "copies", ".tmp"))).toEqual(["etags"]);
  });

  test("gives what others stored, ignores their folder marks, and lets no key lead out of its copies", async () => {
    const put = (Key: string) => raw.send(new PutObjectCommand({ Bucket: buckets.datasets, Key, Body: "theirs" }));
    await put("datasets/");
    await put("datasets/theirs/");
    await put("datasets/theirs/a");
    // Another role's key in this bucket is not ours.
    await put("traces/stray");
    expect(await store().list("")).toEqual(["datasets/theirs/a"]);
    expect(await readFile(join(await store().folder("datasets/theirs"), "a"), "utf8")).toBe("theirs");
    await put("datasets/theirs/../../../../out");
    await expect(store().folder("datasets/theirs")).rejects.toMatchObject({ code: "object-key" });
  });

  test("reads a copy again only where the object has changed, and removes what is gone", async () => {
    await store().put("datasets/d/same", "same");
    await store().put("datasets/d/other", "old");
    const folder = await store().folder("datasets/d");
    // Whoever asks again gets the file that is there: a mark of ours in it, of equal length, shows that it was not read again.
    await writeFile(join(folder, "same"), "mark");
    await writeFile(join(folder, "stray"), "left of an object that is gone");
    await store().put("datasets/d/other", "new");
    await store().folder("datasets/d");
    expect((await readdir(folder)).sort()).toEqual(["other", "same"]);
    expect(await readFile(join(folder, "same"), "utf8")).toBe("mark");
    expect(await readFile(join(folder, "other"), "utf8")).toBe("new");
  });

  test("says that a bucket is missing, whatever was asked", async () => {
    const absent = { snapshots: "no", checkpoints: "no", traces: "no", datasets: "no" };
    const empty = storeOn(absent, join(root, "copies"));
    await writeFile(join(root, "file"), "x");
    for (const work of [
      () => empty.put("a", "x"),
      () => empty.putFile("a", join(root, "file")),
      () => empty.get("a"),
      () => empty.exists("a"),
      () => empty.list(""),
      () => empty.folder("a"),
    ])
      await expect(work()).rejects.toMatchObject({
        code: "object-bucket-missing",
        issues: [{ asked: `bucket no at ${moto.url} was to be used` }],
      });
  });
});

describe("a store on S3 that is not let in", () => {
  test("says so, and names no key", async () => {
    const guarded = await startMoto();
    const root = await mkdtemp(join(tmpdir(), "uplift-s3-"));
    try {
      const buckets = await makeBuckets("one", clientOf(guarded));
      // From now on moto checks who asks, as S3 does; the key "test" is nobody's.
      await fetch(`${guarded.url}/moto-api/reset-auth`, { method: "POST", body: "0" });
      const store = storeOn(buckets, root, { endpoint: guarded.url });
      for (const work of [
        () => store.put("a", "x"),
        () => store.get("a"),
        () => store.exists("a"),
        () => store.list(""),
      ])
        await expect(work()).rejects.toMatchObject({ code: "object-access-denied" });
    } finally {
      await guarded.stop();
      await rm(root, { recursive: true, force: true });
    }
  });
});

describe("a store on S3 during an outage", () => {
  let failing: Moto;
  let root: string;
  let buckets: S3Buckets;

  beforeEach(async () => {
    failing = await startMoto();
    root = await mkdtemp(join(tmpdir(), "uplift-s3-"));
    buckets = await makeBuckets("one", clientOf(failing));
  });
  afterEach(async () => {
    await failing.stop();
    await rm(root, { recursive: true, force: true });
  });
  const store = () => storeOn(buckets, root, { endpoint: failing.url, idleSeconds: 1 });

  test("gives up in time on a server that takes connections and says nothing, and works again after it", async () => {
    await store().put("a", "x");
    failing.pause();
    const started = Date.now();
    await expect(store().get("a")).rejects.toMatchObject({ code: "object-store-unreachable" });
    await expect(store().put("b", "y")).rejects.toMatchObject({ code: "object-store-unreachable" });
    expect(Date.now() - started).toBeLessThan(30_000);
    failing.resume();
    expect(new TextDecoder().decode(await store().get("a"))).toBe("x");
  });

  test("says that nothing answers where nobody listens", async () => {
    await failing.stop();
    await expect(store().get("a")).rejects.toMatchObject({ code: "object-store-unreachable" });
    await expect(store().exists("a")).rejects.toMatchObject({ code: "object-store-unreachable" });
  });
});
