import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { createDirectoryStore } from "./directory-store.ts";
import { objectStoreContract } from "./object-store-contract.ts";

describe("a directory store, as every object store,", () => {
  objectStoreContract(async (root) => createDirectoryStore(join(root, "objects")));
});

describe("a directory store", () => {
  let root: string;
  let store: ObjectStore;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "uplift-store-"));
    store = createDirectoryStore(join(root, "objects"));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  test("makes no folder for a key it refuses", async () => {
    await expect(store.put("../a", "x")).rejects.toMatchObject({ code: "object-key" });
    await expect(readdir(join(root, "objects"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("leaves neither object nor temporary file when storing fails half-way", async () => {
    await store.put("file", "x");
    await expect(store.putFile("other", join(root, "absent"))).rejects.toThrow(/ENOENT/);
    await expect(store.put("file/below", "y")).rejects.toThrow(/EEXIST|ENOTDIR/);
    expect(await store.list("")).toEqual(["file"]);
    expect(await readdir(join(root, "objects", ".tmp"))).toEqual([]);
  });

  test("removes what a killed process left half-written", async () => {
    await store.put("a", "x");
    // No process can have this id: it is above the kernel's largest.
    await writeFile(join(root, "objects", ".tmp", "99999999-left"), "half");
    await createDirectoryStore(join(root, "objects")).put("b", "y");
    expect(await readdir(join(root, "objects", ".tmp"))).toEqual([]);
  });
});
