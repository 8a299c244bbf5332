import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { codeDigest } from "./code-digest.ts";
import { parseStat, readPidFile } from "./process-identity.ts";
import { callResource } from "./resource.ts";

let home: string;
const call = (verb: "create" | "read" | "delete", properties: Record<string, unknown>, deleteResults = false) =>
  callResource({ verb, properties }, { root: home, environment: {}, now: () => 0, deleteResults });

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "uplift-resource-"));
});

afterEach(() => rm(home, { recursive: true, force: true }));

describe("a data folder", () => {
  it("is adopted with what it holds, kept by delete, and deleted only when results may go", async () => {
    const folder = { kind: "folder", home, path: join(home, "objects") };
    await mkdir(folder.path);
    await writeFile(join(folder.path, "result"), "42");
    await call("create", folder);
    await call("delete", folder);
    expect(await readFile(join(folder.path, "result"), "utf8")).toBe("42");
    expect((await call("read", folder)).id).toBe(folder.path);
    await call("delete", folder, true);
    expect((await call("read", folder)).id).toBe("");
  });

  it.each([".", "..", "../elsewhere", "/"])(
    "at %s is never deleted, because it is not inside the home",
    async (path) => {
      const folder = { kind: "folder", home, path: path === "/" ? path : join(home, path) };
      await expect(call("delete", folder, true)).rejects.toThrow("not deleted");
    },
  );
});

describe("the toolchain", () => {
  it("is there when its Python runs and has its modules", async () => {
    const toolchain = {
      kind: "toolchain",
      python: "/usr/bin/python3",
      lockDigest: "any",
      modules: ["json", "sqlite3"],
    };
    expect((await call("create", toolchain)).id).toBe("/usr/bin/python3");
    expect((await call("read", toolchain)).id).toBe("/usr/bin/python3");
  });

  it("without a module is a user's mistake that names the module and the remedy", async () => {
    const toolchain = {
      kind: "toolchain",
      python: "/usr/bin/python3",
      lockDigest: "any",
      modules: ["json", "no_such_module"],
    };
    await expect(call("create", toolchain)).rejects.toThrow(
      /python3 lacks no_such_module.*npm run setup.*\[toolchain-missing\]/s,
    );
    expect((await call("read", toolchain)).id).toBe("");
  });

  it("without a Python is a user's mistake too", async () => {
    const toolchain = { kind: "toolchain", python: join(home, "python"), lockDigest: "any", modules: [] };
    await expect(call("create", toolchain)).rejects.toThrow(/does not run.*\[toolchain-missing\]/s);
  });
});

describe("the code digest", () => {
  it("changes with a source file, its name and its folder, and with nothing else", async () => {
    await mkdir(join(home, "a/inner"), { recursive: true });
    await writeFile(join(home, "a/inner/code.ts"), "1");
    const first = await codeDigest(home, ["a", "missing"]);
    await writeFile(join(home, "a/code.test.ts"), "a test");
    await mkdir(join(home, "a/__pycache__"));
    await writeFile(join(home, "a/__pycache__/code.pyc"), "a cache");
    expect(await codeDigest(home, ["a"])).toBe(first);
    await writeFile(join(home, "a/inner/code.ts"), "2");
    expect(await codeDigest(home, ["a"])).not.toBe(first);
    await writeFile(join(home, "a/inner/code.ts"), "1");
    await writeFile(join(home, "lock.json"), "{}");
    expect(await codeDigest(home, ["a", "lock.json"])).not.toBe(first);
  });
});

describe("a process's identity", () => {
  it("is read from a stat line whatever the command is called", () => {
    const fields = "S 1 4711 4711 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 987654 100 200";
    expect(parseStat(`4711 (a) b) (c) ${fields}`)).toEqual({
      pid: 4711,
      state: "S",
      groupId: 4711,
      startTicks: 987654,
    });
    expect(() => parseStat("nonsense")).toThrow("not a line of /proc/PID/stat");
  });

  it("is unknown while its file is missing or cut short", async () => {
    const path = join(home, "service.pid");
    expect(await readPidFile(path)).toBeNull();
    await writeFile(path, "boot-id\n4711 (no");
    expect(await readPidFile(path)).toBeNull();
  });
});
