/**
 * Attempts: a task → a sandbox to act in → a grade, one at a time for each attempt id.
 * Comes in: the requests of schemas/environment.ts. Goes out: their answers, or a ServiceError.
 * Starts and ends sandboxes through the pool, writes grades to the journal. Live attempts are in memory only: they
 * are their sandboxes, and those end with this process.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { Attempt, CallTool, CreateAttempt, Grade, ToolResult } from "../../schemas/environment.ts";
import type { Task } from "../../schemas/task.ts";
import type { Family } from "./family.ts";
import type { GradeJournal } from "./grade-journal.ts";
import { gradeRepository } from "./grading.ts";
import type { AttemptOutcome, Metrics } from "./metrics.ts";
import type { Repositories } from "./repository.ts";
import { type Sandbox, SandboxLost } from "./sandbox.ts";
import type { SandboxPool } from "./sandbox-pool.ts";
import { ServiceError, type ServiceErrorCode } from "./service-error.ts";
import type { TaskSets } from "./task-sets.ts";
import { acceptArguments, findViolations, parseObject } from "./tool-arguments.ts";
import { Turns } from "./turns.ts";

const REMEMBERED_ENDS = 10_000;
const MOST_VIOLATIONS = 50;

/** What attempts are made of. */
export interface AttemptsArgs {
  readonly families: ReadonlyMap<string, Family>;
  readonly taskSets: TaskSets;
  readonly repositories: Repositories;
  readonly pool: SandboxPool;
  readonly journal: GradeJournal;
  readonly staging: string;
  readonly maxAttempts: number;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** How an attempt that ended ungraded is counted. */
const OUTCOMES: Partial<Record<ServiceErrorCode, AttemptOutcome>> = {
  "attempt-ended": "ended",
  "attempt-expired": "expired",
};
const DRAIN_LOOK_MILLISECONDS = 250;

interface LiveAttempt {
  readonly id: string;
  readonly taskSet: string;
  readonly task: Task;
  readonly family: Family;
  readonly sandbox: Sandbox;
  readonly expiresAt: Date;
  readonly violations: Set<string>;
  timer: NodeJS.Timeout;
  toolCalls: number;
  /** Set once the attempt is over: what there is to grade, kept until a grader has answered. */
  left: Promise<{ archive: Buffer } | { refused: string }> | null;
  grading: Promise<Grade> | null;
}

/** The live attempts of one service. */
export class Attempts {
  readonly #args: AttemptsArgs;
  readonly #live = new Map<string, LiveAttempt>();
  readonly #starting = new Map<string, { request: CreateAttempt; started: Promise<LiveAttempt> }>();
  /** How the latest attempts that are no more ended ungraded: what a late request is told. */
  readonly #ended = new Map<string, { code: ServiceErrorCode; message: string }>();
  readonly #bursts: Turns;
  /** No more are taken … */
  #stopping = false;
  /** … and all are ended. */
  #closed = false;

  constructor(args: AttemptsArgs) {
    this.#args = args;
    this.#bursts = new Turns(args.pool.startsAtOnce);
  }

  /** Attempts that may live at once. */
  get places(): number {
    return this.#args.maxAttempts;
  }

  /** Attempts that hold a sandbox, or a place for one. */
  get count(): number {
    return this.#live.size + this.#starting.size;
  }

