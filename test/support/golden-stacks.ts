/**
 * Golden stacks: what Pulumi would be asked to make for every shipped recipe on every shipped target of nodes, under mocks:
 * one whole list of resources a target, and for its other recipes what differs from that.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { makePlan } from "../../modules/cli/make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../../modules/cli/project.ts";
import { leafDifferences } from "../../modules/cli/reviewed-plan.ts";
import { digestBytes } from "../../schemas/digest.ts";
import type { ClusterTarget } from "../../schemas/target.ts";
import { clusterStack } from "../../stacks/cluster.ts";
import { type RecordedResource, recordResources } from "./recorded-resources.ts";

/** Where they lie. */
export const GOLDEN_STACKS_DIR = join(import.meta.dirname, "../golden/stacks");

/** The recipe whose list is written whole. */
const WHOLE = "github-sft-rl";
/** Longer texts (scripts, user data) are files of the repository, reviewed there: here their digest shows a change. */
const LONGEST = 200;
const NOW = new Date("2026-12-01T00:00:00Z");

/** Every target's file as it is now. */
export async function goldenStacks(): Promise<{ path: string; text: string }[]> {
  const files: { path: string; text: string }[] = [];
  for (const name of (await namesIn("stacks/targets")).filter((one) => one !== "local")) {
    const target = (await loadTarget(name)) as ClusterTarget;
    const whole = await resourcesOf(WHOLE, target);
    const others: Record<string, unknown> = {};
    for (const recipe of await clusterRecipes())
      if (recipe !== WHOLE)
        others[recipe] = leafDifferences(byName(whole), byName(await resourcesOf(recipe, target)), 200);
    const text = JSON.stringify({ recipe: WHOLE, resources: whole, otherRecipes: others }, null, 1);
    files.push({ path: join(GOLDEN_STACKS_DIR, `${name}.json`), text: `${text}\n` });
  }
  return files;
}

async function resourcesOf(recipe: string, target: ClusterTarget): Promise<RecordedResource[]> {
  const { plan } = await makePlan(join(PROJECT_DIR, "recipes", `${recipe}.ts`), target);
  const environment = { UPLIFT_S3_ACCESS_KEY_ID: "id", UPLIFT_S3_SECRET_ACCESS_KEY: "secret" };
  const resources = await recordResources(clusterStack(target, [plan], { environment, now: NOW }));
  // What waits for what would be nine tenths of the file; tests of order look at it.
  return shortened(
    resources.map(({ options: { dependsOn: _, provider: __, ...options }, ...rest }) => ({ ...rest, options })),
  );
}

/** Names of the recipes that a cluster can plan: the reference case's, and the acceptance run. */
async function clusterRecipes(): Promise<string[]> {
  return (await namesIn("recipes")).filter((name) => /^(github|unreal|cluster)/.test(name));
}

async function namesIn(folder: string): Promise<string[]> {
  const files = await readdir(join(PROJECT_DIR, folder));
  return files
    .filter((file) => file.endsWith(".ts"))
    .map((file) => file.replace(/\.ts$/, ""))
    .sort();
}

const byName = (resources: readonly RecordedResource[]) =>
  Object.fromEntries(resources.map((one) => [`${one.type} ${one.name}`, one]));

function shortened<T>(value: T): T {
  if (typeof value === "string")
    return (value.length > LONGEST ? `[${value.length} characters, ${digestBytes(value)}]` : value) as T;
  if (Array.isArray(value)) return value.map(shortened) as T;
  if (value === null || typeof value !== "object") return value;
  // A dynamic provider's own text is as whoever ran this compiled it.
  const entries = Object.entries(value).filter(([key]) => key !== "__provider");
  return Object.fromEntries(entries.map(([key, item]) => [key, shortened(item)])) as T;
}
