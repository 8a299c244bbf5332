import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import { createDirectoryStore } from "./directory-store.ts";

let root: string;
let store: ObjectStore;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uplift-store-"));
  store = createDirectoryStore(join(root, "objects"));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const text = async (key: string) => new TextDecoder().decode(await store.get(key));

describe("a directory store", () => {
  test("gives back what was stored, and the newest when stored again", async () => {
    await store.put("a/b.txt", "one");
    await store.put("a/b.txt", new TextEncoder().encode("two"));
    expect(await text("a/b.txt")).toBe("two");
    expect(await store.exists("a/b.txt")).toBe(true);
    expect(await store.exists("a")).toBe(false);
  });

  test("stores a copy of a file, which later writes to the source do not change", async () => {
    const source = join(root, "source");
    await writeFile(source, "as it was");
    await store.putFile("copy", source);
    await writeFile(source, "changed since");
    expect(await text("copy")).toBe("as it was");
  });

  test("lists the keys under a prefix, sorted, even when the prefix ends within a name", async () => {
    for (const key of ["t/b/2", "t/a/1", "t/ab", "other"]) await store.put(key, "x");
    expect(await store.list("t/")).toEqual(["t/a/1", "t/ab", "t/b/2"]);
    expect(await store.list("t/a")).toEqual(["t/a/1", "t/ab"]);
    expect(await store.list("")).toEqual(["other", "t/a/1", "t/ab", "t/b/2"]);
    expect(await store.list("none/")).toEqual([]);
  });

  test("names the folder that holds a prefix", async () => {
    await store.put("m/1/config.json", "{}");
    expect(await readdir(await store.folder("m/1/"))).toEqual(["config.json"]);
    await expect(store.folder("m/2")).rejects.toMatchObject({ code: "object-missing" });
  });

  test("says which object is missing", async () => {
    await expect(store.get("never/stored")).rejects.toThrow(UserError);
    await expect(store.get("never/stored")).rejects.toMatchObject({ code: "object-missing" });
  });

  test.each(["", "/a", "a/", "a//b", "../a", "a/../../b", "a/.", "a\\b", "a\0b", ".tmp/x"])(
    "refuses the key %j and touches nothing",
    async (key) => {
      await expect(store.put(key, "x")).rejects.toMatchObject({ code: "object-key" });
      await expect(readdir(join(root, "objects"))).rejects.toMatchObject({ code: "ENOENT" });
    },
  );

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