  /** Starts an attempt. The same request again, before anything was done, is answered with the same attempt. */
  async create(request: CreateAttempt): Promise<Attempt> {
    if (this.#stopping) throw new ServiceError("service-stopping", "the environment service is stopping");
    const { id } = request;
    if (this.#args.journal.get(id) !== undefined) {
      throw new ServiceError("attempt-graded", `attempt ${id} has its grade already: choose another id`);
    }
    const starting = this.#starting.get(id);
    if (starting !== undefined) {
      if (!isSame(starting.request, request)) throw inUse(id);
      return describe(await starting.started);
    }
    const live = this.#live.get(id);
    if (live !== undefined) {
      const untouched = live.toolCalls === 0 && live.left === null;
      if (!untouched || !isSame({ id, taskSet: live.taskSet, taskId: live.task.id }, request)) throw inUse(id);
      return describe(live);
    }
    if (this.count >= this.#args.maxAttempts) {
      throw new ServiceError(
        "attempts-full",
        `all ${this.#args.maxAttempts} places for attempts are taken: try again later`,
      );
    }
    const started = this.#start(request);
    this.#starting.set(id, { request, started });
    try {
      return describe(await started);
    } finally {
      this.#starting.delete(id);
    }
  }

  /** Runs a tool call of the model. Whatever the model wrote, the outcome is an answer. */
  async call(id: string, call: CallTool): Promise<ToolResult> {
    const live = this.#acting(id);
    live.toolCalls += 1;
    const given = parseObject(call.arguments);
    for (const violation of findViolations(call, given)) {
      if (live.violations.size < MOST_VIOLATIONS) live.violations.add(violation);
    }
    const { tools, limits } = live.family.definition;
    const tool = tools.find((known) => known.function.name === call.name);
    if (tool === undefined) return { content: "error: no tool", status: "unknown-tool" };
    const accepted = acceptArguments(tool, given);
    if (accepted === null) return { content: "error: bad arguments", status: "malformed-arguments" };
    try {
      const { content, status, detail } = await live.sandbox.call(call.name, accepted);
      if (detail) this.#args.log.warn({ attempt: id, tool: call.name, detail }, "tool failed");
      return { content: firstCharacters(content, limits.outputCharacters), status };
    } catch (error) {
      throw this.#lost(live, error);
    }
  }

  /** Ends an attempt and grades it. Again, also at once or after a restart, gives the same grade. */
  async grade(id: string): Promise<Grade> {
    const known = this.#args.journal.get(id);
    if (known !== undefined) return known;
    const live = this.#live.get(id);
    if (live === undefined) throw this.#whyNot(id);
    live.grading ??= this.#grade(live).finally(() => {
      live.grading = null; // After a failure the next call tries again, with the same files.
    });
    return live.grading;
  }

  /** Ends an attempt ungraded; one that is not there has ended. */
  async end(id: string): Promise<void> {
    const starting = this.#starting.get(id);
    if (starting !== undefined) await starting.started.catch(() => {}); // Whoever started it hears why it failed.
    const live = this.#live.get(id);
    if (live !== undefined) await this.#finish(live, "attempt-ended", `attempt ${id} was ended by its caller`);
  }

  /** Takes no more attempts, and returns when the last one has ended, or the time is up. */
  async drain(milliseconds: number): Promise<void> {
    this.#stopping = true;
    const deadline = performance.now() + milliseconds;
    while (this.count > 0 && performance.now() < deadline) await sleep(DRAIN_LOOK_MILLISECONDS);
  }

