/**
 * npm run generate: schemas/*.ts → schemas/generated/*.schema.json (JSON Schema, for editors and other languages).
 * With --check it writes nothing and fails where a file differs.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { Checkpoint } from "../schemas/checkpoint.ts";
import { Evaluation } from "../schemas/evaluation.ts";
import { Leaderboard } from "../schemas/leaderboard.ts";
import { Plan } from "../schemas/plan.ts";
import { Recipe } from "../schemas/recipe.ts";
import { Run } from "../schemas/run.ts";
import { Target } from "../schemas/target.ts";
import { TaskSet } from "../schemas/task.ts";
import { Trajectory } from "../schemas/trajectory.ts";

const FOLDER = join(import.meta.dirname, "../schemas/generated");
const NOUNS = { checkpoint: Checkpoint, evaluation: Evaluation, leaderboard: Leaderboard, plan: Plan, run: Run };
/** What people write: defaults may be left out. */
const INPUTS = { recipe: Recipe, target: Target };
const OTHERS = { "task-set": TaskSet, trajectory: Trajectory };

const check = process.argv.includes("--check");
const stale: string[] = [];
await mkdir(FOLDER, { recursive: true });
for (const [name, schema] of Object.entries({ ...NOUNS, ...OTHERS, ...INPUTS })) {
  const io = name in INPUTS ? "input" : "output";
  const json = { $comment: `Made from schemas/${name}.ts by npm run generate.`, ...z.toJSONSchema(schema, { io }) };
  const text = `${JSON.stringify(json, null, 2)}\n`;
  const path = join(FOLDER, `${name}.schema.json`);
  if (!check) await writeFile(path, text);
  else if ((await readFile(path, "utf8").catch(() => "")) !== text) stale.push(path);
}
if (stale.length > 0) {
  process.stderr.write(`Stale: ${stale.join(", ")}\nRun npm run generate and commit what it changed.\n`);
  process.exitCode = 1;
}
