/**
 * The bench as its README runs it, on few recipes: that it runs and compares, never how fast.
 */
import { join } from "node:path";
import { execa } from "execa";
import { expect, it } from "vitest";

const PROJECT_DIR = join(import.meta.dirname, "..");

it("the bench of planning plans, grows and compares in one run", async () => {
  const python = (
    await execa(join(PROJECT_DIR, "tools/python-env.sh"), [join(PROJECT_DIR, "bench/plan")])
  ).stdout.trim();
  const { stdout } = await execa(
    "npx",
    ["tsx", join(PROJECT_DIR, "bench/plan/run.ts"), "--recipes", "36", "--python", python, "--json"],
    { cwd: PROJECT_DIR },
  );
  const result = JSON.parse(stdout);
  expect(result).toMatchObject({ recipes: 36, composed: { files: 36 } });
  expect(result.growth.map(({ tasks }: { tasks: number }) => tasks)).toEqual([100, 1000, 10_000, 100_000]);
  expect(result.timesFaster).toBeGreaterThan(0);
});
