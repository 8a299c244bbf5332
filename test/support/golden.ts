/**
 * Golden plans: the plans of all shipped recipes, as text that a reviewer can read: the quickstart's on this machine,
 * the reference case's on H200 nodes, and one of them on every other shipped target.
 */
import { join } from "node:path";
import { makePlan } from "../../modules/cli/make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../../modules/cli/project.ts";

/** Where they lie. */
export const GOLDEN_DIR = join(import.meta.dirname, "../golden");

/** Recipe and target of each. */
const GOLDEN: readonly (readonly [string, string])[] = [
  ...["quickstart-rl", "quickstart-sft-rl", "smoke"].map((recipe) => [recipe, "local"] as const),
  ...["github-sft-rl", "github-rl", "unreal-sft-rl", "unreal-rl", "unreal-256k-sft-rl", "unreal-256k-rl"].map(
    (recipe) => [recipe, "aws-p5en"] as const,
  ),
  ...["kubernetes", "aws-p5", "aws-p6-b200"].map((target) => ["github-sft-rl", target] as const),
  ["cluster-smoke", "kubernetes"],
];

/** Every recipe's plan as it is now. */
export async function goldenPlans(): Promise<{ path: string; text: string }[]> {
  return Promise.all(
    GOLDEN.map(async ([name, target]) => {
      const { plan } = await makePlan(join(PROJECT_DIR, "recipes", `${name}.ts`), await loadTarget(target));
      return { path: join(GOLDEN_DIR, `${name}.${target}.plan.json`), text: `${JSON.stringify(plan, null, 2)}\n` };
    }),
  );
}
