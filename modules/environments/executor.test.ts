/** The executor's own tests, run by the system's Python. */
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";

it("passes its Python unit tests", { timeout: 60_000 }, async () => {
  const cwd = fileURLToPath(new URL("payload", import.meta.url));
  const run = await execa("/usr/bin/python3", ["-B", "-m", "unittest", "executor_test"], {
    cwd,
    reject: false,
    all: true,
  });
  expect(run.all).toMatch(/Ran [1-9]\d* tests/);
  expect(run.exitCode, run.all).toBe(0);
});
