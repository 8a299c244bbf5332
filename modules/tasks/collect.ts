/**
 * Collect: tasks × attempts → expert trajectories, each handed over as soon as it is there.
 * Resumable: what is already done is skipped. Infrastructure failures are tried again and, if they stay, recorded as
 * such; an unreachable service stops everything. Touches only the environment it is given.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../../schemas/error.ts";
import type { Task, TaskSet } from "../../schemas/task.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import type { EnvironmentClient } from "./environment-client.ts";
import { actExpert, attemptSeed } from "./expert.ts";

/** What to collect, and where to put it. */
export interface CollectRequest {
  taskSet: TaskSet;
  /** The tasks to attempt; each must be in the set. */
  taskIds: readonly string[];
  /** Attempts a task, numbered from 0. */
  attempts: number;
  seed: number;
  /** Attempts under way at once. */
  concurrency: number;
  environment: EnvironmentClient;
  /** What an earlier, interrupted collection handed over. */
  done: Iterable<Trajectory>;
  /** Called once for every new trajectory, one call at a time, in order of completion. */
  onTrajectory: (trajectory: Trajectory) => void | Promise<void>;
  /** Tries after an infrastructure failure before it is recorded. */
  infrastructureRetries?: number;
  /** Pause before such a try, milliseconds, times the number of the try. */
  retryPauseMilliseconds?: number;
  /** No new attempt is begun after this; those under way are finished and handed over. */
  signal?: AbortSignal;
}

/** How much was there before, how much is new, and whether it ended early. */
export interface CollectReport {
  alreadyDone: number;
  collected: number;
  /** Attempts not made because of the signal. */
  remaining: number;
}

/** Collects; throws the first error of `onTrajectory`, a defect, or an unreachable environment's, after all are idle. */
export async function collectTrajectories(request: CollectRequest): Promise<CollectReport> {
  const {
    attempts,
    concurrency,
    environment,
    seed,
    signal,
    onTrajectory,
    infrastructureRetries = 3,
    retryPauseMilliseconds = 1000,
  } = request;
  if (!Number.isInteger(attempts) || attempts < 1)
    throw new RangeError(`attempts is ${attempts}, not a positive whole number`);
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw new RangeError(`concurrency is ${concurrency}, not a positive whole number`);
  const tasks = chooseTasks(request.taskSet, request.taskIds);
  const done = new Set<string>();
  for (const trajectory of request.done) {
    refuseAnotherSeed(trajectory, seed);
    done.add(`${trajectory.taskId} ${trajectory.attempt}`);
  }
  const wanted = tasks.flatMap((task) => Array.from({ length: attempts }, (_, attempt) => ({ task, attempt })));
  const queue = wanted.filter(({ task, attempt }) => !done.has(`${task.id} ${attempt}`));
  const alreadyDone = wanted.length - queue.length;
  let next = 0;
  let collected = 0;
  let failure: { error: unknown } | null = null;
  let handover = Promise.resolve();

  const worker = async (): Promise<void> => {
    while (!failure && !signal?.aborted) {
      const item = queue[next];
      if (!item) return;
      next += 1;
      try {
        const trajectory = await attemptWithRetries(item.task, item.attempt);
        const handed = handover.then(() => onTrajectory(trajectory));
        // The next one waits for this one's turn only; its error is this worker's.
        handover = handed.catch(() => undefined);
        await handed;
        collected += 1;
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  const attemptWithRetries = async (task: Task, attempt: number): Promise<Trajectory> => {
    for (let retries = 0; ; retries += 1) {
      const trajectory = await actExpert(task, attempt, seed, environment);
      if (trajectory.outcome.kind !== "infrastructure" || retries >= infrastructureRetries) {
        return { ...trajectory, infrastructureRetries: retries };
      }
      await sleep(retryPauseMilliseconds * (retries + 1));
    }
  };

  await Promise.all(Array.from({ length: Math.min(concurrency, queue.length) }, worker));
  // Written inside the workers, which the compiler cannot see.
  const failed = failure as { error: unknown } | null;
  if (failed) throw failed.error;
  return { alreadyDone, collected, remaining: queue.length - collected };
}

/** Trajectories of two seeds in one collection could not be made again. */
function refuseAnotherSeed({ taskId, attempt, policy, seed }: Trajectory, asked: number): void {
  const expected = attemptSeed(asked, taskId, attempt);
  if (policy === "expert" && seed === expected) return;
  throw new UserError({
    code: "another-collection",
    path: `${taskId}, attempt ${attempt}`,
    asked: `a collection by the expert with seed ${asked} was to go on`,
    found: `what is already there is by ${policy} with the attempt's seed ${seed}, not ${expected}`,
    allowed: "trajectories of the same expert, seed and task set",
    todo: "use the seed of the earlier collection, or another file",
  });
}

/** The tasks of these ids, in their order, each once; a UserError `unknown-task` for an id that is not in the set. */
export function chooseTasks(taskSet: TaskSet, taskIds: readonly string[]): Task[] {
  const byId = new Map(taskSet.tasks.map((task) => [task.id, task]));
  const unknown = taskIds.filter((id) => !byId.has(id));
  if (unknown.length > 0) {
    throw new UserError({
      code: "unknown-task",
      path: "taskIds",
      asked: `attempts at ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? ` and ${unknown.length - 5} more` : ""} were asked for`,
      found: "the task set has no such task",
      allowed: "ids of tasks of the set",
      todo: "check that ids and task set belong together",
    });
  }
  return [...new Set(taskIds)].map((id) => byId.get(id) as Task);
}
