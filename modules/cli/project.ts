/**
 * Project: where the CLI finds targets, base models and the target's home. Reads files; writes nothing.
 */
import { access } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { UserError } from "../../schemas/error.ts";
import { type LocalTarget, Target } from "../../schemas/target.ts";
import { importDefault } from "./recipe-file.ts";

/** The project's folder: the one this file's package lies in. */
export const PROJECT_DIR = fileURLToPath(new URL("../..", import.meta.url));

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

/** The same, where a command needs a platform that can be brought up: for now that is the local one. */
export async function loadLocalTarget(nameOrPath: string): Promise<LocalTarget> {
  const target = await loadTarget(nameOrPath);
  if (target.kind === "local") return target;
  throw new UserError({
    code: "target-not-local",
    path: nameOrPath,
    asked: `a platform on the ${target.kind} target ${target.name}`,
    found: "Uplift plans and reviews for clusters; it does not yet stand them up or run on them",
    allowed: "plan, diff and explain for any target; everything else for a local one",
    todo: `uplift plan RECIPE --target ${target.name} --out FOLDER writes every file of the run`,
  });
}

/** The target's home as an absolute folder. */
export function homeOf(target: LocalTarget): string {
  return isAbsolute(target.home) ? target.home : join(PROJECT_DIR, target.home);
}

/** The folder of a base model: a name in tools/base-model, or a path. */
export async function baseModelFolder(model: string, root = PROJECT_DIR, where = "model"): Promise<string> {
  const path = model.includes("/") ? resolve(root, model) : join(root, "tools/base-model", model);
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

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
