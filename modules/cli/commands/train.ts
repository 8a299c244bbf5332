/**
 * uplift train | attach | resume | cancel: recipes → runs on the target, followed live. A run does not need its follower.
 */
import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { type Issue, UserError } from "../../../schemas/error.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { Run } from "../../../schemas/run.ts";
import type { TaskSet } from "../../../schemas/task.ts";
import { packSnapshot, storeSnapshot } from "../../runs/index.ts";
import { requireRunnableOn } from "../cluster-submission.ts";
import { RemoteError } from "../controller-client.ts";
import { type FollowOutput, followRuns, hasEnded } from "../follow.ts";
import { makePlan, type PlannedRecipe, type PlanOptions } from "../make-plan.ts";
import { loadTarget, PROJECT_DIR } from "../project.ts";
import {
  type Connection,
  connectCluster,
  connected,
  localConnection,
  outputsIfReadable,
  withConnection,
} from "../remote-session.ts";
import { readReviewedPlan, requireReviewed } from "../reviewed-plan.ts";
import { live, openSession } from "../session.ts";
import { earlierRun, type NamedRun } from "../steps/earlier-run.ts";
import { taskSetKey } from "../steps/step-tools.ts";
import { requireServer } from "../vllm.ts";
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
import { bringUp, printKept, printProgress } from "./platform.ts";

type TrainOptions = TargetOptions &
  PlanCommandOptions & { readonly detach: boolean; readonly again: boolean; readonly plan?: string };

/** A plan that can be run, with its tasks. */
interface RunnablePlan {
  readonly plan: Plan;
  readonly taskSet: TaskSet;
}

/** Registers the four commands. */
export function trainCommands(program: Command): void {
  const train = program
    .command("train <recipe...>")
    .description("plan recipes, snapshot the code, submit the jobs, and follow them to the leaderboard")
    .option("-d, --detach", "submit and return", false)
    .option("--again", "start another run although the same plan with the same code is running", false)
    .option(
      "--plan <file>",
      "plan.json that was reviewed (uplift plan --out): train exactly that; where the recipe now plans otherwise, say what differs and start nothing",
    );
  withTarget(withPlanOptions(train)).action(async (recipes: string[], options: TrainOptions) => {
    const reviewed = options.plan === undefined ? null : await reviewedPlan(options.plan, recipes);
    const planned = await planAll(recipes, options.target, planOptions(options));
    if (options.plan && reviewed) for (const { plan } of planned) requireReviewed(plan, reviewed, options.plan);
    await onPlatform(options, async (connection) => {
      for (const { plan } of planned) await requireEarlierRun(connection, plan);
      const runs: Run[] = [];
      for (const one of planned) runs.push(await submit(connection, one, options));
      const ids = runs.map(({ id }) => id);
      if (!options.detach) await followToTheEnd(connection, ids, options.json);
      else if (options.json) printJson(ids);
      else for (const id of ids) print(`Follow it with: uplift attach ${id}${onTarget(options.target)}`);
    });
  });
  example(
    train,
    "train recipes/quickstart-sft-rl.ts",
    "train recipes/quickstart-rl.ts --detach",
    "train recipes/quickstart-rl.ts --validate",
    "train recipes/quickstart-rl.ts --plan reviewed/plan.json",
    "train recipes/cluster-smoke.ts --target aws-p5en",
  );

  const attach = program.command("attach <run...>").description("follow runs that are under way");
  withTarget(attach).action(async (ids: string[], { target, json }: TargetOptions) => {
    await connected(target, (connection) => followToTheEnd(connection, ids, json));
  });
  example(attach, "attach quickstart-rl-20260102-150405-1a2b");

  const resume = program
    .command("resume <run>")
    .description("let a failed or cancelled run go on: what succeeded stays, the rest goes on from what it saved");
  withTarget(resume).action(async (id: string, options: TargetOptions) => {
    await onPlatform(options, async (connection) => {
      await connection.client.resume(id);
      await followToTheEnd(connection, [id], options.json);
    });
  });
  example(resume, "resume quickstart-rl-20260102-150405-1a2b");

  const cancel = program.command("cancel <run>").description("end a run: its jobs, its evaluations, its endpoints");
  withTarget(cancel).action(async (id: string, { target, json }: TargetOptions) => {
    await connected(target, async ({ client }) => {
      await client.cancel(id);
      const [run] = await followRuns(client, [id], json ? "json" : "lines", new AbortController().signal);
      if (json) printJson(run);
      else print(`${id} is ${run?.state ?? "gone"}`);
    });
  });
  example(cancel, "cancel quickstart-rl-20260102-150405-1a2b");
}

