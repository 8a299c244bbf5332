/**
 * Objects over HTTP: what `uplift train` sends to a cluster's controller and reads from it, whose object store it does not reach
 * itself. Built from a store and a folder for what is under way; binds no port, and stands behind the controller's login.
 *
 *   PUT  /api/objects/snapshots/DIGEST.tar|patch   the bytes          → 201 { key }, 200 where it was there already
 *   PUT  /api/objects/task-sets/DIGEST.json        a task set         → the same
 *   HEAD /api/objects/…                            of all these keys  → 200 or 404
 *   GET  /api/objects/pass-rates/…                 the bytes          → 404 `object-missing`
 *
 * A name says its content's digest, which is checked: nothing that is there can be replaced by something else.
 */
import { createHash, randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Context, Hono } from "hono";
import { type Issue, UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { TaskSet } from "../../schemas/task.ts";
import { taskSetDigest } from "../tasks/index.ts";

const MIB = 2 ** 20;

/** What may be sent: a key's form with the digits of its digest, and the most bytes. */
const SENT = [
  {
    form: /^snapshots\/([0-9a-f]{12})\.(?:tar|patch)$/,
    mostBytes: 512 * MIB,
    digestOf: async (_: string, hash: string) => hash,
  },
  { form: /^task-sets\/([0-9a-f]{64})\.json$/, mostBytes: 64 * MIB, digestOf: digestOfTaskSet },
] as const;
/** What may be read. */
const READ = /^pass-rates\/[A-Za-z0-9/._-]+\.json$/;

const STATUS: Readonly<Record<string, 403 | 404 | 413 | 422 | 503>> = {
  "object-not-open": 403,
  "object-missing": 404,
  "object-too-large": 413,
  "object-store-unreachable": 503,
};

/** The most bytes of an object that is sent under a key; null where none may be. */
export function mostBytesOf(key: string): number | null {
  return SENT.find(({ form }) => form.test(key))?.mostBytes ?? null;
}

/** The UserError of an object that is larger than may be sent. */
export function tooLarge(key: string, bytes: number, mostBytes: number): UserError {
  const mib = (number: number) => `${Math.ceil(number / MIB)} MiB`;
  return new UserError({
    ...{ code: "object-too-large", path: key, asked: "this object was to be stored" },
    found: `it has ${mib(bytes)}`,
    allowed: `${mib(mostBytes)}: the code of a project, or a task set`,
    todo: "leave data out of the project's folder (.gitignore): a snapshot holds every file that git does not ignore",
  });
}

/** The app. `folder` holds uploads until they are checked; what a killed process left there may be removed. */
export function objectsApp({ store, folder }: { readonly store: ObjectStore; readonly folder: string }) {
  const keyOf = (c: Context) => decodeURIComponent(new URL(c.req.url).pathname).slice("/api/objects/".length);
  return new Hono()
    .onError((error, c) => {
      if (!(error instanceof UserError)) throw error;
      const infrastructure = error.code === "object-store-unreachable";
      return c.json({ error: { code: error.code, message: error.message, infrastructure } }, STATUS[error.code] ?? 422);
    })
    .get("/api/objects/*", async (c) => {
      const key = keyOf(c);
      const isSent = mostBytesOf(key) !== null;
      if (c.req.method === "HEAD" && isSent) return c.body(null, (await store.exists(key)) ? 200 : 404);
      if (!READ.test(key)) throw notOpen(key, isSent ? "it may be sent, and is not read back" : undefined);
      if (c.req.method === "HEAD") return c.body(null, (await store.exists(key)) ? 200 : 404);
      return c.body(Buffer.from(await store.get(key)), 200, { "content-type": "application/octet-stream" });
    })
    .put(async (c) => {
      const key = keyOf(c);
      const kind = SENT.find(({ form }) => form.test(key));
      if (!kind) throw notOpen(key);
      const announced = Number(c.req.header("content-length") ?? 0);
      if (announced > kind.mostBytes) throw tooLarge(key, announced, kind.mostBytes);
      await mkdir(folder, { recursive: true });
      const path = join(folder, randomUUID());
      try {
        const hash = await receive(c.req.raw.body, path, (bytes) => {
          if (bytes > kind.mostBytes) throw tooLarge(key, bytes, kind.mostBytes);
        });
        const found = await kind.digestOf(path, hash);
        const named = kind.form.exec(key)?.[1] ?? "";
        if (!found.startsWith(named)) throw otherContent(key, found);
        const isThere = await store.exists(key);
        if (!isThere) await store.putFile(key, path);
        return c.json({ key }, isThere ? 200 : 201);
      } finally {
        await rm(path, { force: true });
      }
    });
}

/** Writes a body to a file; the hex digits of its SHA-256. `check` is told the bytes so far and may throw. */
async function receive(
  body: ReadableStream<Uint8Array> | null,
  path: string,
  check: (bytes: number) => void,
): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      try {
        check(bytes);
      } catch (error) {
        return done(error as Error);
      }
      hash.update(chunk);
      done(null, chunk);
    },
  });
  const source = body === null ? Readable.from([]) : Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]);
  await pipeline(source, counting, createWriteStream(path));
  return hash.digest("hex");
}

/** A task set's digest is of what it says, whatever the order of its members. */
async function digestOfTaskSet(path: string): Promise<string> {
  const taskSet = TaskSet.safeParse(parseJson(await readFile(path, "utf8")));
  return taskSet.success ? taskSetDigest(taskSet.data).slice("sha256:".length) : "no task set";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const asked = (key: string): Pick<Issue, "path" | "asked"> => ({ path: key, asked: "an object under this key" });

function notOpen(key: string, found = "it is none of those that are open over HTTP"): UserError {
  return new UserError({
    ...{ code: "object-not-open", ...asked(key), found },
    allowed:
      "PUT and HEAD of snapshots/DIGEST.tar, snapshots/DIGEST.patch and task-sets/DIGEST.json; GET and HEAD of pass-rates/",
    todo: "use the leaderboard's API for results; everything else is the controller's own",
  });
}

function otherContent(key: string, found: string): UserError {
  return new UserError({
    ...{ code: "object-content-differs", ...asked(key), found: `its content's digest is ${found.slice(0, 12)}` },
    allowed: "content whose SHA-256 the name begins with; a task set as `uplift plan` made it",
    todo: "send it again: it was damaged on its way, or named by hand",
  });
}
