/**
 * uplift up | preview | destroy: the target's infrastructure through the Pulumi engine.
 */
import { confirm, isCancel } from "@clack/prompts";
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import { NAMESPACES } from "../../../schemas/manifest.ts";
import type { ClusterStackOutputs } from "../../../schemas/stack.ts";
import type { ClusterTarget } from "../../../schemas/target.ts";
import type { ClusterEngine } from "../../../stacks/cluster-engine.ts";
import type { Changes, StackProgress } from "../../../stacks/engine.ts";
import { platformTarget } from "../../cluster/index.ts";
import {
  agreed,
  keptVariables,
  openClusterEngine,
  plansFor,
  refuseForeignNamespaces,
  refuseShrinking,
  refuseWhileLive,
  reviewPlatform,
} from "../cluster-platform.ts";
import { ControllerClient } from "../controller-client.ts";
import { renderDestroy } from "../destroy-review.ts";
import { hasEnded } from "../follow.ts";
import { ProgressTeller, progressLine } from "../progress.ts";
import { loadTarget } from "../project.ts";
import { openSession, type Session } from "../session.ts";
import { example, print, printJson, type TargetOptions, withTarget } from "./options.ts";
import { requirePreflight } from "./preflight.ts";

/** Registers the three commands. */
export function platformCommands(program: Command): void {
  const up = program
    .command("up [plans...]")
    .description(
      "make or repair the target's platform; a second time changes nothing. A target of nodes takes plans (files or recipes), shows what they need and cost, and asks",
    )
    .option("--force", "also replace what runs under way is using", false)
    .option("-y, --yes", "do not ask")
    .option("--skip-preflight", "do not look for missing capacity, quotas and images first", false)
    .option("-v, --verbose", VERBOSE, false);
  withTarget(up).action(async (files: string[], options: UpOptions) => {
    const target = await loadTarget(options.target);
    if (target.kind !== "local") return upCluster(target, files, options);
    refusePlans(files, target.name);
    const session = await openSession(options.target, options.json ? undefined : printProgress);
    const result = await bringUp(session, options);
    if (options.json) return printJson(result);
    printKept(result.kept);
    print(`${summary(result.changes)} in ${result.durationSeconds.toFixed(0)} s`);
    print(`Dashboard and API: ${result.outputs.controllerUrl}`);
  });
  example(up, "up", "up --target local --json", "up recipes/github-sft-rl.ts --target aws-p5en");

  const preview = program
    .command("preview [plans...]")
    .description("show what `up` would change, and change nothing")
    .option("-v, --verbose", VERBOSE, false);
  withTarget(preview).action(async (files: string[], options: PreviewOptions) => {
    const target = await loadTarget(options.target);
    if (target.kind !== "local") return previewCluster(target, files, options);
    refusePlans(files, target.name);
    const teller = tellerOf(options);
    const session = await openSession(options.target, teller.tell);
    const result = await teller.preview(() => session.engine.platformPreview(session.target), options);
    if (options.json) printJson(result);
    else print(summary(result.changes));
  });
  example(preview, "preview", "preview recipes/github-sft-rl.ts --target kubernetes");

  const destroy = program
    .command("destroy")
    .description(
      "end every service, job and endpoint of the target; of a target of nodes it shows first what goes and what stays; asks before it deletes results",
    )
    .option("--delete-results", "also delete checkpoints, traces, runs and the leaderboard")
    .option("--keep-results", "keep them without asking")
    .option("--force", "also while runs are under way")
    .option("-y, --yes", "do not ask");
  withTarget(destroy).action(async (options: TargetOptions & DestroyOptions) => {
    const target = await loadTarget(options.target);
    if (target.kind !== "local") return destroyCluster(target, options);
    const session = await openSession(options.target, options.json ? undefined : printProgress);
    if (!options.force) await refuseWhileRunning(session);
    const deleteResults = await decideResults(options);
    const result = await session.engine.platformDestroy(session.target, { deleteResults });
    if (options.json) return printJson({ ...result, deletedResults: deleteResults });
    print(`${summary(result.changes)}; results were ${deleteResults ? "deleted" : `kept in ${session.home}`}`);
  });
  example(destroy, "destroy", "destroy --delete-results --yes");
}

const VERBOSE = "name every resource that would be made, instead of counting them by kind";

interface PreviewOptions extends TargetOptions {
  readonly verbose: boolean;
}

interface UpOptions extends PreviewOptions {
  readonly force: boolean;
  readonly yes?: boolean;
  readonly skipPreflight: boolean;
}

