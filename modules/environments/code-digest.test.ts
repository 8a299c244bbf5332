/** What of this module's source the digest covers. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { codeDigest } from "./code-digest.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "code-"));
  cpSync(import.meta.dirname, folder, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

const change = (name: string) => writeFileSync(join(folder, name), "\n", { flag: "a" });

describe("the digest of the service's code", () => {
  it("is the same for the same code in another folder", async () => {
    expect(await codeDigest(folder)).toBe(await codeDigest(import.meta.dirname));
  });

  it.each([
    "attempts.ts",
    "grading.ts",
    "repository.ts",
    "sandbox-profile.ts",
    "tool-arguments.ts",
    "payload/executor.py",
  ])("changes with %s", async (name) => {
    const before = await codeDigest(folder);
    change(name);
    expect(await codeDigest(folder)).not.toBe(before);
  });

  it.each(["attempts.test.ts", "test-service.ts", "payload/executor_test.py", "fixtures/faulty/grader.py"])(
    "does not change with %s",
    async (name) => {
      const before = await codeDigest(folder);
      change(name);
      expect(await codeDigest(folder)).toBe(before);
    },
  );
});
