/**
 * Evaluate: a checkpoint behind an endpoint, on every held-out task, several attempts each → an Evaluation.
 * Reaches the endpoint and the environment service; writes traces to the object store and the progress file.
 * Killed at any moment, the same call goes on with the attempts that had not finished, and repeats none that had.
 */
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import type { Checkpoint, RenderingProbe } from "../../schemas/checkpoint.ts";
import { type Digest, digestJson } from "../../schemas/digest.ts";
import type { ServingSettings } from "../../schemas/endpoint.ts";
import type { Health } from "../../schemas/environment.ts";
import { UserError } from "../../schemas/error.ts";
import { Evaluation, type Lineage } from "../../schemas/evaluation.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Preset } from "../../schemas/preset.ts";
import type { Task, TaskSet } from "../../schemas/task.ts";
import { AttemptRecord, type EvaluationProgress, type PendingAttempt } from "./attempt-record.ts";
import { forEach, Writes } from "./bounded.ts";
import { comparabilityOf, evaluationId } from "./comparability.ts";
import { type EndpointAddress, endpointClient } from "./endpoint-client.ts";
import { environmentClient } from "./environment-client.ts";
import { HARNESS_VERSION, type Harness, runAttempt } from "./harness.ts";
import { watchServices } from "./outages.ts";
import { openProgressFile, type ProgressFile } from "./progress-file.ts";
import { checkRenderingParity } from "./rendering-parity.ts";

/** What an evaluation is of, before it is made. */
export interface PlanEvaluation {
  checkpoint: Checkpoint;
  environmentsUrl: string;
  taskSet: TaskSet;
  heldOutIds: readonly string[];
  preset: Preset;
  serving: ServingSettings;
  /** Digest of the server's own code and version. */
  serverCode: Digest;
  signal?: AbortSignal;
}

/** Asks the environment service what it is; gives the evaluation's id and what it may be compared with. */
export async function planEvaluation(
  input: PlanEvaluation,
): Promise<{ id: string; comparability: Evaluation["comparability"] }> {
  const environment = environmentClient(input.environmentsUrl, 30);
  try {
    const tasks = tasksOf(input.taskSet, input.heldOutIds);
    return conditionsOf(input, tasks, await environment.health(input.signal));
  } finally {
    await environment.close();
  }
}

/** One evaluation to make. */
export interface Evaluate {
  /** From planEvaluation. */
  id: string;
  checkpoint: Checkpoint;
  /** The checkpoint's rendering-probe.json. */
  probe: RenderingProbe;
  endpoint: EndpointAddress;
  environment: { url: string };
  taskSet: TaskSet;
  /** Digest of the task set; computed when left out. */
  taskSetDigest?: Digest;
  heldOutIds: readonly string[];
  preset: Preset;
  serving: ServingSettings;
  /** Digest of the server's own code and version, as planned with. */
  serverCode: Digest;
  lineage: Lineage;
  progressFile: string;
  store: ObjectStore;
  /** Attempts at once. Default 16. */
  concurrency?: number;
  /** An answer of the endpoint or the environment that takes longer has failed, seconds. Default 300. */
  requestSeconds?: number;
  /** Wait before an attempt's first restart, milliseconds; doubles each time. Default 500. */
  retryMilliseconds?: number;
  /** Endpoint or environment service may be away this long at a time, seconds. Default 120. */
  outageSeconds?: number;
  signal?: AbortSignal;
  onProgress?: (progress: EvaluationProgress) => void;
  now: () => Date;
}

/**
 * Makes an evaluation. Throws UserError `rendering-differs` before the first attempt, `evaluation-infrastructure`
 * instead of burning through the tasks when nothing works or a service stays away, `environments-changed` when the
 * tasks' environments are not the ones its id names; the abort's reason when aborted.
 */
