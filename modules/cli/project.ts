/**
 * Project: where the CLI finds recipes, targets, base models and the target's home. Reads files; writes nothing.
 */
import { access } from "node:fs/promises";
import { basename, isAbsolute, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { UserError } from "../../schemas/error.ts";
import { Target } from "../../schemas/target.ts";

/** The project's folder: the one this file's package lies in. */
export const PROJECT_DIR = fileURLToPath(new URL("../..", import.meta.url));

/** A recipe file as imported, with the name its file gives it. */
export interface RecipeFile {
  readonly file: string;
  readonly name: string;
  readonly recipe: unknown;
}

/** Imports a recipe file's default export. */
export async function loadRecipe(file: string): Promise<RecipeFile> {
  const path = resolve(file);
  const name = basename(path).replace(/\.[cm]?[jt]s$/, "");
  const exported = await importDefault(path, file, {
    code: "recipe-missing",
    allowed: "a file such as recipes/quickstart-rl.ts",
    todo: "check the path; `ls recipes` lists what there is",
  });
  if (exported === undefined)
    throw new UserError({
      code: "recipe-no-default-export",
      path: file,
      asked: "the file is read as a recipe",
      found: "it has no default export",
      allowed: "export default sftThenRl({ … }) or rlOnly({ … })",
      todo: "export the recipe as default",
    });
  return { file, name, recipe: exported };
}

/** A target by name (stacks/targets/NAME.ts) or by path. */
export async function loadTarget(nameOrPath: string): Promise<Target> {
  const isPath = nameOrPath.includes("/") || nameOrPath.endsWith(".ts");
  const path = isPath ? resolve(nameOrPath) : join(PROJECT_DIR, "stacks/targets", `${nameOrPath}.ts`);
  const exported = await importDefault(path, nameOrPath, {
    code: "target-missing",
    allowed: "a name in stacks/targets, or a path",
    todo: "`ls stacks/targets` lists what there is",
  });
  const parsed = Target.safeParse(exported);
  if (parsed.success) return parsed.data;
  throw new UserError(
    parsed.error.issues.map((issue) => ({
      code: "target-invalid",
      path: `${nameOrPath}: ${issue.path.map(String).join(".")}`,
      asked: "a value of the documented type is needed",
      found: issue.message,
      allowed: "see schemas/target.ts",
      todo: "correct this field",
    })),
  );
}

/** The target's home as an absolute folder. */
export function homeOf(target: Target): string {
  return isAbsolute(target.home) ? target.home : join(PROJECT_DIR, target.home);
}

/** The folder of a base model: a name in tools/base-model, or a path. */
export async function baseModelFolder(model: string, root = PROJECT_DIR): Promise<string> {
  const path = model.includes("/") ? resolve(root, model) : join(root, "tools/base-model", model);
  if (await exists(join(path, "config.json"))) return path;
  throw new UserError({
    code: "model-missing",
    path: "model",
    asked: `the base model "${model}"`,
    found: "there is no Hugging Face model of that name or at that path",
    allowed: "a folder in tools/base-model, or a path to a folder with config.json",
    todo: "correct the recipe's model",
  });
}

async function importDefault(
  path: string,
  shown: string,
  missing: { code: string; allowed: string; todo: string },
): Promise<unknown> {
  if (!(await exists(path)))
    throw new UserError({ ...missing, path: shown, asked: "this file", found: "there is none" });
  try {
    // With a query Node also loads a file outside of any package; there its exports arrive one level deeper.
    const module: { default?: unknown } = await import(`${pathToFileURL(path).href}?uplift`);
    const nested = module.default;
    return isModule(nested) ? nested.default : nested;
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError({
      code: "file-does-not-load",
      path: shown,
      asked: "the file is imported as a TypeScript module",
      found: error instanceof Error ? error.message.split("\n").slice(0, 3).join(" ") : String(error),
      allowed: "a module that imports without an error",
      todo: "correct it (npx tsc --noEmit may say more); outside this project give it the ending .mts",
    });
  }
}

function isModule(value: unknown): value is { default?: unknown } {
  return typeof value === "object" && value !== null && "__esModule" in value;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
