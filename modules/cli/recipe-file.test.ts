import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import quickstartRl from "../../recipes/quickstart-rl.ts";
import { UserError } from "../../schemas/error.ts";
import { loadRecipe } from "./recipe-file.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uplift-recipe-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function write(name: string, text: string): Promise<string> {
  await writeFile(join(folder, name), text);
  return join(folder, name);
}

async function codeOf(file: string): Promise<string | undefined> {
  return loadRecipe(file).then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof UserError) return error.code;
      throw error;
    },
  );
}

const fromProject = (path: string): string => new URL(`../../${path}`, import.meta.url).pathname;

describe("a recipe file", () => {
  it("is the same recipe in TypeScript and YAML, named for its file", async () => {
    const typescript = await loadRecipe(fromProject("recipes/quickstart-rl.ts"));
    const yaml = await loadRecipe(await write("quickstart-rl.yaml", stringify(quickstartRl)));
    const yml = await loadRecipe(await write("quickstart-rl.yml", stringify(quickstartRl)));
    expect(yaml.recipe).toEqual(typescript.recipe);
    expect(yml.recipe).toEqual(typescript.recipe);
    expect([typescript.name, yaml.name, yml.name]).toEqual(["quickstart-rl", "quickstart-rl", "quickstart-rl"]);
  });

  it("has places in YAML and none in TypeScript", async () => {
    const yaml = await loadRecipe(await write("places.yaml", stringify(quickstartRl)));
    const typescript = await loadRecipe(fromProject("recipes/quickstart-rl.ts"));
    const line = stringify(quickstartRl).split("\n").indexOf("  steps: 30") + 1;
    expect(yaml.locate("rl.steps")).toBe(`${yaml.file}:${line}:10: rl.steps`);
    expect(yaml.locate("")).toBe(`${yaml.file}:1:1`);
    expect(typescript.locate("rl.steps")).toBeNull();
  });

  it("that is missing, of another kind, without a default export or broken says so", async () => {
    expect(await codeOf(join(folder, "none.ts"))).toBe("recipe-missing");
    expect(await codeOf(join(folder, "none.yaml"))).toBe("recipe-missing");
    expect(await codeOf(await write("recipe.json", "{}"))).toBe("recipe-file-kind");
    expect(await codeOf(await write("recipe", "{}"))).toBe("recipe-file-kind");
    expect(await codeOf(await write("named.mjs", "export const recipe = {};"))).toBe("recipe-no-default-export");
    expect(await codeOf(await write("broken.mjs", "export default {"))).toBe("file-does-not-load");
    expect(await codeOf(await write("throws.mjs", "throw new Error('no');"))).toBe("file-does-not-load");
    expect(await codeOf(await write("wrong.yaml", "kind: rl\n"))).toBe("recipe-invalid");
    expect(await codeOf(await write("folder.ts.yaml", "- 1"))).toBe("yaml-not-a-mapping");
  });
});
