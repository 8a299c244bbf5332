/**
 * The weights of an endpoint fetched from S3 (moto), by the program that its pod runs: whole, in ranges, on after a kill, and refused
 * where the bucket does not hold what the manifest lists.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, DeleteObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { execa } from "execa";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { digestJson } from "../schemas/digest.ts";
import { type Moto, startMoto } from "./support/moto.ts";

const root = resolve(import.meta.dirname, "..");
const MIB = 2 ** 20;
const BUCKET = "weights";
const PREFIX = "shared/runs/run-1/checkpoints/rl-40";
const AT = `s3://${BUCKET}/${PREFIX}`;
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** Sizes that are whole parts, no whole parts, one byte, and nothing. */
const FILES: Readonly<Record<string, Buffer>> = {
  "model-00001-of-00002.safetensors": randomBytes(5 * MIB),
  "model-00002-of-00002.safetensors": randomBytes(3 * MIB + 12_345),
  "config.json": Buffer.from('{"model_type":"qwen3_5"}'),
  "original/one.bin": Buffer.from("x"),
  "added_tokens.txt": Buffer.alloc(0),
};
const listedFiles = (files: Readonly<Record<string, Buffer>> = FILES) =>
  Object.entries(files).map(([path, bytes]) => ({ path, bytes: bytes.length, sha256: sha256(bytes) }));
const TOTAL = listedFiles().reduce((sum, { bytes }) => sum + bytes, 0);

let moto: Moto;
let client: S3Client;
let folder: string;
beforeAll(async () => {
  moto = await startMoto();
  client = new S3Client({
    ...{ region: "us-east-1", endpoint: moto.url, forcePathStyle: true },
    credentials: { accessKeyId: "id", secretAccessKey: "secret" },
  });
  await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
});
afterAll(async () => {
  client.destroy();
  await moto.stop();
});

const put = (path: string, body: Buffer | string) =>
  client.send(new PutObjectCommand({ Bucket: BUCKET, Key: `${PREFIX}/${path}`, Body: body }));
const putManifest = (files: unknown = listedFiles()) =>
  put("uplift-manifest.json", JSON.stringify({ schemaVersion: 1, checkpoint: "rl-40", tensors: 2, files }));

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-weights-"));
  for (const [path, bytes] of Object.entries(FILES)) await put(path, bytes);
  await putManifest();
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const argsOf = (more: Readonly<Record<string, string>> = {}) =>
  Object.entries({
    ...{ bucket: BUCKET, prefix: PREFIX, region: "us-east-1", folder, "most-gib": "1", "part-mib": "1" },
    ...{ endpoint: moto.url, ...more },
  }).flatMap(([name, value]) => [`--${name}`, value]);
