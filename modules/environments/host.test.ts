/** What a machine offers for sandboxes. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { areMapped, inspectHost } from "./host.ts";

describe("this machine", () => {
  it("has a system Python below /usr, and a root layout that exists", async () => {
    const host = await inspectHost({ path: process.env.PATH ?? "", root: false });
    expect(host.layout.python).toMatch(/^\/usr\//);
    for (const path of [host.bwrap, host.git, ...host.layout.folders, ...host.layout.links.map((link) => link.path)]) {
      expect(existsSync(path), path).toBe(true);
    }
    expect(host.users).toBeNull();
  });

  it("without bubblewrap is refused, whatever its PATH holds", async () => {
    for (const path of ["", ":", "relative", "/nonexistent"]) {
      await expect(inspectHost({ path, root: false })).rejects.toThrow(/sandbox-no-bubblewrap/);
    }
  });
});

describe("users of a user namespace", () => {
  it("can be become when the whole range is mapped", () => {
    const users = { first: 100, count: 10 };
    expect(areMapped("         0          0 4294967295\n", users)).toBe(true);
    expect(areMapped("0 1000 1\n", users)).toBe(false);
    expect(areMapped("0 1000 1\n1 100000 65536\n", users)).toBe(true);
    expect(areMapped("0 1000 105\n", users)).toBe(false);
    expect(areMapped("", users)).toBe(false);
  });
});
