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
import { UserError } from "../../schemas/error.ts";
import { Evaluation, type Lineage } from "../../schemas/evaluation.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Preset } from "../../schemas/preset.ts";
import type { Task, TaskSet } from "../../schemas/task.ts";
import { AttemptRecord, type EvaluationProgress } from "./attempt-record.ts";
import { forEach, Writes } from "./bounded.ts";
import { comparabilityOf, evaluationId } from "./comparability.ts";
import { type EndpointAddress, endpointClient } from "./endpoint-client.ts";
import { environmentClient } from "./environment-client.ts";
import { HARNESS_VERSION, type Harness, runAttempt } from "./harness.ts";
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
  signal?: AbortSignal;
}

/** Asks the environment service what it is; gives the evaluation's id and what it may be compared with. */
export async function planEvaluation(
  input: PlanEvaluation,
): Promise<{ id: string; comparability: Evaluation["comparability"] }> {
  const environment = environmentClient(input.environmentsUrl, 30);
  try {
    const { environmentsDigest } = await environment.health(input.signal);
    const tasks = tasksOf(input.taskSet, input.heldOutIds);
    const { preset, serving } = input;
    const comparability = comparabilityOf({
      preset,
      tasks,
      environments: environmentsDigest,
      harness: HARNESS_VERSION,
      serving,
    });
    return { id: evaluationId(input.checkpoint.digest, comparability.key), comparability };
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
  lineage: Lineage;
  progressFile: string;
  store: ObjectStore;
  /** Attempts at once. Default 16. */
  concurrency?: number;
  /** An answer of the endpoint or the environment that takes longer has failed, seconds. Default 300. */
  requestSeconds?: number;
  /** Wait before an attempt's first restart, milliseconds; doubles each time. Default 500. */
  retryMilliseconds?: number;
  signal?: AbortSignal;
  onProgress?: (progress: EvaluationProgress) => void;
  now: () => Date;
}

/**
 * Makes an evaluation. Throws UserError `rendering-differs` before the first attempt, `evaluation-infrastructure`
 * instead of burning through the tasks when nothing works, `environments-changed` when the tasks' environments are not the
 * ones its id names; the abort's reason when aborted.
 */
export async function evaluate(input: Evaluate): Promise<Evaluation> {
  const concurrency = input.concurrency ?? 16;
  const abort = new AbortController();
  const signal = input.signal ? AbortSignal.any([input.signal, abort.signal]) : abort.signal;
  // Every request under way listens to it.
  setMaxListeners(0, signal);
  const endpoint = endpointClient(input.endpoint, input.requestSeconds ?? 300);
  const environment = environmentClient(input.environment.url, input.requestSeconds ?? 300);
  const tasks = tasksOf(input.taskSet, input.heldOutIds);
  const taskSetDigest = input.taskSetDigest ?? digestJson(input.taskSet);
  let file: ProgressFile | undefined;
  try {
    const comparability = checkConditions(input, tasks, (await environment.health(signal)).environmentsDigest);
    file = await openProgressFile(input.progressFile, input.id, input.now);
    const record = new AttemptRecord(input, tasks, file, Math.max(8, concurrency));
    const pending = record.pending();
    if (pending.length > 0) {
      await checkRenderingParity(input.probe, endpoint, signal);
      await environment.putTaskSet(taskSetDigest, input.taskSet, signal);
      const harness: Harness = {
        endpoint,
        environment,
        preset: input.preset,
        taskSet: taskSetDigest,
        policy: input.checkpoint.name,
        idPrefix: `${input.id}-${randomBytes(3).toString("hex")}`,
        retryMilliseconds: input.retryMilliseconds ?? 500,
        now: input.now,
        signal,
      };
      const writes = new Writes(concurrency, abort);
      try {
        await forEach(pending, concurrency, abort, async ({ taskId, attempt }) => {
          const trajectory = await runAttempt(harness, taskId, attempt);
          await writes.start(() => record.add(trajectory));
        });
      } finally {
        // What has been played is kept, also when the rest is aborted.
        await writes.end();
      }
      await record.end();
    }
    // A service replaced meanwhile by one with other tools or graders has judged some attempts by other rules.
    checkConditions(input, tasks, (await environment.health(signal)).environmentsDigest);
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
    await Promise.all([endpoint.close(), environment.close(), file?.close()]);
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

function checkConditions(input: Evaluate, tasks: readonly Task[], environments: Digest): Evaluation["comparability"] {
  const { preset, serving } = input;
  const comparability = comparabilityOf({ preset, tasks, environments, harness: HARNESS_VERSION, serving });
  if (evaluationId(input.checkpoint.digest, comparability.key) === input.id) return comparability;
  throw new UserError({
    code: "environments-changed",
    path: input.id,
    asked: "this evaluation was to be made under the conditions its id names",
    found: `the environment service now has ${environments}, or preset, tasks or serving settings are others`,
    allowed: "the same conditions from the first attempt to the last",
    todo: "plan the evaluation again: under the new conditions it is another one",
  });
}