/** The plan that --plan names: of one recipe, because a file holds one. */
async function reviewedPlan(file: string, recipes: readonly string[]): Promise<Plan> {
  if (recipes.length === 1) return readReviewedPlan(file);
  throw new UserError({
    code: "option-invalid",
    path: "--plan",
    asked: `${recipes.length} recipes are trained as ${file} was reviewed`,
    found: "a plan is of one recipe",
    allowed: "one recipe with --plan",
    todo: "train them one by one, each with its own plan.json",
  });
}

/** Plans every recipe, so that each mistake comes before anything is started. */
export async function planAll(
  recipes: readonly string[],
  target: string,
  options: PlanOptions,
): Promise<RunnablePlan[]> {
  const loaded = await loadTarget(target);
  const planned: PlannedRecipe[] = [];
  for (const recipe of recipes) planned.push(await makePlan(recipe, loaded, options));
  const runnable = requireRunnable(planned);
  const plans = runnable.map(({ plan }) => plan);
  if (loaded.kind === "local") for (const plan of plans) await requireServer(plan);
  // Nodes cost money: they are not made here, and what they cannot hold is not sent to them.
  else requireRunnableOn(loaded, plans, await outputsIfReadable(loaded, process.env));
  return runnable;
}

/** Plans that are more than something to read: their tasks are here and can be attempted. */
export function requireRunnable(planned: readonly PlannedRecipe[]): RunnablePlan[] {
  const issues: Issue[] = [];
  const runnable = planned.flatMap(({ plan, taskSet }): RunnablePlan[] => {
    if (taskSet !== null && !plan.taskSet.standIn) return [{ plan, taskSet }];
    const { tasks } = plan.recipe;
    issues.push({
      ...{ code: "stand-in-tasks", path: plan.name },
      asked: `${plan.name} is trained on the tasks of ${tasks.kind === "dataset" ? tasks.index : tasks.family}`,
      found: plan.taskSet.standIn
        ? "they are made up to show how a plan reads: nothing can be attempted on them"
        : "they lie with their environments elsewhere: nothing here can attempt them",
      allowed: "generated tasks of a family in modules/tasks",
      todo: "uplift plan and uplift diff read this recipe; train one whose tasks are here",
    });
    return [];
  });
  if (issues.length > 0) throw new UserError(issues);
  return runnable;
}

/** What a recipe leaves out by an earlier run is looked for before anything is spent, and again when tasks are chosen. */
async function requireEarlierRun({ client, store }: Connection, { recipe, taskSet }: Plan): Promise<void> {
  const name = recipe.rl.tasks.dropAlwaysSolvedBy;
  if (name === undefined) return;
  const runs: NamedRun[] = [];
  for (let offset = 0; ; ) {
    const page = await client.runs(offset, 200);
    runs.push(...page.runs.filter((run) => run.id === name || run.recipe === name));
    offset += page.runs.length;
    if (page.runs.length === 0 || offset >= page.total) break;
  }
  await earlierRun({ name, runs, taskSet: taskSet.digest, store });
}

/**
 * Does something with a target's controller. The platform of one machine is brought up first, which changes nothing where it is;
 * a cluster's costs money, and is made by nobody but `uplift up`.
 */
