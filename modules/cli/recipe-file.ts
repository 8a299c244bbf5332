/**
 * Recipe file: a path → the recipe it exports or spells, the name its file gives it, and where its fields stand.
 * The ending decides: TypeScript and JavaScript are imported, which runs their code; YAML is read. Writes nothing.
 */
import { access, readFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { located, UserError } from "../../schemas/error.ts";
import { mistakesBeside } from "../plan/index.ts";
import { checkSchema } from "./written-schema.ts";
import { parseYamlRecipe } from "./yaml-recipe.ts";

const CODE = /\.[cm]?[jt]s$/;
const YAML = /\.ya?ml$/;

/** A recipe file as read, with the name its file gives it. */
export interface RecipeFile {
  /** As it was asked for; it begins the paths of issues. */
  readonly file: string;
  readonly name: string;
  /** As written: defaults are not filled in. */
  readonly recipe: unknown;
  /**
   * The path of an issue about a field such as "rl.steps" or "report.0", with line and column:
   * "recipes/x.yaml:12:5: rl.steps". Null where the language gives no places: then it is "recipes/x.ts: rl.steps".
   */
  locate(path: string): string | null;
}

/** Reads a recipe file. UserErrors: `recipe-missing`, `recipe-file-kind`, of importing code, of YAML. */
export async function loadRecipe(file: string): Promise<RecipeFile> {
  const path = resolve(file);
  const name = basename(path);
  const missing = {
    code: "recipe-missing",
    allowed: "a file such as recipes/quickstart-rl.ts",
    todo: "check the path; `ls recipes` lists what there is",
  };
  if (YAML.test(path)) {
    const text = await readText(path, file, missing);
    const { value, locate } = parseYamlRecipe(text, file, mistakesBeside);
    const place = (field: string): string => `${file}:${locate(field)}${field === "" ? "" : `: ${field}`}`;
    return { file, name: name.replace(YAML, ""), recipe: value, locate: place };
  }
  if (!CODE.test(path))
    throw new UserError({
      code: "recipe-file-kind",
      path: file,
      asked: "the file is read as a recipe",
      found: `its ending is ${name.includes(".") ? name.slice(name.lastIndexOf(".")) : "missing"}`,
      allowed: ".ts, .mts, .js, .mjs, .yaml or .yml",
      todo: "give the path of a recipe, or rename the file",
    });
  const exported = await importDefault(path, file, missing);
  if (exported === undefined)
    throw new UserError({
      code: "recipe-no-default-export",
      path: file,
      asked: "the file is read as a recipe",
      found: "it has no default export",
      allowed: "export default sftThenRl({ … }) or rlOnly({ … })",
      todo: "export the recipe as default",
    });
  const form = checkSchema("recipe", exported).map(({ path: field, issue }) => ({
    ...issue,
    path: field.join(".") || "(the recipe)",
  }));
  if (form.length > 0)
    throw new UserError(located([...form, ...mistakesBeside(exported)], (field) => `${file}: ${field}`));
  return { file, name: name.replace(CODE, ""), recipe: exported, locate: () => null };
}

/** What a file that is not there is called, and what to do about it. */
export interface MissingFile {
  readonly code: string;
  readonly allowed: string;
  readonly todo: string;
}

/** A module's default export, undefined where it has none. UserErrors: `missing.code`, `file-does-not-load`. */
export async function importDefault(path: string, shown: string, missing: MissingFile): Promise<unknown> {
  if (!(await exists(path))) throw notThere(shown, missing);
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
      found: `${error instanceof Error ? error.message.split("\n").slice(0, 3).join(" ") : String(error)}${lineOf(error, path)}`,
      allowed: "a module that imports without an error",
      todo: "correct it; npx tsc --noEmit may say more",
    });
  }
}

/** " (line 12)": where in the file its own code threw. */
function lineOf(error: unknown, path: string): string {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const at = stack.split("\n").find((line) => line.includes(path));
  const line = /:(\d+):\d+\)?$/.exec(at ?? "")?.[1];
  return line === undefined ? "" : ` (line ${line})`;
}

async function readText(path: string, shown: string, missing: MissingFile): Promise<string> {
  if (!(await exists(path))) throw notThere(shown, missing);
  return readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new UserError({
      code: "file-does-not-load",
      path: shown,
      asked: "the file is read",
      found: `reading it failed: ${error.code ?? error.message}`,
      allowed: "a readable file",
      todo: "check the path and its permissions",
    });
  });
}

function notThere(shown: string, missing: MissingFile): UserError {
  return new UserError({ ...missing, path: shown, asked: "this file", found: "there is none" });
}

function isModule(value: unknown): value is { default?: unknown } {
  return typeof value === "object" && value !== null && "__esModule" in value;
}

/** Whether a file or folder is there. */
export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
