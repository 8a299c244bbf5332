import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Digest, digestJson, shortDigest } from "../../schemas/digest.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import {
  findCheckpoint,
  hashFiles,
  isUnchanged,
  listCheckpoints,
  type RecordCheckpoint,
  readManifest,
  readProbe,
  readProbeFile,
  recordCheckpoint,
} from "./index.ts";

let mount: string;
let store: ObjectStore;
const PREFIX = "runs/run-1/checkpoints/rl-40";
const probe = { cases: [{ messages: [{ role: "user" as const, content: "hi" }], tools: [], tokenIds: [1, 2] }] };
const base: Digest = digestJson("base");
const NOW = new Date("2030-01-01T00:00:00Z");

/** The shared storage as a store: keys are files below its mount. */
function mounted(folder: string): ObjectStore {
  const path = (key: string) => join(folder, key);
  return {
    async put(key, bytes) {
      await mkdir(join(path(key), ".."), { recursive: true });
      await writeFile(path(key), bytes);
    },
    putFile: () => expect.fail("weights are not copied"),
    get: (key) => readFile(path(key)),
    exists: (key) =>
      stat(path(key)).then(
        () => true,
        () => false,
      ),
    async list(prefix) {
      const found = await readdir(path(prefix), { recursive: true, withFileTypes: true }).catch(() => []);
      const files = found.filter((entry) => entry.isFile());
      return files.map((entry) => relative(folder, join(entry.parentPath, entry.name))).sort();
    },
    folder: async (prefix) => {
      await stat(path(prefix));
      return path(prefix);
    },
  };
}

const model = (prefix = PREFIX) => join(mount, prefix);
const record = async (changes: Partial<RecordCheckpoint> = {}) =>
  recordCheckpoint({
    ...{ store, prefix: PREFIX, files: await hashFiles(model(changes.prefix)), probe, now: () => NOW },
    ...{ name: "r RL step 40", stage: "rl", step: 40, runId: "run-1", parent: base, base },
    ...changes,
  });

beforeEach(async () => {
  mount = await mkdtemp(join(tmpdir(), "uplift-record-"));
  store = mounted(mount);
  await mkdir(model(), { recursive: true });
  await writeFile(join(model(), "config.json"), "{}");
  await writeFile(join(model(), "model.safetensors"), "weights");
});
afterEach(() => rm(mount, { recursive: true, force: true }));

describe("recording a model where it lies", () => {
  it("writes its record and its probe and nothing else, and finds it again by either", async () => {
    const made = await record();
    expect(made).toMatchObject({ prefix: PREFIX, name: "r RL step 40", parent: base, base, runId: "run-1" });
    expect(made.files.map(({ path }) => path)).toEqual(["config.json", "model.safetensors"]);
    const home = `checkpoints/${shortDigest(made.digest)}`;
    expect(await store.list("checkpoints")).toEqual([`${home}/checkpoint.json`, `${home}/rendering-probe.json`]);
    expect(await listCheckpoints(store)).toEqual([made]);
    expect(await findCheckpoint(store, made.digest)).toEqual(made);
    // The model's own folder has no probe.
    expect(await readProbe(made, store)).toEqual(probe);
  });

  it("is the same record when it is done again, whoever asks", async () => {
    const made = await record();
    expect(await record({ runId: "run-2", now: () => new Date("2031-01-01T00:00:00Z") })).toEqual(made);
    expect((await listCheckpoints(store)).length).toBe(1);
  });

  it("refuses files that are not those that were hashed", async () => {
    const files = await hashFiles(model());
    await truncate(join(model(), "model.safetensors"), 3);
    await expect(record({ files })).rejects.toThrow("model.safetensors missing or of another size");
    expect(await store.list("checkpoints")).toEqual([]);
  });

  it("follows a folder that was moved", async () => {
    const made = await record();
    await mkdir(join(mount, "models"));
    await rename(model(), model("models/kept"));
    expect(await isUnchanged(made, store)).toBe(false);
    const again = await record({ prefix: "models/kept" });
    expect(again).toEqual({ ...made, prefix: "models/kept" });
    expect(await listCheckpoints(store)).toEqual([again]);
  });

  it("knows that a file was written since, even one of the same size", async () => {
    const made = await record();
    expect(await isUnchanged(made, store)).toBe(true);
    const later = new Date("2030-01-02T00:00:00Z");
    await utimes(join(model(), "model.safetensors"), later, later);
    expect(await isUnchanged(made, store)).toBe(false);
  });
});

describe("a job's manifest and probe", () => {
  it("are null until they are there, and named where they are not what they should be", async () => {
    expect(await readManifest(model())).toBeNull();
    expect(await readProbeFile(model())).toBeNull();
    await writeFile(join(model(), "uplift-manifest.json"), "half");
    await expect(readManifest(model())).rejects.toThrow("uplift-manifest.json: a value that the schema accepts");
    const files = await hashFiles(model());
    const manifest = { schemaVersion: 1, checkpoint: "rl-40", tensors: 7, lacks: [], files };
    await writeFile(join(model(), "uplift-manifest.json"), JSON.stringify(manifest));
    expect(await readManifest(model())).toEqual({ schemaVersion: 1, checkpoint: "rl-40", files });
  });
});
