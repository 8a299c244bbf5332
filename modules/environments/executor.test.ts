/** The executor's own tests, run by the system's Python. */
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";

it.each(["executor_test", "nest_test", "receive_test"])(
  "passes its Python unit tests: %s",
  { timeout: 60_000 },
  async (name) => {
    const cwd = fileURLToPath(new URL("payload", import.meta.url));
    const run = await execa("/usr/bin/python3", ["-B", "-m", "unittest", name], {
      cwd,
      reject: false,
      all: true,
    });
    expect(run.all).toMatch(/Ran [1-9]\d* tests/);
    expect(run.exitCode, run.all).toBe(0);
  },
);