  /** Ends all attempts; after it nothing runs. */
  async close(): Promise<void> {
    this.#stopping = true;
    this.#closed = true;
    for (const live of this.#live.values()) clearTimeout(live.timer);
    await this.#args.pool.closeAll();
    this.#live.clear();
  }

  async #start(request: CreateAttempt): Promise<LiveAttempt> {
    const { pool, families, taskSets, repositories, log } = this.#args;
    const { id, taskId, taskSet } = request;
    const task = await taskSets.task(taskSet, taskId);
    const family = families.get(task.family);
    if (family === undefined)
      throw new ServiceError("family-unknown", `this service has no task family ${task.family}`);
    const { limits } = family.definition;
    const archive = await repositories.archive(task.repository);
    let sandbox: Sandbox;
    try {
      const args = { purpose: "attempt", limits, files: family.toolFiles, archive, attempt: id } as const;
      sandbox = await this.#bursts.run(() => pool.start(args));
    } catch (error) {
      if (!(error instanceof SandboxLost)) throw error;
      throw new ServiceError("sandbox-failed", error.message, { cause: error });
    }
    const milliseconds = limits.attemptSeconds * 1000;
    const timer = setTimeout(() => void this.#expire(live), milliseconds);
    timer.unref();
    const live: LiveAttempt = {
      ...{ id, taskSet, task, family, sandbox, timer },
      expiresAt: new Date(Date.now() + milliseconds),
      violations: new Set(),
      toolCalls: 0,
      left: null,
      grading: null,
    };
    this.#live.set(id, live);
    this.#ended.delete(id);
    this.#args.metrics.attemptCreated();
    log.debug({ attempt: id, task: taskId }, "attempt started");
    void sandbox.ended.then(() => {
      if (!this.#closed && this.#live.get(id) === live && live.left === null) this.#lost(live, null);
    });
    return live;
  }

  async #grade(live: LiveAttempt): Promise<Grade> {
    const { pool, staging, journal, log } = this.#args;
    const { id, task, family } = live;
    live.left ??= live.sandbox.pack().finally(() => live.sandbox.kill());
    let left: { archive: Buffer } | { refused: string };
    try {
      left = await live.left;
    } catch (error) {
      throw this.#lost(live, error);
    }
    let verdict = { passed: false, reasons: ["refused" in left ? left.refused : ""] };
    try {
      if ("archive" in left) {
        const args = { pool, staging, family, task, archive: left.archive, attempt: id };
        verdict = await this.#bursts.run(() => gradeRepository(args));
      }
    } catch (error) {
      log.warn({ attempt: id, task: task.id, error: String(error) }, "grading failed");
      throw error;
    }
    if (this.#live.get(id) !== live) throw this.#whyNot(id);
    const grade: Grade = { ...verdict, reward: verdict.passed ? 1 : 0, violations: [...live.violations] };
    journal.add(id, grade);
    this.#live.delete(id);
    clearTimeout(live.timer);
    this.#args.metrics.attemptEnded("graded");
    log.debug({ attempt: id, task: task.id, ...grade }, "attempt graded");
    return grade;
  }

  #acting(id: string): LiveAttempt {
    const live = this.#live.get(id);
    if (live === undefined) {
      if (this.#args.journal.get(id) !== undefined) throw new ServiceError("attempt-ended", `attempt ${id} was graded`);
      throw this.#whyNot(id);
    }
    if (live.left !== null) throw new ServiceError("attempt-ended", `attempt ${id} is being graded`);
    return live;
  }

  #whyNot(id: string): ServiceError {
    const ended = this.#ended.get(id);
    if (ended !== undefined) return new ServiceError(ended.code, ended.message);
    const message = `no attempt ${id} is known here; if it was, the service was restarted since: start it again`;
    return new ServiceError("attempt-unknown", message);
  }

  async #expire(live: LiveAttempt): Promise<void> {
    if (live.grading !== null) {
      // The grader has its own limit. If it fails, the retry finds the files for this much longer.
      live.timer = setTimeout(
        () => void this.#expire(live),
        live.family.definition.limits.graderSeconds * 1000 + 60_000,
      );
      live.timer.unref();
      return;
    }
    const seconds = live.family.definition.limits.attemptSeconds;
    this.#args.log.warn({ attempt: live.id }, "attempt expired");
    await this.#finish(live, "attempt-expired", `attempt ${live.id} took longer than its ${seconds} s and was ended`);
  }

  /** Forgets an attempt whose sandbox is of no more use, and says what the caller is told. */
  #lost(live: LiveAttempt, error: unknown): ServiceError {
    if (this.#live.get(live.id) !== live) return this.#whyNot(live.id);
    const why = error instanceof Error ? error.message : `the sandbox is gone: ${live.sandbox.stderr.trim()}`;
    this.#args.log.warn({ attempt: live.id, why }, "sandbox lost");
    void this.#finish(live, "sandbox-lost", `attempt ${live.id}: ${why}`);
    return this.#whyNot(live.id);
  }

  async #finish(live: LiveAttempt, code: ServiceErrorCode, message: string): Promise<void> {
    clearTimeout(live.timer);
    this.#live.delete(live.id);
    this.#args.metrics.attemptEnded(OUTCOMES[code] ?? "lost");
    this.#ended.set(live.id, { code, message });
    const oldest = this.#ended.keys().next().value;
    if (this.#ended.size > REMEMBERED_ENDS && oldest !== undefined) this.#ended.delete(oldest);
    await live.sandbox.kill();
  }
}

function isSame(one: CreateAttempt, other: CreateAttempt): boolean {
  return one.id === other.id && one.taskSet === other.taskSet && one.taskId === other.taskId;
}

function inUse(id: string): ServiceError {
  return new ServiceError("attempt-in-use", `attempt ${id} is in use: end it with DELETE, or choose another id`);
}

function describe(live: LiveAttempt): Attempt {
  return {
    id: live.id,
    taskId: live.task.id,
    messages: [{ role: "user", content: live.task.prompt }],
    tools: live.family.definition.tools,
    expiresAt: live.expiresAt.toISOString(),
  };
}

/** Counted as the executor counts, in code points; a character is never cut in two. */
function firstCharacters(text: string, most: number): string {
  return text.length <= most ? text : Array.from(text).slice(0, most).join("");
}
