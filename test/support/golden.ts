/**
 * Golden plans: the plans of all shipped recipes on the local target, as text that a reviewer can read.
 */
import { join } from "node:path";
import { makePlan } from "../../modules/cli/make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../../modules/cli/project.ts";

/** Where they lie. */
export const GOLDEN_DIR = join(import.meta.dirname, "../golden");

const RECIPES = ["quickstart-rl", "quickstart-sft-rl", "smoke"];

/** Every recipe's plan as it is now. */
export async function goldenPlans(): Promise<{ path: string; text: string }[]> {
  const target = await loadTarget("local");
  return Promise.all(
    RECIPES.map(async (name) => {
      const { plan } = await makePlan(join(PROJECT_DIR, "recipes", `${name}.ts`), target);
      return { path: join(GOLDEN_DIR, `${name}.plan.json`), text: `${JSON.stringify(plan, null, 2)}\n` };
    }),
  );
}
