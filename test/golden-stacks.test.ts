import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { GOLDEN_STACKS_DIR, goldenStacks } from "./support/golden-stacks.ts";

describe("what Pulumi is asked to make for the shipped recipes on the shipped targets", () => {
  it("is what was reviewed, twice the same; npm run golden writes it anew", async () => {
    const [stacks, again] = [await goldenStacks(), await goldenStacks()];
    expect(again).toEqual(stacks);
    expect((await readdir(GOLDEN_STACKS_DIR)).sort()).toEqual(stacks.map(({ path }) => basename(path)).sort());
    for (const { path, text } of stacks) expect(text).toBe(await readFile(path, "utf8"));
  });
});
