/**
 * uplift plan: a recipe and a target → the plan, as a page or as JSON, and every file the jobs will read. Reads files only.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { canonicalJson } from "../../../schemas/digest.ts";
import type { Plan } from "../../../schemas/plan.ts";
import { capacityBlockRemaining, renderPlan } from "../../plan/index.ts";
import { vllmFlags } from "../../serving/index.ts";
import { renderFiles } from "../../trainers/index.ts";
import { makePlan } from "../make-plan.ts";
import { loadTarget } from "../project.ts";
import {
  example,
  type PlanCommandOptions,
  planOptions,
  print,
  type TargetOptions,
  withPlanOptions,
  withTarget,
} from "./options.ts";

type PlanFlags = TargetOptions & PlanCommandOptions & { readonly out?: string };

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
    .command("plan <recipe>")
    .description(
      "turn a recipe and a target into a plan: what will run, whether it fits, what it costs, and what it may be compared with",
    )
    .option("-o, --out <folder>", "also write plan.json and every file of the run as it will lie on the node");
  withTarget(withPlanOptions(command)).action(async (recipe: string, options: PlanFlags) => {
    const { plan } = await makePlan(recipe, await loadTarget(options.target), planOptions(options));
    if (options.out) {
      const files = { "plan.json": `${canonicalJson(plan)}\n`, ...renderFiles(plan, vllmFlags) };
      for (const [name, text] of Object.entries(files)) {
        const path = join(options.out, name);
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, text, { mode: name.endsWith(".sbatch") ? 0o755 : 0o644 });
      }
      if (!options.json) process.stderr.write(`Wrote ${Object.keys(files).join(", ")} to ${options.out}\n`);
    }
    if (options.json) print(canonicalJson(plan));
    else print(renderPlan(plan).trimEnd());
    tellOfBlock(plan);
  });
  example(
    command,
    "plan recipes/quickstart-sft-rl.ts",
    "plan recipes/github-sft-rl.ts --target aws-p5en --out build/plan",
    "plan recipes/quickstart-rl.ts --json | jq .taskSet",
  );
}
