/**
 * uplift plan: a recipe and a target → the plan, as a page or as JSON, and every file the jobs will read. Reads files only.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { canonicalJson } from "../../../schemas/digest.ts";
import { UserError } from "../../../schemas/error.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { Target } from "../../../schemas/target.ts";
import { capacityBlockRemaining, renderPlan } from "../../plan/index.ts";
import { vllmFlags } from "../../serving/index.ts";
import { renderFiles } from "../../trainers/index.ts";
import { checkRecipeFile, makePlan, type PlannedRecipe } from "../make-plan.ts";
import { loadTarget } from "../project.ts";
import {
  example,
  type PlanCommandOptions,
  planOptions,
  print,
  printJson,
  type TargetOptions,
  withPlanOptions,
  withTarget,
} from "./options.ts";

type PlanFlags = TargetOptions & PlanCommandOptions & { readonly out?: string | undefined };

/** A plan knows no clock; whoever reads it today should know what is left of a capacity block that has begun. */
function tellOfBlock({ target, estimate: { cost } }: Plan): void {
  if (target.kind === "local" || !cost) return;
  const left = capacityBlockRemaining(target.pricing, new Date().toISOString());
  if (left !== null && left < cost.hours.high)
    process.stderr.write(
      `The capacity block has ${left.toFixed(1)} usable hours left now; the run takes up to ${cost.hours.high.toFixed(1)}.\n`,
    );
}

/** Registers the command. */
export function planCommand(program: Command): void {
  const command = program
    .command("plan <recipe...>")
    .description(
      "turn recipes and a target into plans: what will run, whether it fits, what it costs, and what it may be compared with",
    )
    .option("-o, --out <folder>", "also write plan.json and every file of the run as it will lie on the node");
  withTarget(withPlanOptions(command)).action(async (recipes: string[], options: PlanFlags) => {
    const target = await loadTarget(options.target).catch((error: unknown) => targetAndRecipes(error, recipes));
    if (recipes.length === 1) return showPlan(await makePlan(recipes[0] ?? "", target, planOptions(options)), options);
    await planSeveral(recipes, target, options);
  });
  example(
    command,
    "plan recipes/quickstart-sft-rl.ts",
    "plan recipes/github-sft-rl.ts --target aws-p5en --out build/plan",
    "plan recipes/quickstart-rl.ts --json | jq .taskSet",
  );
}

/** Without a target nothing is planned; the recipes' own mistakes are told all the same. */
async function targetAndRecipes(error: unknown, recipes: readonly string[]): Promise<never> {
  if (!(error instanceof UserError)) throw error;
  const issues = [...error.issues];
  for (const recipe of recipes)
    await checkRecipeFile(recipe).catch((mistake: unknown) => {
      if (!(mistake instanceof UserError)) throw mistake;
      issues.push(...mistake.issues);
    });
  throw new UserError(issues);
}

/** Every recipe's plan or mistakes, one after another; a refused one does not keep the others from being planned. */
async function planSeveral(recipes: readonly string[], target: Target, options: PlanFlags): Promise<void> {
  for (const recipe of recipes) {
    try {
      const planned = await makePlan(recipe, target, planOptions(options));
      const out = options.out && join(options.out, planned.plan.name);
      await showPlan(planned, { ...options, out });
      if (!options.json) print();
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      // `recipes/*.ts` also names files that recipes share.
      const shared = error.code === "recipe-no-default-export";
      if (shared) process.stderr.write(`${recipe} is no recipe: it has no default export\n`);
      else {
        process.exitCode = 1;
        if (options.json) printJson({ error: { issues: error.issues } });
        else process.stderr.write(`${error.message}\n`);
      }
    }
  }
}

async function showPlan({ plan }: PlannedRecipe, options: PlanFlags): Promise<void> {
  if (options.out) {
    const files = { "plan.json": `${canonicalJson(plan)}\n`, ...renderFiles(plan, vllmFlags) };
    for (const [name, text] of Object.entries(files)) {
      const path = join(options.out, name);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text, { mode: /\.(sbatch|sh)$/.test(name) ? 0o755 : 0o644 });
    }
    if (!options.json) process.stderr.write(`Wrote ${Object.keys(files).join(", ")} to ${options.out}\n`);
  }
  if (options.json) print(canonicalJson(plan));
  else print(renderPlan(plan).trimEnd());
  tellOfBlock(plan);
}
