/**
 * Kept plans: the plans a platform is for, as files in HOME/plans, so that the next `up` and plain `pulumi up` read the same ones.
 */
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Plan } from "../schemas/plan.ts";
import { writeWhole } from "./stack-runner.ts";

const folderOf = (home: string) => join(home, "plans");

/** The plans of a home, by name; none where there are none. */
export async function keptPlans(home: string): Promise<Plan[]> {
  const files = (await filesIn(folderOf(home))).filter((name) => name.endsWith(".plan.json")).sort();
  return readPlans(files.map((file) => join(folderOf(home), file)));
}

/** Plans of these files. */
export function readPlans(files: readonly string[]): Promise<Plan[]> {
  return Promise.all(files.map(async (file) => Plan.parse(JSON.parse(await readFile(file, "utf8")))));
}

/** Keeps these plans in the place of those before. */
export async function keepPlans(home: string, plans: readonly Plan[]): Promise<void> {
  const folder = folderOf(home);
  await mkdir(folder, { recursive: true });
  const files = new Map(plans.map((plan) => [`${plan.name}.plan.json`, JSON.stringify(plan)]));
  for (const [name, text] of files) await writeWhole(join(folder, name), text);
  for (const file of await filesIn(folder)) if (!files.has(file)) await rm(join(folder, file), { force: true });
}

async function filesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
}