export async function evaluate(input: Evaluate): Promise<Evaluation> {
  const concurrency = input.concurrency ?? 16;
  const abort = new AbortController();
  const signal = input.signal ? AbortSignal.any([input.signal, abort.signal]) : abort.signal;
  // Every request under way listens to it.
  setMaxListeners(0, signal);
  const endpoint = endpointClient(input.endpoint, input.requestSeconds ?? 300);
  const environment = environmentClient(input.environment.url, input.requestSeconds ?? 300);
  const outages = watchServices({
    ...{ evaluation: input.id, endpointUrl: input.endpoint.url, environmentUrl: input.environment.url },
    limitSeconds: input.outageSeconds,
  });
  const tasks = tasksOf(input.taskSet, input.heldOutIds);
  const taskSetDigest = input.taskSetDigest ?? digestJson(input.taskSet);
  let file: ProgressFile | undefined;
  try {
    const comparability = checkConditions(input, tasks, await environment.health(signal));
    file = await openProgressFile(input.progressFile, input.id, input.now);
    const record = new AttemptRecord(input, tasks, file, Math.max(8, concurrency));
    const pending = record.pending();
    if (pending.length > 0) {
      await checkRenderingParity(input.probe, endpoint, signal);
      await environment.putTaskSet(taskSetDigest, input.taskSet, signal);
      const harness: Harness = {
        endpoint,
        environment,
        outages,
        preset: input.preset,
        taskSet: taskSetDigest,
        policy: input.checkpoint.name,
        idPrefix: `${input.id}-${randomBytes(3).toString("hex")}`,
        retryMilliseconds: input.retryMilliseconds ?? 500,
        now: input.now,
        signal,
      };
      const play = async (attempts: readonly PendingAttempt[]) => {
        const writes = new Writes(concurrency, abort);
        try {
          await forEach(attempts, concurrency, abort, async ({ taskId, attempt, earlierTries }) => {
            const trajectory = await runAttempt(harness, taskId, attempt, earlierTries);
            await writes.start(() => record.add(trajectory));
          });
        } finally {
          // What has been played is kept, also when the rest is aborted.
          await writes.end();
        }
      };
      await play(pending);
      await play(record.takeBroken());
      await record.end();
    }
    // A service replaced meanwhile by one with other tools or graders has judged some attempts by other rules.
    checkConditions(input, tasks, await environment.health(signal));
    const finishedAt = file.finishedAt ?? input.now().toISOString();
    if (file.finishedAt === null) await file.finish(finishedAt);
    return Evaluation.parse({
      schemaVersion: 1,
      id: input.id,
      model: {
        name: input.checkpoint.name,
        checkpoint: input.checkpoint.digest,
        stage: input.checkpoint.stage,
        step: input.checkpoint.step,
        base: input.checkpoint.base,
      },
      lineage: input.lineage,
      family: input.taskSet.family.name,
      preset: input.preset,
      serving: input.serving,
      taskSetDigest,
      comparability,
      tasks: tasks.map(({ id, project, difficulty, kind }) => ({ id, project, difficulty, kind })),
      results: record.inOrder(),
      startedAt: file.startedAt,
      finishedAt,
    } satisfies Evaluation);
  } finally {
    await Promise.all([endpoint.close(), environment.close(), outages.close(), file?.close()]);
  }
}

function tasksOf(taskSet: TaskSet, ids: readonly string[]): Task[] {
  const known = new Map(taskSet.tasks.map((task) => [task.id, task]));
  const wrong = ids.filter((id, position) => !known.has(id) || ids.indexOf(id) !== position);
  if (ids.length > 0 && wrong.length === 0) return ids.map((id) => known.get(id) as Task);
  throw new UserError({
    code: "held-out-tasks",
    path: "heldOutIds",
    asked: "these tasks were to be evaluated",
    found: ids.length === 0 ? "there are none" : `${wrong.join(", ")} is twice among them or not in the task set`,
    allowed: "at least one task, each once, of the task set",
    todo: "select the held-out tasks again",
  });
}

function checkConditions(input: Evaluate, tasks: readonly Task[], health: Health): Evaluation["comparability"] {
  const { id, comparability } = conditionsOf(input, tasks, health);
  if (id === input.id) return comparability;
  throw new UserError({
    code: "environments-changed",
    path: input.id,
    asked: "this evaluation was to be made under the conditions its id names",
    found: `the environment service now has ${comparability.parts.environments}, or preset, tasks, serving settings or server code are others`,
    allowed: "the same conditions from the first attempt to the last",
    todo: "plan the evaluation again: under the new conditions it is another one",
  });
}

/** The evaluation's id and key with the environments as they are now: those of the task set's family, not of others. */
function conditionsOf(
  input: Pick<PlanEvaluation, "checkpoint" | "taskSet" | "preset" | "serving" | "serverCode">,
  tasks: readonly Task[],
  health: Health,
): { id: string; comparability: Evaluation["comparability"] } {
  const { checkpoint, preset, serving, serverCode } = input;
  const { name } = input.taskSet.family;
  const environments = health.families[name];
  if (environments === undefined)
    throw new UserError({
      code: "task-set-refused",
      path: name,
      asked: "the environment service was to have this task family",
      found: `it has ${Object.keys(health.families).join(", ") || "none"}`,
      allowed: "the family of the task set",
      todo: "start the environment service from the same version of the code",
    });
  const comparability = comparabilityOf({ preset, tasks, environments, harness: HARNESS_VERSION, serving, serverCode });
  return { id: evaluationId(checkpoint.digest, comparability.key), comparability };
}
