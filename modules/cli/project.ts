/**
 * Project: where the CLI finds targets, base models and the target's home. Reads files; writes nothing.
 */
import { readdir } from "node:fs/promises";
import { basename, isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { fromZod, type Issue, UserError } from "../../schemas/error.ts";
import { type LocalTarget, Target } from "../../schemas/target.ts";
import { nearest } from "./did-you-mean.ts";
import { exists, importDefault } from "./recipe-file.ts";
import { checkSchema } from "./written-schema.ts";

/** The project's folder: the one this file's package lies in. */
export const PROJECT_DIR = fileURLToPath(new URL("../..", import.meta.url));

/** A target by name (stacks/targets/NAME.ts) or by path. UserErrors: `target-missing`, `target-invalid`, of importing code. */
export async function loadTarget(nameOrPath: string): Promise<Target> {
  const isPath = nameOrPath.includes("/") || nameOrPath.endsWith(".ts");
  const path = isPath ? resolve(nameOrPath) : join(PROJECT_DIR, "stacks/targets", `${nameOrPath}.ts`);
  const shipped = await targetNames();
  const guess = nearest(nameOrPath, shipped);
  const exported = await importDefault(path, nameOrPath, {
    code: "target-missing",
    allowed: `${shipped.join(", ")}, or a path`,
    todo: guess ? `did you mean "${guess}"?` : "use one of those, or copy one to a file of your own",
  }).catch((error: unknown) => {
    throw relative(PROJECT_DIR, path).startsWith("..") ? withImports(error) : error;
  });
  const parsed = Target.safeParse(exported);
  if (parsed.success) {
    const named = basename(path).replace(/\.[cm]?[jt]s$/, "");
    if (parsed.data.name !== named) throw new UserError(otherName(nameOrPath, parsed.data.name, named));
    return parsed.data;
  }
  const form = checkSchema("target", exported);
  if (form.length > 0)
    throw new UserError(
      form.map(({ path: field, issue }) => ({
        ...issue,
        code: issue.code === "recipe-unknown-field" ? "target-unknown-field" : "target-invalid",
        path: `${nameOrPath}: ${field.join(".") || "(the target)"}`,
      })),
    );
  throw fromZod(parsed.error, nameOrPath, "target-invalid");
}

/** Buckets, roles, state and `--target` go by the name: a copy that keeps its original's would change that one's platform. */
function otherName(target: string, name: string, file: string): Issue {
  return {
    ...{ code: "target-invalid", path: `${target}: name`, asked: "a name that is the file's" },
    found: `the file is ${file}.ts and the name "${name}"`,
    allowed: `"${file}"`,
    todo: "write the file's name, or, where a platform of the other name stands, rename the file",
  };
}

/** The same error of a file outside of the clone, where a shipped target's relative imports lead nowhere. */
function withImports(error: unknown): unknown {
  if (!(error instanceof UserError) || error.code !== "file-does-not-load") return error;
  const todo = `outside of the clone import by its absolute path (${join(PROJECT_DIR, "schemas/target.ts")}), or import nothing and export a plain object with kind: "kubernetes" or "aws"; docs/targets.md has both`;
  return new UserError(error.issues.map((issue) => ({ ...issue, todo })));
}

/** Names of the shipped targets. */
async function targetNames(): Promise<string[]> {
  const files = await readdir(join(PROJECT_DIR, "stacks/targets"));
  return files.map((file) => file.replace(/\.ts$/, "")).sort();
}

/** The same, for commands that are about one machine: UserError `target-not-local`. */
export async function loadLocalTarget(nameOrPath: string): Promise<LocalTarget> {
  const target = await loadTarget(nameOrPath);
  if (target.kind === "local") return target;
  throw new UserError({
    ...{ code: "target-not-local", path: nameOrPath, asked: "something that one machine does by itself" },
    found: `${target.name} is a target of kind ${target.kind}`,
    allowed: "a target of kind local",
    todo: "leave --target out; on a cluster: uplift up RECIPE, then uplift train RECIPE",
  });
}

/** The target's home as an absolute folder. */
export function homeOf(target: LocalTarget): string {
  return isAbsolute(target.home) ? target.home : join(PROJECT_DIR, target.home);
}

const modelPath = (model: string, root: string) =>
  model.includes("/") ? resolve(root, model) : join(root, "tools/base-model", model);

/** Whether a base model's files are on this machine. */
export function isModelFolder(model: string): Promise<boolean> {
  return exists(join(modelPath(model, PROJECT_DIR), "config.json"));
}

/** The folder of a base model: a name in tools/base-model, or a path. */
export async function baseModelFolder(model: string, root = PROJECT_DIR, where = "model"): Promise<string> {
  const path = modelPath(model, root);
  if (await exists(join(path, "config.json"))) return path;
  throw new UserError({
    code: "model-missing",
    path: where,
    asked: `the base model "${model}"`,
    found: "there is no Hugging Face model of that name or at that path on this machine",
    allowed:
      "a folder in tools/base-model, or a path to a folder with config.json; a row of schemas/model.ts for a cluster target",
    todo: "correct the recipe's model, or plan for a cluster with --target",
  });
}
