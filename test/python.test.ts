/**
 * The Python that runs on a node has its own tests; they run here with the trainers' Python.
 */
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, it } from "vitest";
import { trainersPython } from "./support/python.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
const PACKAGES = [
  { folder: "modules/trainers/trl", tests: "uplift_trl/tests" },
  { folder: "modules/serving", tests: "light_server/tests" },
];

describe("the Python package", () => {
  for (const { folder, tests } of PACKAGES)
    it(`in ${folder} passes its own tests`, async () => {
      const { exitCode, stderr } = await execa(
        await trainersPython(),
        ["-m", "unittest", "discover", "-s", tests, "-t", "."],
        {
          cwd: join(PROJECT_DIR, folder),
          env: { OMP_NUM_THREADS: "1", HF_HUB_OFFLINE: "1", PYTHONDONTWRITEBYTECODE: "1" },
          reject: false,
        },
      );
      expect(stderr).toMatch(/Ran [1-9]\d* tests/);
      expect({ exitCode, failures: exitCode === 0 ? "" : stderr }).toEqual({ exitCode: 0, failures: "" });
    });
});
