import { defineConfig } from "vitest/config";

// Unit tests stand beside the code and need nothing installed but Node and Python; what crosses modules or
// needs a real engine, sandbox or browser stands in test/ and runs in the "whole" project.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          // An embedded Postgres takes seconds to start when other work keeps both cores busy.
          hookTimeout: 120_000,
          testTimeout: 60_000,
          include: ["schemas/**/*.test.ts", "modules/**/*.test.ts", "modules/**/*.test.tsx", "recipes/**/*.test.ts"],
        },
      },
      {
        test: {
          name: "whole",
          include: ["test/**/*.test.ts"],
          testTimeout: 3_600_000,
          hookTimeout: 3_600_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
