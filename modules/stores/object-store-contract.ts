/**
 * Contract: what every object store promises, as tests that run against each of them. For tests only.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";

/** Registers the tests. `open` makes an empty store; it may write below `root`, a temporary folder of one test. */
export function objectStoreContract(open: (root: string) => Promise<ObjectStore>): void {
  let root: string;
  let store: ObjectStore;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "uplift-store-"));
    store = await open(root);
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const text = async (key: string) => new TextDecoder().decode(await store.get(key));

  test("gives back what was stored, and the newest when stored again", async () => {
    await store.put("a/b.txt", "one");
    await store.put("a/b.txt", new TextEncoder().encode("two"));
    expect(await text("a/b.txt")).toBe("two");
    expect(await store.exists("a/b.txt")).toBe(true);
    expect(await store.exists("a/b.tx")).toBe(false);
    expect(await store.exists("a")).toBe(false);
  });

  test("keeps every byte, also none, and every character a key may have", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, value) => value);
    await store.put("traces/1", bytes);
    expect([...(await store.get("traces/1"))]).toEqual([...bytes]);
    await store.put("traces/0", "");
    expect(await text("traces/0")).toBe("");
    await store.put("datasets/a:b=c@d+e-f_g.h/Z0", "odd");
    expect(await store.list("datasets/")).toEqual(["datasets/a:b=c@d+e-f_g.h/Z0"]);
    expect(await text("datasets/a:b=c@d+e-f_g.h/Z0")).toBe("odd");
  });

  test("stores a copy of a file, which later writes to the source do not change", async () => {
    const source = join(root, "source");
    await writeFile(source, "as it was");
    await store.putFile("copy", source);
    await writeFile(source, "changed since");
    expect(await text("copy")).toBe("as it was");
  });

  test("lists the keys under a prefix, sorted, even when the prefix ends within a name", async () => {
    for (const key of ["t/b/2", "t/a/1", "t/ab", "other", "traces/1", "snapshots/1"]) await store.put(key, "x");
    expect(await store.list("t/")).toEqual(["t/a/1", "t/ab", "t/b/2"]);
    expect(await store.list("t/a")).toEqual(["t/a/1", "t/ab"]);
    expect(await store.list("t")).toEqual(["t/a/1", "t/ab", "t/b/2", "traces/1"]);
    expect(await store.list("")).toEqual(["other", "snapshots/1", "t/a/1", "t/ab", "t/b/2", "traces/1"]);
    expect(await store.list("none/")).toEqual([]);
  });

  test("names a local folder that holds a prefix, as it is now", async () => {
    await store.put("m/1/config.json", "{}");
    await store.put("m/1/a/weights", "w");
    await store.put("m/10/other", "x");
    const folder = await store.folder("m/1/");
    expect((await readdir(folder)).sort()).toEqual(["a", "config.json"]);
    await store.put("m/1/config.json", '{"newer":1}');
    await store.put("m/1/added", "1");
    const again = await store.folder("m/1");
    expect((await readdir(again)).sort()).toEqual(["a", "added", "config.json"]);
    expect(await readFile(join(again, "config.json"), "utf8")).toBe('{"newer":1}');
    expect(await readFile(join(again, "a/weights"), "utf8")).toBe("w");
    await expect(store.folder("m/2")).rejects.toMatchObject({ code: "object-missing" });
    await expect(store.folder("m/1/config.json")).rejects.toMatchObject({ code: "object-missing" });
  });

  test("says which object is missing", async () => {
    await expect(store.get("never/stored")).rejects.toThrow(UserError);
    await expect(store.get("never/stored")).rejects.toMatchObject({
      code: "object-missing",
      issues: [{ path: "never/stored" }],
    });
  });

  test.each(["", "/a", "a/", "a//b", "../a", "a/../../b", "a/.", "a\\b", "a\0b", ".tmp/x"])(
    "refuses the key %j and stores nothing",
    async (key) => {
      await expect(store.put(key, "x")).rejects.toMatchObject({ code: "object-key" });
      await expect(store.putFile(key, join(root, "absent"))).rejects.toMatchObject({ code: "object-key" });
      await expect(store.get(key)).rejects.toMatchObject({ code: "object-key" });
      await expect(store.exists(key)).rejects.toMatchObject({ code: "object-key" });
      expect(await store.list("")).toEqual([]);
    },
  );

  test("leaves what was stored before when storing fails", async () => {
    await store.put("file", "x");
    await expect(store.putFile("file", join(root, "absent"))).rejects.toThrow(/ENOENT/);
    expect(await store.list("")).toEqual(["file"]);
    expect(await text("file")).toBe("x");
  });

  test("shows every reader the old object or the new one, whole, while it is replaced again and again", async () => {
    const version = (letter: string) => letter.repeat(300_000);
    await store.put("datasets/x", version("a"));
    const writing = (async () => {
      for (const letter of "bcdefgh") await store.put("datasets/x", version(letter));
    })();
    const seen: string[] = [];
    for (let read = 0; read < 10; read++) seen.push(await text("datasets/x"));
    await writing;
    for (const content of seen) expect(content).toBe(version(content[0] ?? ""));
    expect(await text("datasets/x")).toBe(version("h"));
  });
}
