/**
 * npm run generate: schemas/*.ts → schemas/generated/*.schema.json (JSON Schema, for editors and other languages), and
 * docs/recipe-reference.md. With --check it writes nothing and fails where a file differs.
 */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { Checkpoint } from "../schemas/checkpoint.ts";
import { DatasetIndex } from "../schemas/dataset.ts";
import { Evaluation } from "../schemas/evaluation.ts";
import { Leaderboard } from "../schemas/leaderboard.ts";
import { Plan } from "../schemas/plan.ts";
import { Recipe } from "../schemas/recipe.ts";
import { Review } from "../schemas/review.ts";
import { Run } from "../schemas/run.ts";
import { Target } from "../schemas/target.ts";
import { TaskSet } from "../schemas/task.ts";
import { Trajectory } from "../schemas/trajectory.ts";
import { FieldDocs } from "./field-docs.ts";
import { recipeReference } from "./recipe-reference.ts";

const ROOT = join(import.meta.dirname, "..");
const NOUNS = {
  checkpoint: Checkpoint,
  evaluation: Evaluation,
  leaderboard: Leaderboard,
  plan: Plan,
  review: Review,
  run: Run,
};
/** What people write: defaults may be left out. */
const INPUTS = { recipe: Recipe, target: Target, dataset: DatasetIndex };
const OTHERS = { "task-set": TaskSet, trajectory: Trajectory };

const docs = new FieldDocs();
for (const name of (await readdir(join(ROOT, "schemas"))).sort())
  if (name.endsWith(".ts")) docs.add(await readFile(join(ROOT, "schemas", name), "utf8"));

const files = new Map<string, string>();
for (const [name, schema] of Object.entries({ ...NOUNS, ...OTHERS, ...INPUTS })) {
  const io = name in INPUTS ? "input" : "output";
  const json = { $comment: `Made from schemas/${name}.ts by npm run generate.`, ...z.toJSONSchema(schema, { io }) };
  const undocumented = docs.describe(json);
  if (name === "recipe" && undocumented.length > 0)
    throw new Error(`recipe fields without a comment: ${[...new Set(undocumented)].join(", ")}`);
  files.set(`schemas/generated/${name}.schema.json`, `${JSON.stringify(json, null, 2)}\n`);
  if (name === "recipe") files.set("docs/recipe-reference.md", recipeReference(json));
}

const check = process.argv.includes("--check");
const stale: string[] = [];
await mkdir(join(ROOT, "schemas/generated"), { recursive: true });
for (const [path, text] of files) {
  if (!check) await writeFile(join(ROOT, path), text);
  else if ((await readFile(join(ROOT, path), "utf8").catch(() => "")) !== text) stale.push(path);
}
if (stale.length > 0) {
  process.stderr.write(`Stale: ${stale.join(", ")}\nRun npm run generate and commit what it changed.\n`);
  process.exitCode = 1;
}
