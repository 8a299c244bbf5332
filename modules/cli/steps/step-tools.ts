/**
 * Step tools: what the executors of this folder are built from, and how a step that is a process is followed.
 */
import { open, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Checkpoint } from "../../../schemas/checkpoint.ts";
import type { Digest } from "../../../schemas/digest.ts";
import type { ObjectStore } from "../../../schemas/object-store.ts";
import type { Plan } from "../../../schemas/plan.ts";
import type { Progress, Run } from "../../../schemas/run.ts";
import { TaskSet } from "../../../schemas/task.ts";
import type { Layout, ProcessJob, ProcessScheduler, StepContext, StepStatus } from "../../runs/index.ts";
import type { NamedRun } from "./earlier-run.ts";

/** What every executor may use. */
export interface StepTools {
  readonly layout: Layout;
  readonly store: ObjectStore;
  readonly scheduler: ProcessScheduler;
  /** The trainers' Python. */
  readonly python: string;
  readonly environmentsUrl: string;
  readonly threads: number;
  readonly now: () => Date;
  /** The code that a step's process runs: the snapshot's, unpacked; on a cluster the image's own. */
  codeOf(run: Run): Promise<string>;
  checkpoint(digest: string): Promise<Checkpoint>;
  /** The run of an id and the runs of a recipe, newest first. */
  runsNamed(idOrRecipe: string): Promise<readonly NamedRun[]>;
  /** Null when the environment service answers, else why a step that needs it waits. */
  environmentOutage(): Promise<string | null>;
  /** Digest of everything beside a plan's serving settings that decides what its model server answers. */
  serverCode(plan: Plan): Promise<Digest>;
}

/** Exit code of a process that refuses its configuration: starting it again cannot help. */
const EXIT_CONFIGURATION = 2;
/** Lines of a failed step's log that its error quotes. */
const QUOTED_LINES = 12;

/** The part of a step's context that names its process and log. */
type StepIdentity = Pick<StepContext, "run" | "tryNumber"> & { readonly job: { readonly id: string } };

/** Key of a step's process; each try is a process of its own. */
export function processKey(context: StepIdentity): string {
  return `${context.run.id}.${context.job.id}.${context.tryNumber}`;
}

/** Starts a step's process if it is not started, and says how it stands; `done` is asked when it ended well. */
export async function followProcess(
  tools: StepTools,
  context: StepIdentity,
  options: {
    readonly process: () => Promise<Omit<ProcessJob, "key" | "logPath">>;
    readonly progress: () => Promise<Progress | null>;
    readonly done: () => Promise<StepStatus>;
    /** Why the process is not to be started yet. */
    readonly waitFor?: () => Promise<string | null>;
    /** Exit codes after which another start cannot help. */
    readonly final?: readonly number[];
  },
): Promise<StepStatus> {
  const key = processKey(context);
  const final = options.final ?? [EXIT_CONFIGURATION];
  const logPath = tools.layout.log(context.run.id, context.job.id);
  const state = await tools.scheduler.state(key);
  switch (state.kind) {
    case "unknown": {
      const why = (await options.waitFor?.()) ?? null;
      if (why !== null) return { kind: "waiting", why };
      await tools.scheduler.submit({ key, logPath, ...(await options.process()) });
      return { kind: "running", progress: await options.progress() };
    }
    case "running":
      return { kind: "running", progress: await options.progress() };
    case "exited":
      if (state.code === 0) return options.done();
      return {
        kind: "failed",
        error: await failure(`exit code ${state.code}`, logPath),
        restart: !final.includes(state.code),
      };
    case "lost":
      return {
        kind: "failed",
        error: await failure("its process is gone without an exit code", logPath),
        restart: true,
      };
  }
}

/** Ends a step's process, which is gone afterwards: one that does not end by itself is killed. */
export async function endProcess(tools: StepTools, context: StepIdentity): Promise<"gone"> {
  await tools.scheduler.cancel(processKey(context));
  return "gone";
}

/** What went wrong, and the end of the log that says why. */
export async function failure(what: string, logPath: string): Promise<string> {
  const tail = (await tailOf(logPath, QUOTED_LINES)).map((line) => `  | ${line}`);
  return [`${what}; the end of ${logPath}:`, ...tail].join("\n");
}

/** The last lines of a file; none if it is not there. */
export async function tailOf(path: string, lines: number): Promise<string[]> {
  const info = await stat(path).catch(() => null);
  if (!info) return [];
  const length = Math.min(info.size, 16 * 1024);
  const file = await open(path, "r");
  try {
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, info.size - length);
    return buffer.toString("utf8").trimEnd().split("\n").slice(-lines);
  } finally {
    await file.close();
  }
}

/** The task set a run was planned with: `uplift train` stored it. */
export async function taskSetOf(tools: StepTools, run: Run): Promise<TaskSet> {
  return TaskSet.parse(JSON.parse(Buffer.from(await tools.store.get(taskSetKey(run))).toString("utf8")));
}

/** Object-store key of a run's task set. */
export function taskSetKey(run: Pick<Run, "plan">): string {
  return `task-sets/${run.plan.taskSet.digest.slice("sha256:".length)}.json`;
}

/** A local file that holds a run's task set. */
export async function taskSetFile(tools: StepTools, run: Run): Promise<string> {
  const key = taskSetKey(run);
  return join(await tools.store.folder("task-sets/"), key.slice("task-sets/".length));
}