/** A platform of nodes: review, preflight, question, then Pulumi. */
async function upCluster(target: ClusterTarget, files: readonly string[], options: UpOptions): Promise<void> {
  const { json, force, skipPreflight } = options;
  const teller = tellerOf(options);
  const engine = await openClusterEngine(target, teller.tell);
  const plans = await plansFor(engine, files);
  const { text, pools, before } = await reviewPlatform(engine, plans);
  if (!json) print(`${text}\n`);
  if (!skipPreflight) await requirePreflight(target, plans, { json, kept: await keptVariables(engine) });
  await engine.requireSecrets();
  await refuseForeignNamespaces(engine);
  const interrupted = tellInterrupted(json);
  await tellKeptSecrets(engine, json);
  if (!json) print("What Pulumi would do:");
  const preview = await teller.preview(() => engine.platformPreview(plans), options);
  if (!json) print(`  would be: ${summary(preview.changes)}`);
  if (!force) await refuseShrinking(engine, { pools, before, taken: preview.taken });
  const { create, update, replace, delete: gone } = preview.changes;
  if (create + update + replace + gone > 0) await agreed(`Make this of ${target.name}?`, options);
  const result = await engine.platformUp(plans);
  if (json) return printJson(result);
  print(`${summary(result.changes)} in ${result.durationSeconds.toFixed(0)} s`);
  print(afterUp(target, result.outputs));
  interrupted();
}

/** On Ctrl-C Pulumi ends what is under way by itself; this process waits for it and says so. Returns how to stop saying it. */
function tellInterrupted(json: boolean): () => void {
  const tell = () => {
    process.exitCode = 130;
    if (!json) print("Interrupted: Pulumi finishes what is under way. Run the same command again to go on.");
  };
  process.once("SIGINT", tell);
  return () => process.off("SIGINT", tell);
}

/** How to reach what was made. */
function afterUp(target: ClusterTarget, { webUrl, slurmRestUrl }: ClusterStackOutputs): string {
  const context = target.kind === "kubernetes" ? ` --context ${target.kubeContext}` : "";
  const kubectl = `kubectl${context} -n ${NAMESPACES.platform}`;
  return [
    `Dashboard and API: ${webUrl ?? `http://127.0.0.1:7600 after: ${kubectl} port-forward service/controller 7600`}`,
    `  its token: ${kubectl} get secret web-token -o jsonpath='{.data.token}' | base64 -d`,
    `Slurm: kubectl${context} -n ${NAMESPACES.slurm} port-forward service/slurm-login 2222:22, then ssh -p 2222 USER@127.0.0.1`,
    `  its REST API, inside the cluster: ${slurmRestUrl}`,
    `Serve a model: uplift serve base --plan PLAN.json --target ${target.name}`,
  ].join("\n");
}

async function previewCluster(target: ClusterTarget, files: readonly string[], options: PreviewOptions): Promise<void> {
  const { json } = options;
  const teller = tellerOf(options);
  const engine = await openClusterEngine(target, teller.tell);
  const plans = await plansFor(engine, files);
  const { text, pools } = await reviewPlatform(engine, plans);
  if (!json) print(`${text}\n`);
  await tellKeptSecrets(engine, json);
  const result = await teller.preview(() => engine.platformPreview(plans), options);
  if (json) printJson({ ...result, pools });
  else print(`would be: ${summary(result.changes)}`);
}

const tellerOf = ({ json }: TargetOptions) => new ProgressTeller(json ? null : print);

/** Of secrets whose variable is not set: which value `up` would take. */
async function tellKeptSecrets(engine: ClusterEngine, json: boolean): Promise<void> {
  if (json) return;
  for (const { field, variable, kept } of await engine.unsetSecrets())
    print(
      kept
        ? `${variable} is not set: the value that the platform has stays (platform.${field})`
        : `${variable} is not set: \`up\` needs it (platform.${field})`,
    );
}

async function destroyCluster(target: ClusterTarget, options: TargetOptions & DestroyOptions): Promise<void> {
  const { json, force, yes } = options;
  const engine = await openClusterEngine(target, tellerOf(options).tell);
  if (!force) await refuseWhileLive(engine, "the platform is to be destroyed");
  if (!json) print(await destroyReview(engine, options));
  const deleteResults = await decideResults(options);
  await agreed(
    `Destroy the platform ${target.name}${deleteResults ? ", and delete checkpoints, traces, runs and the leaderboard with it" : ""}?`,
    { yes, json },
  );
  const result = await engine.platformDestroy({ deleteResults });
  if (json) return printJson({ ...result, deletedResults: deleteResults });
  print(summary(result.changes));
  if (result.kept.length > 0) {
    print("Kept, and still paid for, until uplift destroy --delete-results:");
    for (const { type, name } of result.kept) print(`  ${name}  (${type})`);
  }
}

async function destroyReview(engine: ClusterEngine, options: TargetOptions & DestroyOptions): Promise<string> {
  const { keepResults, deleteResults, yes, json } = options;
  return renderDestroy({
    target: platformTarget(engine.target),
    contents: await engine.contents(),
    pools: (await engine.readOutputs())?.pools ?? null,
    endpoints: await engine.endpointSpecs(),
    deleteResults: keepResults ? false : deleteResults || (canAsk(json) && !yes ? null : false),
  });
}

