/**
 * YAML recipe: a text → the recipe it spells, defaults not filled in, and the line and column of each of its fields.
 * Mistakes of the YAML and of the recipe come together, each with its place. Reads the recipe's JSON Schema.
 */
import { type Issue, UserError } from "../../schemas/error.ts";
import { checkSchema } from "./written-schema.ts";
import { readYamlDocument } from "./yaml-document.ts";

/** A recipe as YAML spells it. */
export interface YamlRecipe {
  /** The same value as the TypeScript spelling exports. */
  readonly value: unknown;
  /** "12:5", the line and column of a field ("rl.steps", "report.0"), or of what comes nearest to it. */
  locate(path: string): string;
}

/**
 * Reads a recipe's YAML; one UserError names all of its mistakes. `file` begins every path. `beside` finds mistakes of
 * meaning in what is right in form; it is asked where something is wrong in form, since the plan is then never made.
 */
export function parseYamlRecipe(
  text: string,
  file: string,
  beside: (value: unknown) => readonly Issue[] = () => [],
): YamlRecipe {
  const document = readYamlDocument(text, file);
  const mistakes = document.mistakes.map(({ issue, position }) => ({ issue, position }));
  if (document.value !== undefined) {
    // What is already known to be misread would only be reported a second time.
    const reported = new Set(document.mistakes.map(({ path }) => path.join(".")));
    for (const { path, of, issue } of checkSchema("recipe", document.value)) {
      const field = path.join(".");
      if (path.length > 0 && reported.has(field)) continue;
      const position = document.position(path, of);
      mistakes.push({ position, issue: { ...issue, path: `${file}:${position}: ${field || "(the recipe)"}` } });
    }
  }
  if (mistakes.length > 0 && document.value !== undefined)
    for (const issue of beside(document.value)) {
      const position = document.position(issue.path.split("."));
      mistakes.push({ position, issue: { ...issue, path: `${file}:${position}: ${issue.path}` } });
    }
  if (mistakes.length > 0) throw new UserError(mistakes.sort(inOrder).map(({ issue }) => issue));
  return { value: document.value, locate: (path) => document.position(path === "" ? [] : path.split(".")) };
}

/** The recipe that a YAML text spells; one UserError names all of its mistakes. */
export function readYamlRecipe(text: string, file: string): unknown {
  return parseYamlRecipe(text, file).value;
}

/** As they stand in the file. */
function inOrder(a: { position: string }, b: { position: string }): number {
  const [lineA = 0, columnA = 0] = a.position.split(":").map(Number);
  const [lineB = 0, columnB = 0] = b.position.split(":").map(Number);
  return lineA - lineB || columnA - columnB;
}
