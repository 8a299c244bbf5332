import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { createDirectoryStore } from "./directory-store.ts";
import { objectStoreContract } from "./object-store-contract.ts";
import { createSharedStore } from "./shared-store.ts";

const open = (root: string) =>
  createSharedStore({ mountPath: join(root, "mount"), objects: createDirectoryStore(join(root, "objects")) });

describe("a shared store, as every object store,", () => {
  objectStoreContract(async (root) => open(root));
});

describe("a shared store", () => {
  let root: string;
  let store: ObjectStore;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "uplift-store-"));
    store = open(root);
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  test.each(["checkpoints/1f2e/checkpoint.json", "models/Qwen/Qwen3.8-27B/a", "runs/r-1/checkpoints/rl-2/config.json"])(
    "keeps %s as a file of the shared storage",
    async (key) => {
      await store.put(key, "x");
      expect(await readFile(join(root, "mount", key), "utf8")).toBe("x");
    },
  );

  test.each([
    "snapshots/1.tar",
    "traces/e/1",
    "evaluations/e.json",
    "task-sets/1.json",
    "pass-rates/runs/1.json",
    "runs",
  ])("keeps %s in the object store", async (key) => {
    await store.put(key, "x");
    expect(await readFile(join(root, "objects", key), "utf8")).toBe("x");
  });

  test("gives what a job has written where it lies, and no copy", async () => {
    const model = join(root, "mount/runs/r-1/checkpoints/rl-2");
    await mkdir(model, { recursive: true });
    await writeFile(join(model, "config.json"), "{}");
    expect(await store.folder("runs/r-1/checkpoints/rl-2")).toBe(model);
    expect(await store.folder("runs/r-1/checkpoints/rl-2/")).toBe(model);
    expect(await store.list("runs/r-1/")).toEqual(["runs/r-1/checkpoints/rl-2/config.json"]);
  });

  test("writes nothing into the mount but its own folders, which alone are the platform's", async () => {
    await store.put("checkpoints/1f2e/checkpoint.json", "x");
    await store.put("runs/r/a", "x");
    expect((await readdir(join(root, "mount"))).sort()).toEqual(["checkpoints", "runs"]);
    await expect(store.put("runs/../jobs/x", "x")).rejects.toMatchObject({ code: "object-key" });
    await expect(store.put("runs/", "x")).rejects.toMatchObject({ code: "object-key" });
  });

  test("lists of the shared storage only what has a key, and each key once", async () => {
    await mkdir(join(root, "mount/jobs/j"), { recursive: true });
    await writeFile(join(root, "mount/jobs/j/exit.json"), "{}");
    await createDirectoryStore(join(root, "objects")).put("runs/in-the-other-store", "x");
    await store.put("runs/r/a", "x");
    await store.put("snapshots/1.tar", "x");
    expect(await store.list("")).toEqual(["runs/r/a", "snapshots/1.tar"]);
    expect(await store.list("r")).toEqual(["runs/r/a"]);
  });
});
