import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { GOLDEN_DIR, goldenPlans } from "./support/golden.ts";

describe("the shipped recipes' plans", () => {
  it("are those that were reviewed; npm run golden writes them anew", async () => {
    const plans = await goldenPlans();
    const files = (await readdir(GOLDEN_DIR)).filter((name) => name.endsWith(".json"));
    expect(files.sort()).toEqual(plans.map(({ path }) => basename(path)).sort());
    for (const { path, text } of plans) expect(text).toBe(await readFile(path, "utf8"));
  });
});
