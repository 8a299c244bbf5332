/**
 * Family: a folder with family.json, tools.py and grader.py → a checked family, with digest and staged files.
 * Comes in: folder, staging folder. Goes out: `Family`. Reads the folder, writes copies named by their content, so
 * that what the digest says is what runs, even when someone edits the folder while the service is up.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestBytes, digestJson, shortDigest } from "../../schemas/digest.ts";
import { fromZod, UserError } from "../../schemas/error.ts";
import { TaskFamily } from "../../schemas/task.ts";
import { writeWhole } from "./whole-file.ts";

/** A task family that the service can run. */
export interface Family {
  readonly definition: TaskFamily;
  /** Of its three files; the same on every machine. */
  readonly digest: Digest;
  readonly toolsFile: string;
  readonly graderFile: string;
}

/** Loads one family folder; a mistake in it is a UserError with the file's path. */
export async function loadFamily(folder: string, staging: string): Promise<Family> {
  for (const name of ["family.json", "tools.py", "grader.py"]) {
    if (existsSync(join(folder, name))) continue;
    throw new UserError({
      code: "family-incomplete",
      path: folder,
      asked: "a task family was expected here",
      found: `it has no ${name}`,
      allowed: "a folder with family.json, tools.py and grader.py",
      todo: `add ${name}, or name another folder`,
    });
  }
  const file = join(folder, "family.json");
  const declaration = await readFile(file);
  const tools = await readFile(join(folder, "tools.py"));
  const grader = await readFile(join(folder, "grader.py"));
  return {
    definition: parseDefinition(file, declaration.toString("utf8")),
    // As modules/tasks computes it for TaskSet.family.digest: by file name.
    digest: digestJson({
      "family.json": digestBytes(declaration),
      "grader.py": digestBytes(grader),
      "tools.py": digestBytes(tools),
    }),
    toolsFile: await stageFile(staging, "tools.py", tools),
    graderFile: await stageFile(staging, "grader.py", grader),
  };
}

function parseDefinition(file: string, text: string): TaskFamily {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UserError({
      code: "family-invalid",
      path: file,
      asked: "JSON was expected",
      found: error instanceof Error ? error.message : String(error),
      allowed: "one JSON object",
      todo: "correct the file",
    });
  }
  const parsed = TaskFamily.safeParse(value);
  if (!parsed.success) throw fromZod(parsed.error, file, "family-invalid");
  const names = parsed.data.tools.map((tool) => tool.function.name);
  const sorted = [...new Set(names)].sort();
  if (sorted.join() !== names.join()) {
    throw new UserError({
      code: "family-invalid",
      path: `${file}: tools`,
      asked: "tools in alphabetical order, each once, were expected",
      found: names.join(", "),
      allowed: sorted.join(", "),
      todo: "sort the tools: trainers render them in that order",
    });
  }
  return parsed.data;
}

/** Writes bytes under a name that says its content, once; returns the path. */
export async function stageFile(folder: string, name: string, bytes: Uint8Array): Promise<string> {
  const path = join(folder, `${shortDigest(digestBytes(bytes))}-${name}`);
  if (existsSync(path)) return path;
  await writeWhole(path, bytes);
  return path;
}
