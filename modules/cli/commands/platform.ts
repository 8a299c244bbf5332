/**
 * uplift up | preview | destroy: the target's infrastructure through the Pulumi engine. Here for one machine; of nodes it is
 * cluster-platform.ts.
 */
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import type { StackProgress } from "../../../stacks/engine.ts";
import { ControllerClient } from "../controller-client.ts";
import { hasEnded } from "../follow.ts";
import { ProgressTeller, progressLine, summary } from "../progress.ts";
import { loadTarget } from "../project.ts";
import { decideResults } from "../questions.ts";
import { openSession, type Session } from "../session.ts";
import {
  type DestroyOptions,
  destroyCluster,
  type PreviewOptions,
  previewCluster,
  type UpOptions,
  upCluster,
} from "./cluster-platform.ts";
import { example, print, printJson, withTarget } from "./options.ts";

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
  example(up, "up", "up --target local --json", "up recipes/cluster-smoke.ts --target aws-p5en");

  const preview = program
    .command("preview [plans...]")
    .description("show what `up` would change, and change nothing")
    .option("-v, --verbose", VERBOSE, false);
  withTarget(preview).action(async (files: string[], options: PreviewOptions) => {
    const target = await loadTarget(options.target);
    if (target.kind !== "local") return previewCluster(target, files, options);
    refusePlans(files, target.name);
    const teller = new ProgressTeller(options.json ? null : print);
    const session = await openSession(options.target, teller.tell);
    const result = await teller.preview(() => session.engine.platformPreview(session.target), options);
    if (options.json) printJson(result);
    else print(summary(result.changes));
  });
  example(preview, "preview", "preview recipes/cluster-smoke.ts --target kubernetes");

  const destroy = program
    .command("destroy")
    .description(
      "end every service, job and endpoint of the target; of a target of nodes it shows first what goes and what stays; asks before it deletes results",
    )
    .option("--delete-results", "also delete checkpoints, traces, runs and the leaderboard")
    .option("--keep-results", "keep them without asking")
    .option("--force", "also while runs are under way")
    .option("-y, --yes", "do not ask");
  withTarget(destroy).action(async (options: DestroyOptions) => {
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
