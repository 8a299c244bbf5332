import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import program from "../stacks/index.ts";
import { GOLDEN_DIR } from "./support/golden.ts";
import { GOLDEN_STACKS_DIR, goldenStacks } from "./support/golden-stacks.ts";
import { recordResources } from "./support/recorded-resources.ts";

describe("what Pulumi is asked to make for the shipped recipes on the shipped targets", () => {
  it("is what was reviewed, twice the same; npm run golden writes it anew", async () => {
    const [stacks, again] = [await goldenStacks(), await goldenStacks()];
    expect(again).toEqual(stacks);
    expect((await readdir(GOLDEN_STACKS_DIR)).sort()).toEqual(stacks.map(({ path }) => basename(path)).sort());
    for (const { path, text } of stacks) expect(text).toBe(await readFile(path, "utf8"));
  });

  it("is the same by plain `pulumi up`, whose entry point reads the target by the stack's name and the plans from files", async () => {
    const plan = join(GOLDEN_DIR, "github-sft-rl.kubernetes.plan.json");
    const variables = { UPLIFT_PLANS: plan, UPLIFT_S3_ACCESS_KEY_ID: "id", UPLIFT_S3_SECRET_ACCESS_KEY: "secret" };
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    const plain = await recordResources(program, "kubernetes");
    vi.unstubAllEnvs();
    const golden = JSON.parse(await readFile(join(GOLDEN_STACKS_DIR, "kubernetes.json"), "utf8"));
    const named = ({ type, name }: { type: string; name: string }) => `${type} ${name}`;
    expect(plain.map(named)).toEqual(golden.resources.map(named));
    const replicas = (list: { name: string; inputs: { spec?: { replicas?: number } } }[]) =>
      list.find(({ name }) => name === "NodeSet slurm/training")?.inputs.spec?.replicas;
    expect(replicas(plain as never)).toBe(4);
  });
});
