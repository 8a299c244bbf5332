/**
 * Attempt record: the attempts of one evaluation, finished and still to be played.
 * Takes trajectories; writes each to the object store and its result to the progress file. Decides when so much is
 * broken that going on would only burn through the tasks.
 */

import { UserError } from "../../schemas/error.ts";
import type { AttemptResult } from "../../schemas/evaluation.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Preset } from "../../schemas/preset.ts";
import type { Task } from "../../schemas/task.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import type { ProgressFile } from "./progress-file.ts";

/** How far an evaluation is, in attempts. */
export interface EvaluationProgress {
  done: number;
  total: number;
  passed: number;
  infrastructure: number;
}

/** An attempt to be played. */
export interface PendingAttempt {
  taskId: string;
  attempt: number;
  /** Tries of it in this process that were broken. */
  earlierTries: number;
}

/** What a record is of and where it goes. */
interface RecordInput {
  id: string;
  preset: Preset;
  store: ObjectStore;
  onProgress?: (progress: EvaluationProgress) => void;
}

/** Finished attempts: in memory, in the store, in the progress file. */
export class AttemptRecord {
  private readonly results = new Map<string, AttemptResult>();
  /**
   * Broken attempts since the last one that ended properly. They are not yet on record: should nothing work any
   * more, the evaluation stops and a later call plays them again.
   */
  private broken: AttemptResult[] = [];
  private readonly input: RecordInput;
  private readonly tasks: readonly Task[];
  private readonly file: ProgressFile;
  private readonly tooManyBroken: number;

  constructor(input: RecordInput, tasks: readonly Task[], file: ProgressFile, tooManyBroken: number) {
    this.input = input;
    this.tasks = tasks;
    this.file = file;
    this.tooManyBroken = tooManyBroken;
    for (const result of file.results) this.results.set(keyOf(result), result);
  }

  /** What is still to be played: every task once, then every task again, so that half an evaluation shows every task. */
  pending(): PendingAttempt[] {
    return this.all()
      .filter((one) => !this.results.has(keyOf(one)))
      .map((one) => ({ ...one, earlierTries: 0 }));
  }

  /**
   * Takes back the broken attempts that nothing followed, to be played once more: an outage near the end would
   * otherwise be counted, and a finished evaluation is never made again.
   */
  takeBroken(): PendingAttempt[] {
    const taken = this.broken;
    this.broken = [];
    return taken.map(({ taskId, attempt, infrastructureRetries }) => ({
      ...{ taskId, attempt, earlierTries: infrastructureRetries + 1 },
    }));
  }

  inOrder(): AttemptResult[] {
    return this.tasks.flatMap(({ id }) =>
      Array.from({ length: this.input.preset.attempts }, (_, attempt) => {
        const result = this.results.get(keyOf({ taskId: id, attempt }));
        if (result === undefined) throw new Error(`attempt ${attempt} of ${id} has no result`);
        return result;
      }),
    );
  }

  async add(trajectory: Trajectory): Promise<void> {
    const traceKey = `traces/${this.input.id}/${trajectory.taskId}/${trajectory.attempt}.json`;
    // The trace first: a result on record always has its trace.
    await this.input.store.put(traceKey, JSON.stringify(trajectory));
    const result = resultOf(trajectory, traceKey);
    if (result.outcome.kind !== "infrastructure") {
      const settled = [...this.broken, result];
      this.broken = [];
      await this.keep(settled);
      return;
    }
    this.broken.push(result);
    if (this.broken.length >= this.tooManyBroken) throw this.nothingWorks(result);
  }

  /** After the last attempt: those that are still broken are so for good, unless nothing ever worked. */
  async end(): Promise<void> {
    const last = this.broken.at(-1);
    if (last === undefined) return;
    if (this.results.size === 0) throw this.nothingWorks(last);
    const settled = this.broken;
    this.broken = [];
    await this.keep(settled);
  }

  private async keep(settled: readonly AttemptResult[]): Promise<void> {
    await this.file.append(settled);
    for (const result of settled) this.results.set(keyOf(result), result);
    const done = [...this.results.values()];
    this.input.onProgress?.({
      done: done.length,
      total: this.all().length,
      passed: done.filter(({ outcome }) => outcome.kind === "passed").length,
      infrastructure: done.filter(({ outcome }) => outcome.kind === "infrastructure").length,
    });
  }

  private all(): { taskId: string; attempt: number }[] {
    return Array.from({ length: this.input.preset.attempts }, (_, attempt) =>
      this.tasks.map(({ id }) => ({ taskId: id, attempt })),
    ).flat();
  }

  private nothingWorks({ outcome }: AttemptResult): UserError {
    const why = outcome.kind === "infrastructure" ? `${outcome.code}: ${outcome.message}` : "";
    return new UserError({
      code: "evaluation-infrastructure",
      path: this.input.id,
      asked: "the held-out tasks were to be attempted",
      found: `${this.broken.length} attempts in a row were broken by endpoint or environments; the last by ${why}`,
      allowed: "broken attempts now and then, which are retried and counted",
      todo: "repair what is named here and start the evaluation again; finished attempts are kept, these are not counted",
    });
  }
}

function keyOf({ taskId, attempt }: { taskId: string; attempt: number }): string {
  return `${taskId}/${attempt}`;
}

function resultOf(trajectory: Trajectory, traceKey: string): AttemptResult {
  const { taskId, attempt, outcome, turns, hitTurnLimit, malformedToolCalls, violations } = trajectory;
  const { infrastructureRetries, promptTokens, completionTokens, seconds } = trajectory;
  return {
    ...{ taskId, attempt, outcome, turns, hitTurnLimit, malformedToolCalls, violations },
    ...{ infrastructureRetries, promptTokens, completionTokens, seconds, traceKey },
  };
}
