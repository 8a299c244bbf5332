import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { serverCodeDigest } from "./server-code.ts";

const PROJECT_DIR = join(import.meta.dirname, "../..");
const TRL = "modules/trainers/trl";

let copy: string;
beforeEach(async () => {
  copy = await mkdtemp(join(tmpdir(), "uplift-server-code-"));
  for (const path of ["modules/serving", `${TRL}/requirements.lock`, `${TRL}/requirements-light.lock`])
    await cp(join(PROJECT_DIR, path), join(copy, path), { recursive: true });
});
afterEach(() => rm(copy, { recursive: true }));

const change = (path: string) => writeFile(join(copy, path), "\n", { flag: "a" });

describe("the digest of a server's code", () => {
  test("is the same in every checkout, and another one for each kind", async () => {
    expect(await serverCodeDigest("light", copy)).toBe(await serverCodeDigest("light", PROJECT_DIR));
    expect(await serverCodeDigest("vllm", copy)).toBe(await serverCodeDigest("vllm", PROJECT_DIR));
    expect(await serverCodeDigest("vllm", copy)).not.toBe(await serverCodeDigest("light", copy));
  });

  test.each([
    ["light", "modules/serving/light_server/engine.py", true],
    ["light", "modules/serving/light_server/chat.py", true],
    ["light", `${TRL}/requirements.lock`, true],
    ["light", `${TRL}/requirements-light.lock`, true],
    ["light", "modules/serving/light_server/tests/test_chat.py", false],
    ["light", "modules/serving/vllm_server.py", false],
    ["vllm", "modules/serving/vllm_server.py", true],
    ["vllm", `${TRL}/requirements.lock`, true],
    ["vllm", "modules/serving/light_server/engine.py", false],
  ] as const)("of %s changes with %s: %s", async (kind, path, changes) => {
    const before = await serverCodeDigest(kind, copy);
    await change(path);
    expect((await serverCodeDigest(kind, copy)) !== before).toBe(changes);
  });
});
