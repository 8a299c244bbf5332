import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { digestBytes, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { createDirectoryStore } from "../stores/index.ts";
import { buildTaskSet } from "../tasks/index.ts";
import { ControllerClient } from "./controller-client.ts";
import { objectsApp } from "./objects-app.ts";
import { remoteStore, type SubmissionStore } from "./remote-store.ts";

let root: string;
let url: string;
let store: ObjectStore;
let remote: SubmissionStore;
let close: () => Promise<unknown>;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uplift-objects-"));
  store = createDirectoryStore(join(root, "objects"));
  const server = createServer(getRequestListener(objectsApp({ store, folder: join(root, "uploads") }).fetch));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  remote = remoteStore(new ControllerClient(url, 0));
  close = () => new Promise((resolve) => server.close(resolve));
});
afterEach(async () => {
  await close();
  await rm(root, { recursive: true, force: true });
});

const keyOf = (bytes: Uint8Array, ending = "tar") => `snapshots/${shortDigest(digestBytes(bytes))}.${ending}`;
const put = (key: string, body: Uint8Array<ArrayBuffer> | string) =>
  fetch(`${url}/api/objects/${key}`, { method: "PUT", body });

describe("a submission's objects over HTTP", () => {
  test("arrive as they were sent, once, whatever their size", async () => {
    const code = new Uint8Array(5_000_000).map((_, index) => index % 251);
    expect(await remote.exists(keyOf(code))).toBe(false);
    await remote.put(keyOf(code), code);
    expect(await remote.exists(keyOf(code))).toBe(true);
    expect(Buffer.compare(await store.get(keyOf(code)), code)).toBe(0);
    expect((await put(keyOf(code), code)).status).toBe(200);
    const empty = new Uint8Array();
    expect((await put(keyOf(empty, "patch"), empty)).status).toBe(201);
    expect(await readdir(join(root, "uploads"))).toEqual([]);
  });

  test("are kept only under the name of their content", async () => {
    const code = new TextEncoder().encode("code");
    const refused = await put(keyOf(code), "other code");
    expect([refused.status, await refused.json()]).toMatchObject([422, { error: { code: "object-content-differs" } }]);
    await expect(remote.put(keyOf(code), "other")).rejects.toMatchObject({ code: "object-content-differs" });
    expect(await store.list("")).toEqual([]);
    expect(await readdir(join(root, "uploads"))).toEqual([]);
  });

  test("hold a task set under the digest of what it says", async () => {
    const taskSet = await buildTaskSet({ family: "repo-chores", seed: 1, tasks: 8, heldOut: 2, validation: 1 });
    const key = `task-sets/${digestJson(taskSet).slice("sha256:".length)}.json`;
    await remote.put(key, JSON.stringify(taskSet, null, 2));
    expect(JSON.parse(Buffer.from(await store.get(key)).toString())).toEqual(taskSet);
    const other = JSON.stringify({ ...taskSet, seed: 2 });
    await expect(remote.put(`task-sets/${"0".repeat(64)}.json`, other)).rejects.toMatchObject({
      code: "object-content-differs",
    });
    await expect(remote.put(`task-sets/${"0".repeat(64)}.json`, "not JSON")).rejects.toThrow("no task set");
  });

  test("are no way to any other object", async () => {
    await store.put("checkpoints/1f2e3d4c5b6a/checkpoint.json", "{}");
    await store.put("snapshots/1f2e3d4c5b6a.tar", "code");
    const answers = await Promise.all([
      put("checkpoints/1f2e3d4c5b6a/checkpoint.json", "x"),
      put("pass-rates/runs/r.json", "x"),
      put("snapshots/1f2e3d4c5b6a.sh", "x"),
      put("snapshots/a/../1f2e3d4c5b6a", "x"),
      fetch(`${url}/api/objects/checkpoints/1f2e3d4c5b6a/checkpoint.json`),
      fetch(`${url}/api/objects/checkpoints/1f2e3d4c5b6a/checkpoint.json`, { method: "HEAD" }),
      fetch(`${url}/api/objects/snapshots/1f2e3d4c5b6a.tar`),
      fetch(`${url}/api/objects/pass-rates/..%2Fcheckpoints%2F1f2e3d4c5b6a%2Fcheckpoint.json`),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403, 403, 403, 422]);
    expect(await store.list("")).toEqual(["checkpoints/1f2e3d4c5b6a/checkpoint.json", "snapshots/1f2e3d4c5b6a.tar"]);
  });

  test("include the pass rates of earlier runs, to read", async () => {
    await store.put("pass-rates/runs/r-1.json", '{"rates":1}');
    expect(await remote.exists("pass-rates/runs/r-1.json")).toBe(true);
    expect(Buffer.from(await remote.get("pass-rates/runs/r-1.json")).toString()).toBe('{"rates":1}');
    expect(await remote.exists("pass-rates/runs/r-2.json")).toBe(false);
    await expect(remote.get("pass-rates/runs/r-2.json")).rejects.toMatchObject({ code: "object-missing" });
  });

  test("end at a size, which whoever sends them is told before and the controller sees by itself", async () => {
    const large = new Uint8Array(65 * 2 ** 20);
    const key = `task-sets/${"0".repeat(64)}.json`;
    await expect(remote.put(key, large)).rejects.toMatchObject({
      code: "object-too-large",
      issues: [{ found: "it has 65 MiB", allowed: expect.stringContaining("64 MiB") }],
    });
    // Without a length: what a client that does not count would send.
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(2 ** 20));
      },
    });
    const sent = fetch(`${url}/api/objects/${key}`, { method: "PUT", body, duplex: "half" } as RequestInit);
    const status = await sent.then(
      (response) => response.status,
      () => "the connection was ended",
    );
    expect([413, "the connection was ended"]).toContain(status);
    expect(await store.list("")).toEqual([]);
    expect(await readdir(join(root, "uploads"))).toEqual([]);
  });
});
