/**
 * uplift preflight: a target of nodes and the plans it is to run → what would make `up` or the plans fail. Reads AWS, the
 * cluster and image registries with whatever credentials there are; changes nothing.
 */
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import type { Finding, PreflightReport } from "../../../schemas/finding.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import { clusterHome, STATE_FOLDER } from "../../../stacks/home.ts";
import { makePlan } from "../make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../project.ts";
import { exists } from "../recipe-file.ts";
import { readReviewedPlan } from "../reviewed-plan.ts";
import { CACHE_DIR } from "../session.ts";
import { example, print, printJson, type TargetOptions, withTarget } from "./options.ts";

type PreflightOptions = TargetOptions & { readonly strict: boolean };

/** Registers the command. */
export function preflightCommand(program: Command): void {
  const command = program
    .command("preflight [plans...]")
    .description(
      "look for what would make `up` or the plans (files or recipes) fail: quotas, capacity, versions, images, secrets; changes nothing",
    )
    .option(
      "--strict",
      "also fail on warnings and on what could not be checked, but not on what only `up` can tell",
      false,
    );
  withTarget(command).action(async (files: string[], { target: name, json, strict }: PreflightOptions) => {
    const target = await loadTarget(name);
    if (target.kind === "local") throw new UserError(nothingToCheck(name));
    const { plans, mistakes } = await readPlans(target, files);
    const { NO_PLANS, passes, renderPreflight, reportOf } = await import("../../cluster/preflight/index.ts");
    const looked = await look(target, plans, await keptOf(target));
    // Plans were named, though none can be read: that is said already.
    const others = files.length === 0 ? looked.findings : looked.findings.filter(({ check }) => check !== NO_PLANS);
    const report = reportOf(target, plans, [...mistakes, ...others]);
    if (json) printJson(report);
    else print(renderPreflight(report).trimEnd());
    if (!passes(report, strict)) process.exitCode = 1;
  });
  example(
    command,
    "preflight recipes/cluster-smoke.ts --target aws-p5en",
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
  { json, kept }: { readonly json: boolean; readonly kept: ReadonlySet<string> },
): Promise<PreflightReport> {
  const { renderPreflight } = await import("../../cluster/preflight/index.ts");
  const report = await look(target, plans, kept);
  const notes = report.findings.filter(({ status }) => status !== "ok");
  if (!json) print(renderPreflight({ ...report, findings: notes }));
  const errors = notes.filter(({ status }) => status === "error");
  if (errors.length > 0) throw new UserError(json ? errors.map(issueOf) : failed(target, errors));
  return report;
}

/** Every check, with this machine's credentials. */
async function look(
  target: ClusterTarget,
  plans: readonly Plan[],
  kept: ReadonlySet<string>,
): Promise<PreflightReport> {
  const { connectClients, preflight } = await import("../../cluster/preflight/index.ts");
  const clients = connectClients(target, { env: process.env, now: new Date(), kept, ...pulumiOf(target) });
  try {
    return await preflight(target, plans, clients);
  } finally {
    clients.close();
  }
}

/** Pulumi's engine and providers, as `up` finds them. Loaded late: the engine's modules take a second. */
function pulumiOf(target: ClusterTarget) {
  const places = { root: PROJECT_DIR, cache: CACHE_DIR, path: process.env.PATH ?? "" };
  return {
    pulumi: async () => (await import("../../../stacks/pulumi-cli.ts")).findPulumi(places),
    provider: async (name: "aws" | "kubernetes") => {
      const { findProvider } = await import("../../../stacks/pulumi-providers.ts");
      return findProvider(name, { ...places, home: homeOf(target) });
    },
  };
}

const homeOf = (target: ClusterTarget) => resolve(PROJECT_DIR, clusterHome(target));

/** Variables whose values the platform has. Of a platform that was never made here, or whose state cannot be read, none. */
async function keptOf(target: ClusterTarget): Promise<ReadonlySet<string>> {
  const { stateUrl } = target.platform ?? {};
  if (!stateUrl && !(await exists(join(homeOf(target), STATE_FOLDER)))) return new Set();
  const { keptVariables, openClusterEngine } = await import("../cluster-platform.ts");
  // Why a state cannot be read is said by the checks of Pulumi and of the cluster.
  return openClusterEngine(target)
    .then(keptVariables)
    .catch(() => new Set());
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

/** The findings stand above already: this counts them, by the names of the checks. */
function failed({ name }: ClusterTarget, errors: readonly Finding[]): UserError["issues"][number] {
  const checks = [...new Set(errors.map(({ check }) => check))].join(", ");
  return {
    ...{ code: "preflight-failed", path: name, asked: "`up` goes on after a preflight without errors" },
    found: `there ${errors.length === 1 ? "is 1 error" : `are ${errors.length} errors`} above (${checks})`,
    allowed: "warnings, and what could not be checked",
    todo: "do what stands under each error; --skip-preflight goes on all the same",
  };
}

const nothingToCheck = (name: string) => ({
  ...{ code: "preflight-local", path: "--target" },
  asked: `a preflight of ${name}`,
  found: "a local target has no cluster, quotas or registries",
  allowed: "a target of kind aws or kubernetes",
  todo: "name one with --target; `uplift preview` says what `up` would do here",
});
