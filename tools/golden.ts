/**
 * npm run golden: every shipped recipe's plan → test/golden/NAME.plan.json, and what Pulumi would be asked to make of it on
 * every target of nodes → test/golden/stacks/TARGET.json. The one command that writes these files;
 * test/golden.test.ts and test/golden-stacks.test.ts only compare, so a change of a plan's bytes is always seen in review.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { GOLDEN_DIR, goldenPlans } from "../test/support/golden.ts";
import { GOLDEN_STACKS_DIR, goldenStacks } from "../test/support/golden-stacks.ts";

await mkdir(GOLDEN_DIR, { recursive: true });
await mkdir(GOLDEN_STACKS_DIR, { recursive: true });
for (const { path, text } of [...(await goldenPlans()), ...(await goldenStacks())]) await writeFile(path, text);
