/**
 * uplift plan: a recipe and a target → the plan, as a page or as JSON. Reads files only.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { canonicalJson } from "../../../schemas/digest.ts";
import { renderPlan } from "../../plan/index.ts";
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

/** Registers the command. */
export function planCommand(program: Command): void {
  const command = program
    .command("plan <recipe>")
    .description(
      "turn a recipe and a target into a plan: what will run, on which tasks, and what it may be compared with",
    )
    .option("-o, --out <folder>", "also write plan.json and every trainer's configuration to this folder");
  withTarget(withPlanOptions(command)).action(async (recipe: string, options: PlanFlags) => {
    const { plan } = await makePlan(recipe, await loadTarget(options.target), planOptions(options));
    if (options.out) {
      await mkdir(options.out, { recursive: true });
      await writeFile(join(options.out, "plan.json"), `${canonicalJson(plan)}\n`);
      for (const job of plan.jobs)
        if (job.kind === "train")
          await writeFile(
            join(options.out, `${job.id}.${job.trainer}.json`),
            `${JSON.stringify(job.config, null, 2)}\n`,
          );
    }
    if (options.json) print(canonicalJson(plan));
    else print(renderPlan(plan).trimEnd());
  });
  example(command, "plan recipes/quickstart-sft-rl.ts", "plan recipes/quickstart-rl.ts --json | jq .taskSet");
}
