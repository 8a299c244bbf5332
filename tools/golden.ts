/**
 * npm run golden: every shipped recipe's plan → test/golden/NAME.plan.json. The one command that writes these files;
 * test/golden.test.ts only compares, so a change of a plan's bytes is always seen in review.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { GOLDEN_DIR, goldenPlans } from "../test/support/golden.ts";

await mkdir(GOLDEN_DIR, { recursive: true });
for (const { path, text } of await goldenPlans()) await writeFile(path, text);
