import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";

it("the grader passes exactly the right repositories (its own Python tests)", { timeout: 300_000 }, async () => {
  const script = fileURLToPath(new URL("grader_test.py", import.meta.url));
  const { stderr, exitCode } = await execa("python3", ["-B", script], { reject: false });
  expect(stderr).toMatch(/Ran \d{2} tests[\s\S]*OK$/);
  expect(exitCode).toBe(0);
});