/** A platform of one machine is the same whatever is trained on it. */
function refusePlans(files: readonly string[], name: string): void {
  if (files.length === 0) return;
  throw new UserError({
    ...{ code: "plans-not-needed", path: files.join(" ") },
    asked: `the platform of ${name} for these plans`,
    found: "the platform of one machine is the same for all plans",
    allowed: "plans for targets of nodes only",
    todo: `uplift up --target ${name}; or name the cluster with --target`,
  });
}

interface DestroyOptions {
  readonly deleteResults?: boolean;
  readonly keepResults?: boolean;
  readonly force?: boolean;
  readonly yes?: boolean;
}

/**
 * Makes or repairs the platform of a session. While runs are under way, services that are alive stay as they are, though
 * their code be older than the clone's: an evaluation is judged by one harness and one grader from start to end.
 */
export async function bringUp(session: Session, { force = false } = {}) {
  // A controller that only answers with errors is no reason to keep it.
  const keep = !force && ((await runsUnderWay(session)) ?? []).length > 0;
  return session.engine.platformUp(session.target, { keep });
}

/** Tells which services were kept though their code is older. */
export function printKept(kept: readonly string[]): void {
  if (kept.length > 0)
    print(
      `Kept while runs are under way: ${kept.join(", ")} (older code; uplift up brings it up to date when they have ended)`,
    );
}

/** Results are deleted only when somebody said so: by the option, or by answering the question. */
async function decideResults({
  deleteResults,
  keepResults,
  yes,
  json,
}: TargetOptions & DestroyOptions): Promise<boolean> {
  if (deleteResults && keepResults)
    throw new UserError({
      code: "destroy-contradiction",
      path: "--delete-results --keep-results",
      asked: "results are to be deleted and kept",
      found: "only one of the two can be done",
      allowed: "one of the two options",
      todo: "leave one out",
    });
  const interactive = canAsk(json);
  if (keepResults || (!deleteResults && !interactive)) return false;
  if (yes) return deleteResults ?? false;
  if (!interactive)
    throw new UserError({
      code: "destroy-needs-yes",
      path: "--delete-results",
      asked: "results are to be deleted",
      found: "there is no terminal to ask on",
      allowed: "--yes, which answers the question",
      todo: "add --yes, or leave --delete-results out",
    });
  const answered = await confirm({
    message: "Delete checkpoints, traces, runs and the leaderboard as well? They cannot be brought back.",
    initialValue: false,
  });
  if (isCancel(answered)) throw new UserError(stopped);
  return answered;
}

const canAsk = (json: boolean) => process.stdin.isTTY && process.stdout.isTTY && !json;

const stopped = {
  code: "stopped",
  path: "destroy",
  asked: "the platform is to be destroyed",
  found: "the question was not answered",
  allowed: "yes or no",
  todo: "run the command again; nothing was changed",
};

/** A platform with running work is not pulled from under it. */
async function refuseWhileRunning(session: Session): Promise<void> {
  const running = await runsUnderWay(session);
  if (running === null || running.length > 0)
    throw new UserError({
      code: "runs-under-way",
      path: session.target.name,
      asked: "the platform is to be destroyed",
      found:
        running === null ? "its controller does not say whether runs are under way" : `${running.join(", ")} not ended`,
      allowed: "a platform without runs under way, or --force",
      todo: "cancel them (uplift cancel RUN), wait, or add --force",
    });
}

/**
 * Ids of runs that have not ended. None where no controller answers: its jobs go on with the next `up`. Null where one
 * answers with an error, as one of another version may.
 */
async function runsUnderWay({ engine, target }: Session): Promise<string[] | null> {
  const outputs = await engine.readOutputs(target);
  if (!outputs) return [];
  try {
    const { runs } = await new ControllerClient(outputs.controllerUrl, 0).runs(0, 200);
    return runs.filter((run) => !hasEnded(run)).map(({ id }) => id);
  } catch (error) {
    return error instanceof UserError && error.code === "controller-unreachable" ? [] : null;
  }
}

/** One line an event of the engine. */
export function printProgress(event: StackProgress): void {
  const line = progressLine(event);
  if (line !== null) print(line);
}

/** "3 created, 5 unchanged". */
export function summary(changes: Changes): string {
  const words: [keyof Changes, string][] = [
    ["create", "created"],
    ["update", "updated"],
    ["replace", "replaced"],
    ["delete", "deleted"],
    ["same", "unchanged"],
  ];
  const parts = words.filter(([key]) => changes[key] > 0).map(([key, word]) => `${changes[key]} ${word}`);
  return parts.length > 0 ? parts.join(", ") : "nothing to do";
}
