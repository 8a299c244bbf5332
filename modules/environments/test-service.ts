/**
 * Test service: a service over a fresh data folder, with tasks of the fixture family, for the tests beside this file.
 * Comes in: tasks' repositories and grading code. Goes out: requests as functions. Starts real sandboxes.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { type Digest, digestJson } from "../../schemas/digest.ts";
import type { Grade, ToolResult } from "../../schemas/environment.ts";
import type { ErrorBody } from "../../schemas/error.ts";
import type { Task, TaskSet } from "../../schemas/task.ts";
import { createEnvironmentsApp, type EnvironmentsApp } from "./app.ts";
import { familyDigest } from "./family.ts";
import { type EnvironmentService, type EnvironmentServiceArgs, openEnvironmentService } from "./service.ts";

/** The fixture family's folder. */
export const FAULTY = fileURLToPath(new URL("fixtures/faulty", import.meta.url));

/** A task of the fixture family: its grader runs `code`. */
export function faultyTask(
  id: string,
  code = "verdict(True)",
  files: Record<string, string> = { "a.txt": "one\n" },
): Task {
  return {
    ...{
      id,
      family: "faulty",
      project: "none",
      difficulty: 1,
      kind: "any",
      prompt: `Do ${id}.`,
      goal: { hint: "none" },
    },
    repository: { commits: [{ message: "start", files }] },
    grading: { code },
  };
}

/** A task set of these tasks, all to train on, made for the family in this folder. */
export function taskSetOf(
  tasks: readonly Task[],
  family = { name: "faulty", version: 3 },
  folder: string = FAULTY,
): TaskSet {
  const ids = tasks.map((task) => task.id);
  const read = (name: string) => readFileSync(join(folder, name));
  const digest = familyDigest({
    ...{ "family.json": read("family.json"), "grader.py": read("grader.py"), "tools.py": read("tools.py") },
  });
  return {
    schemaVersion: 1,
    family: { ...family, digest },
    source: { generator: "test", seed: 0, tasks: tasks.length },
    tasks: [...tasks],
    groups: { all: ids },
    splits: { train: ids, validation: [], "held-out": [] },
  };
}

/** An answer of the app: status and body. */
export interface Answer<T> {
  readonly status: number;
  readonly body: T & ErrorBody;
  readonly headers: Headers;
}

/** A service under test. */
export class TestService {
  readonly data: string;
  readonly taskSet: Digest;
  readonly service: EnvironmentService;
  readonly app: EnvironmentsApp;

  private constructor(data: string, taskSet: Digest, service: EnvironmentService, seedWaitSeconds?: number) {
    this.data = data;
    this.taskSet = taskSet;
    this.service = service;
    this.app = createEnvironmentsApp(service, seedWaitSeconds === undefined ? {} : { seedWaitSeconds });
  }

  /** Opens one; `data` of an earlier one makes it that one's restart. */
  static async open(
    tasks: readonly Task[],
    options: {
      families?: string[];
      maxAttempts?: number;
      data?: string;
      set?: TaskSet;
      pods?: EnvironmentServiceArgs["pods"];
      seedWaitSeconds?: number;
    } = {},
  ): Promise<TestService> {
    const data = options.data ?? mkdtempSync(join(tmpdir(), "environments-"));
    const service = await openEnvironmentService({
      ...{ data, families: options.families ?? [FAULTY], maxAttempts: options.maxAttempts ?? 16, version: "0.0.0" },
      ...{
        path: process.env.PATH ?? "",
        root: process.getuid?.() === 0,
        log: pino({ level: process.env.UPLIFT_LOG_LEVEL ?? "silent" }),
      },
      ...(options.pods === undefined ? {} : { pods: options.pods }),
    });
    const set = options.set ?? taskSetOf(tasks, undefined, options.families?.[0]);
    const test = new TestService(data, digestJson(set), service, options.seedWaitSeconds);
    const { status, body } = await test.request("PUT", `/v1/task-sets/${test.taskSet}`, set);
    if (status !== 204) throw new Error(body.error.message);
    return test;
  }

  async request<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    const sent =
      body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    const response = await this.app.request(path, { method, ...sent });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: (text === "" ? {} : JSON.parse(text)) as T & ErrorBody,
    };
  }

  /** Starts an attempt of a task; the id is the task's unless told. */
  create<T = { id: string; expiresAt: string }>(taskId: string, id = taskId): Promise<Answer<T>> {
    return this.request("POST", "/v1/attempts", { taskSet: this.taskSet, taskId, id });
  }

  /** Calls a tool with these arguments, or with this text as arguments. */
  async call(id: string, name: string, given: unknown): Promise<Answer<ToolResult>> {
    const text = typeof given === "string" ? given : JSON.stringify(given);
    return this.request("POST", `/v1/attempts/${id}/tool-calls`, { name, arguments: text });
  }

  /** What a Python program in the sandbox leaves in `out`. */
  async python(id: string, code: string): Promise<ToolResult> {
    return (await this.call(id, "python", { code })).body;
  }

  /** What a shell command in the sandbox prints, with its exit code. */
  async shell(id: string, command: string): Promise<string> {
    return (await this.call(id, "shell", { command })).body.content;
  }

  grade(id: string): Promise<Answer<Grade>> {
    return this.request("POST", `/v1/attempts/${id}/grade`);
  }

  /** Ends the service; the data folder stays for a restart unless it is removed. */
  async close(options: { keepData?: boolean } = {}): Promise<void> {
    await this.service.close();
    if (!options.keepData) rmSync(this.data, { recursive: true, force: true });
  }
}
