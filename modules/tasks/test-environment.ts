/**
 * Test environment: a task set → an EnvironmentClient over real repositories, tools and grader, without sandbox and
 * HTTP, so that policies can be tested fast. For tests only. Runs one Python process and writes to a temporary folder.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { ToolResult } from "../../schemas/environment.ts";
import { type Task, TaskFamily } from "../../schemas/task.ts";
import type { EnvironmentClient } from "./environment-client.ts";

const FAMILY = TaskFamily.parse(JSON.parse(readFileSync(new URL("repo-chores/family.json", import.meta.url), "utf8")));

/** A client to be closed when the test is over. */
export interface TestEnvironment extends EnvironmentClient {
  /** Attempts that were started and neither graded nor ended. */
  live(): string[];
  close(): Promise<void>;
}

/** Starts the Python process; needs git and python3. */
export function startTestEnvironment(tasks: readonly Task[]): TestEnvironment {
  const script = fileURLToPath(new URL("test_environment.py", import.meta.url));
  const child: ChildProcess = spawn("python3", ["-B", script], { stdio: ["pipe", "pipe", "inherit"] });
  const { stdin, stdout } = child;
  if (!stdin || !stdout) throw new Error("no pipes to the test environment");
  const waiting: ((answer: unknown) => void)[] = [];
  createInterface({ input: stdout }).on("line", (line) => waiting.shift()?.(JSON.parse(line)));
  const ask = (request: unknown): Promise<unknown> =>
    new Promise((resolve) => {
      waiting.push(resolve);
      stdin.write(`${JSON.stringify(request)}\n`);
    });
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const live = new Map<string, Task>();
  const taskOf = (id: string): Task => {
    const task = live.get(id);
    if (!task) throw new Error(`no attempt ${id}`);
    return task;
  };
  return {
    live: () => [...live.keys()],
    createAttempt: async ({ taskId, id }) => {
      const task = byId.get(taskId);
      if (!task || live.has(id)) throw new Error(`cannot start ${id} of ${taskId}`);
      live.set(id, task);
      await ask({ do: "create", id, taskId, commits: task.repository.commits });
      const expiresAt = new Date(Date.now() + FAMILY.limits.attemptSeconds * 1000).toISOString();
      return { id, taskId, messages: [{ role: "user", content: task.prompt }], tools: FAMILY.tools, expiresAt };
    },
    callTool: async (id, call) => {
      taskOf(id);
      return ToolResult.parse(await ask({ do: "call", id, name: call.name, arguments: JSON.parse(call.arguments) }));
    },
    grade: async (id) => {
      const { grading } = taskOf(id);
      live.delete(id);
      const { reasons } = z.object({ reasons: z.array(z.string()) }).parse(await ask({ do: "grade", id, grading }));
      return { passed: reasons.length === 0, reward: reasons.length === 0 ? 1 : 0, reasons, violations: [] };
    },
    end: async (id) => {
      live.delete(id);
    },
    close: () =>
      new Promise((resolve) => {
        child.once("exit", () => resolve());
        stdin.end();
      }),
  };
}