const PROGRAM = ["--import", "tsx", "modules/serving/fetch-weights/main.ts"];
const env = { PATH: process.env.PATH, AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret", NODE_NO_WARNINGS: "1" };
const fetchWeights = async (more?: Readonly<Record<string, string>>) => {
  const ended = await execa(process.execPath, [...PROGRAM, ...argsOf(more)], {
    ...{ cwd: root, env, extendEnv: false, reject: false },
  });
  return { status: ended.exitCode, out: ended.stdout, error: ended.stderr };
};
const start = (more: Readonly<Record<string, string>>): ChildProcess =>
  spawn(process.execPath, [...PROGRAM, ...argsOf(more)], { cwd: root, env, stdio: "ignore" });

const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(2);
const files = async () =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
    .sort();
const expectWhole = async (more: readonly string[] = []) => {
  expect(await files()).toEqual([...Object.keys(FILES), "uplift-manifest.json", ...more].sort());
  // Hashes: comparing megabytes one by one takes vitest half a minute.
  for (const { path, sha256: hash } of listedFiles()) expect(sha256(await readFile(join(folder, path)))).toBe(hash);
};

/** What stands between the program and S3: it notes each range that is asked for, and may hold or break some. */
interface Between {
  readonly url: string;
  readonly ranges: string[];
  /** Answers that are let through; later ones are held back. Default: all. */
  most: number;
  /** Breaks the next answer's connection half way. */
  breaks: boolean;
  close(): void;
}
async function between(): Promise<Between> {
  const state = { ranges: [] as string[], most: Number.POSITIVE_INFINITY, breaks: false };
  const server: Server = createServer((incoming, outgoing) => {
    const { range } = incoming.headers;
    if (range !== undefined) state.ranges.push(`${incoming.url?.split("?")[0]?.slice(BUCKET.length + 2)} ${range}`);
    if (range !== undefined && state.ranges.length > state.most) return;
    const breaks = state.breaks && range !== undefined;
    if (breaks) state.breaks = false;
    const ask = request(`${moto.url}${incoming.url}`, { method: incoming.method, headers: incoming.headers });
    ask.on("response", (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      if (!breaks) return void answer.pipe(outgoing);
      answer.once("data", (chunk: Buffer) => outgoing.write(chunk, () => outgoing.destroy()));
    });
    incoming.pipe(ask);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return Object.assign(state, { url, close });
}

describe("a model in a bucket", () => {
  it("is fetched in ranges, whole, and taken by the look that follows", async () => {
    const way = await between();
    try {
      const { status, out } = await fetchWeights({ endpoint: way.url });
      expect({ status, out: out.replace(/after [\d.]+ s/, "after T s") }).toEqual({
        ...{ status: 0, out: `${gib(TOTAL)} GiB are there, 0.00 of them from before, after T s` },
      });
      await expectWhole();
      const large = way.ranges.filter((asked) => asked.includes("model-00002"));
      expect(large.map((asked) => asked.split(" ")[1]).sort()).toEqual([
        ...["bytes=0-1048575", "bytes=1048576-2097151", "bytes=2097152-3145727", "bytes=3145728-3158072"],
      ]);
    } finally {
      way.close();
    }
    const digest = digestJson(listedFiles().sort((a, b) => (a.path < b.path ? -1 : 1)));
    const look = join(root, "modules/serving/payload/check_model.py");
    await execa("python3", [look, "--folder", folder, "--digest", digest]);
  });

  it("brings the commit of a base model with it", async () => {
    await put("uplift-revision", "0123456789abcdef\n");
    expect((await fetchWeights()).status).toBe(0);
    await expectWhole(["uplift-revision"]);
    await client.send(new DeleteObjectCommand({ Bucket: BUCKET, Key: `${PREFIX}/uplift-revision` }));
  });

  it("is fetched on, not again, after its fetch was killed", async () => {
    const way = await between();
    try {
      way.most = 6;
      const child = start({ endpoint: way.url });
      const noted = async () => {
        const notes = (await files()).filter((path) => path.endsWith(".parts"));
        const texts = await Promise.all(notes.map((path) => readFile(join(folder, path), "utf8")));
        return texts.join("").split("\n").length - 1;
      };
      for (const end = Date.now() + 60_000; (await noted()) < 6 && Date.now() < end; ) await sleep(20);
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      const before = way.ranges.slice(0, 6);
      const all = new Set(way.ranges);
      expect(await noted()).toBe(6);
      expect(await files()).not.toContain("uplift-manifest.json");

      Object.assign(way, { most: Number.POSITIVE_INFINITY });
      way.ranges.length = 0;
      const { status, out } = await fetchWeights({ endpoint: way.url });
      expect(status).toBe(0);
      expect(out).toContain(`${gib(6 * MIB)} of them from before`);
      expect([...before, ...way.ranges].sort()).toEqual([...all].sort());
      await expectWhole();
    } finally {
      way.close();
    }
  });

  it("is asked for again where a connection breaks", async () => {
    const way = await between();
    try {
      way.breaks = true;
      expect((await fetchWeights({ endpoint: way.url })).status).toBe(0);
      expect(way.ranges.length).toBe(new Set(way.ranges).size + 1);
      await expectWhole();
    } finally {
      way.close();
    }
  });

  it("is fetched anew where the disk has lost what it had noted", async () => {
    const way = await between();
    way.most = 3;
    const child = start({ endpoint: way.url });
    const parts = async () => (await files()).filter((path) => path.endsWith(".parts"));
    for (const end = Date.now() + 60_000; (await parts()).length === 0 && Date.now() < end; ) await sleep(20);
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    way.close();
    const [note = ""] = await parts();
    await writeFile(join(folder, note.replace(/\.parts$/, "")), Buffer.alloc(5 * MIB));
    expect((await fetchWeights()).status).toBe(0);
    await expectWhole();
  });

  it("is refused with an object that is damaged, and fetched once that is mended", async () => {
    const path = "model-00001-of-00002.safetensors";
    const good = FILES[path] ?? Buffer.alloc(0);
    const bad = Buffer.from(good);
    bad[3 * MIB] = (bad[3 * MIB] ?? 0) ^ 1;
    await put(path, bad);
    expect(await fetchWeights()).toEqual({
      ...{ status: 78, out: "" },
      error: `uplift: ${AT}/${path} is damaged: its SHA-256 is ${sha256(bad)}, uplift-manifest.json says ${sha256(good)}`,
    });
    expect(await files()).not.toContain(path);
    await put(path, good);
    expect((await fetchWeights()).status).toBe(0);
    await expectWhole();
  });

  it("is refused before its first byte with files that are missing or of another size, each named", async () => {
    await client.send(new DeleteObjectCommand({ Bucket: BUCKET, Key: `${PREFIX}/config.json` }));
    await put("original/one.bin", "xyz");
    expect(await fetchWeights()).toEqual({
      ...{ status: 78, out: "" },
      error: `uplift: ${AT} is not what its uplift-manifest.json lists: config.json is missing, original/one.bin has 3 bytes instead of 1`,
    });
    expect(await files()).toEqual([]);
  });

  it.each<[string, () => Promise<unknown>, Record<string, string>, string]>([
    [
      "no manifest",
      () => client.send(new DeleteObjectCommand({ Bucket: BUCKET, Key: `${PREFIX}/uplift-manifest.json` })),
      {},
      `${AT}/uplift-manifest.json is missing`,
    ],
    [
      "a manifest that is none",
      () => putManifest([{ path: "a" }]),
      {},
      `${AT}/uplift-manifest.json is no list of a model's files: export the checkpoint again`,
    ],
    [
      "a manifest that would write elsewhere",
      () => putManifest([{ path: "../../etc/passwd", bytes: 1, sha256: "0".repeat(64) }]),
      {},
      `${AT}/uplift-manifest.json is no list of a model's files: export the checkpoint again`,
    ],
    ["no bucket", async () => {}, { bucket: "nowhere" }, "there is no bucket nowhere"],
    [
      "less room than it needs",
      async () => {},
      { "most-gib": "0.005" },
      `the model in ${AT} has 0.0 GiB, and its node keeps 0.0 GiB for it`,
    ],
  ])("says in a sentence that there is %s", async (_what, prepare, more, sentence) => {
    await prepare();
    expect(await fetchWeights(more)).toEqual({ status: 78, out: "", error: `uplift: ${sentence}` });
  });
});