export async function onPlatform<Result>(
  { target, json }: TargetOptions,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const loaded = await loadTarget(target);
  if (loaded.kind !== "local") return withConnection(await connectCluster(target, loaded, process.env), work);
  const session = await openSession(target, json ? undefined : printProgress);
  const { kept } = await bringUp(session);
  if (!json) printKept(kept);
  return withConnection(localConnection(target, await live(session)), work);
}

/** Submits one plan; the same plan with the same code that is running already is returned instead. */
export async function submit(
  connection: Connection,
  { plan, taskSet }: RunnablePlan,
  { again, json: quiet }: { readonly again: boolean; readonly json: boolean },
): Promise<Run> {
  const { client, store } = connection;
  const snapshot = await storeSnapshot(await packSnapshot(PROJECT_DIR), store);
  await store.put(taskSetKey({ plan }), JSON.stringify(taskSet));
  try {
    const run = await client.submit({ id: newRunId(plan.name, new Date()), plan, snapshot, again });
    const { commit, uncommitted, files } = snapshot;
    const code = `${files} files at ${commit?.slice(0, 12) ?? "no commit"}${uncommitted ? ` with ${uncommitted.files.length} uncommitted` : ""}`;
    if (!quiet)
      print(`Run ${run.id}: plan ${plan.digest.slice(7, 19)}, code ${snapshot.digest.slice(7, 19)} (${code})`);
    return run;
  } catch (error) {
    const running =
      error instanceof RemoteError && error.code === "run-exists"
        ? await twinOf(connection, plan.digest, snapshot.digest)
        : null;
    if (!running) throw error;
    if (!quiet) print(`This plan with this code is running as ${running.id}; following it (--again starts another)`);
    return running;
  }
}

async function twinOf({ client }: Connection, planDigest: string, snapshotDigest: string): Promise<Run | null> {
  const { runs } = await client.runs(0, 200);
  const twin = runs.find(
    (run) => run.state === "running" && run.planDigest === planDigest && run.snapshotDigest === snapshotDigest,
  );
  return twin ? client.run(twin.id) : null;
}

/** Follows runs; Ctrl-C leaves them running. A run that does not succeed makes the exit code 1. */
export async function followToTheEnd(
  { client, dashboard, targetName }: Connection,
  ids: readonly string[],
  json: boolean,
): Promise<Run[]> {
  const detach = new AbortController();
  process.once("SIGINT", () => detach.abort());
  const output: FollowOutput = json ? "json" : process.stdout.isTTY ? "terminal" : "lines";
  const runs = await followRuns(client, ids, output, detach.signal);
  if (json) for (const run of runs) printJson({ event: "run", run });
  else for (const run of runs) printEnd(run, dashboard, onTarget(targetName));
  if (!detach.signal.aborted && runs.some(({ state }) => state !== "succeeded")) process.exitCode = 1;
  return runs;
}

function printEnd(run: Run, dashboard: string, where: string): void {
  if (!hasEnded(run))
    print(`${run.id} goes on; uplift attach ${run.id}${where} follows it, uplift cancel ${run.id}${where} ends it`);
  else if (run.state === "succeeded") print(`${run.id} succeeded: uplift leaderboard${where}, or ${dashboard}`);
  else print(`${run.id} ${run.state}${run.error ? `\n${run.error}` : ""}`);
}

/** What a command needs to be about this target; nothing for the one that is meant where none is named. */
function onTarget(name: string): string {
  return name === "local" ? "" : ` --target ${name}`;
}

/** quickstart-rl-20260102-150405-1a2b: readable, sortable, unique. */
function newRunId(name: string, now: Date): string {
  const stamp = now.toISOString().replace(/[-:]/g, "").replace("T", "-").slice(0, 15);
  return `${name}-${stamp}-${randomBytes(2).toString("hex")}`;
}
