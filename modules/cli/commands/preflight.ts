/**
 * uplift preflight: a target of nodes and the plans it is to run → what would make `up` or the plans fail. Reads AWS, the
 * cluster and image registries with whatever credentials there are; changes nothing.
 */
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import type { Finding, PreflightReport } from "../../../schemas/finding.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { makePlan } from "../make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../project.ts";
import { readReviewedPlan } from "../reviewed-plan.ts";
import { CACHE_DIR } from "../session.ts";
import { example, print, printJson, type TargetOptions, withTarget } from "./options.ts";

type PreflightOptions = TargetOptions & { readonly strict: boolean };

/** Registers the command. */
export function preflightCommand(program: Command): void {
  const command = program
    .command("preflight [plans...]")
    .description(
      "look for what would make `up` or the plans (files or recipes) fail: quotas, capacity, versions, images, secrets",
    )
    .option("--strict", "also fail on warnings, and on what could not be checked", false);
  withTarget(command).action(async (files: string[], { target: name, json, strict }: PreflightOptions) => {
    const target = await loadTarget(name);
    if (target.kind === "local") throw new UserError(nothingToCheck(name));
    const { plans, mistakes } = await readPlans(target, files);
    const { passes, renderPreflight, reportOf } = await import("../../cluster/preflight/index.ts");
    const looked = await look(target, plans);
    const report = reportOf(target, plans, [...mistakes, ...looked.findings]);
    if (json) printJson(report);
    else print(renderPreflight(report).trimEnd());
    if (!passes(report, strict)) process.exitCode = 1;
  });
  example(
    command,
    "preflight recipes/github-sft-rl.ts --target aws-p5en",
    "preflight build/plan/plan.json --target kubernetes --strict --json",
  );
}

/**
 * Before `up`: throws `preflight-failed` with everything that would make it fail. What could not be checked stops nothing;
 * it is printed, as warnings are.
 */
export async function requirePreflight(
  target: ClusterTarget,
  plans: readonly Plan[],
  { json }: { readonly json: boolean },
): Promise<PreflightReport> {
  const { renderPreflight } = await import("../../cluster/preflight/index.ts");
  const report = await look(target, plans);
  const notes = report.findings.filter(({ status }) => status !== "ok");
  if (!json) print(renderPreflight({ ...report, findings: notes }));
  const errors = notes.filter(({ status }) => status === "error");
  if (errors.length > 0) throw new UserError(errors.map(issueOf));
  return report;
}

/** Every check, with this machine's credentials. */
async function look(target: ClusterTarget, plans: readonly Plan[]): Promise<PreflightReport> {
  const { connectClients, preflight } = await import("../../cluster/preflight/index.ts");
  const clients = connectClients(target, { env: process.env, now: new Date(), pulumi: findPulumi });
  try {
    return await preflight(target, plans, clients);
  } finally {
    clients.close();
  }
}

async function findPulumi(): Promise<string> {
  const found = await import("../../../stacks/pulumi-cli.ts");
  return found.findPulumi({ root: PROJECT_DIR, cache: CACHE_DIR, path: process.env.PATH ?? "" });
}

/** Plans as files or recipes; what is wrong with one is a finding, and keeps no other from being looked at. */
async function readPlans(target: ClusterTarget, files: readonly string[]) {
  const mistakes: Finding[] = [];
  const plans: Plan[] = [];
  for (const file of files) {
    try {
      plans.push(file.endsWith(".json") ? await readReviewedPlan(file) : (await makePlan(file, target)).plan);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      mistakes.push(...error.issues.map((issue) => mistakeOf(issue)));
    }
  }
  return { plans, mistakes };
}

function mistakeOf({ code, path, asked, found, allowed, todo }: UserError["issues"][number]): Finding {
  return {
    ...{ area: "plans", check: "plan", status: "error", subject: path },
    ...{ found: `${asked}, but ${found} [${code}]`, wanted: allowed, todo },
  };
}

function issueOf({ subject, found, wanted, todo }: Finding): UserError["issues"][number] {
  return { code: "preflight-failed", path: subject, asked: `${wanted} is needed`, found, allowed: wanted, todo };
}

const nothingToCheck = (name: string) => ({
  ...{ code: "preflight-local", path: "--target" },
  asked: `a preflight of ${name}`,
  found: "a local target has no cluster, quotas or registries",
  allowed: "a target of kind aws or kubernetes",
  todo: "name one with --target; `uplift preview` says what `up` would do here",
});
