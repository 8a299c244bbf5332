/**
 * Family: a folder with family.json, tools.py and grader.py → a checked family, with digest and staged files.
 * Comes in: folder, staging folder, Python. Goes out: `Family`. Reads the folder, writes copies named by their content,
 * so that what the digest says is what runs, even when someone edits the folder while the service is up.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestBytes, digestJson } from "../../schemas/digest.ts";
import { fromZod, UserError } from "../../schemas/error.ts";
import { TaskFamily } from "../../schemas/task.ts";
import { RESERVED_TOOLS } from "./gym-protocol.ts";
import { type SandboxFiles, stagePython } from "./python-file.ts";

/** A task family that the service can run. */
export interface Family {
  readonly definition: TaskFamily;
  /** Of its three files; the same on every machine. */
  readonly digest: Digest;
  /** What an attempt's sandbox gets of it … */
  readonly toolFiles: SandboxFiles;
  /** … and what only the grader's gets. */
  readonly graderFiles: SandboxFiles;
}

/** Where they are inside a sandbox; payload/executor.py has the same. */
const TOOLS = "/opt/uplift/tools.py";
const GRADER = "/grader/grader.py";

/** Loads one family folder; a mistake in it is a UserError with the file's path. */
export async function loadFamily(args: { folder: string; staging: string; python: string | null }): Promise<Family> {
  const { folder, ...stage } = args;
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
    digest: familyDigest({ "family.json": declaration, "grader.py": grader, "tools.py": tools }),
    toolFiles: await stagePython({ ...stage, origin: join(folder, "tools.py"), inside: TOOLS, source: tools }),
    graderFiles: await stagePython({ ...stage, origin: join(folder, "grader.py"), inside: GRADER, source: grader }),
  };
}

/** The digest of a family's three files, by name: as modules/tasks computes it for TaskSet.family.digest. */
export function familyDigest(files: Readonly<Record<"family.json" | "grader.py" | "tools.py", Uint8Array>>): Digest {
  return digestJson(Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, digestBytes(bytes)])));
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
  const reserved = names.find((name) => RESERVED_TOOLS.includes(name));
  if (reserved !== undefined) {
    throw new UserError({
      code: "family-invalid",
      path: `${file}: tools`,
      asked: `a tool ${reserved} is declared`,
      found: "NeMo Gym has a route of that name, so no rollout could call the tool",
      allowed: `any name but ${RESERVED_TOOLS.join(", ")}`,
      todo: "give the tool another name",
    });
  }
  return parsed.data;
}
