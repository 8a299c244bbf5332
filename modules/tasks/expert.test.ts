import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Task } from "../../schemas/task.ts";
import { Trajectory } from "../../schemas/trajectory.ts";
import { type EnvironmentClient, InfrastructureError } from "./environment-client.ts";
import { actExpert, attemptSeed, expertSkill } from "./expert.ts";
import { chooseSftTrajectories, passRates } from "./filter.ts";
import { generateRepoChores } from "./repo-chores/generate.ts";
import { startTestEnvironment, type TestEnvironment } from "./test-environment.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

const { tasks } = generateRepoChores(7, 300);
const first = tasks[0] as Task;
/** Without what the clock and the machine decide. */
const said = ({ startedAt: _, seconds: __, ...rest }: Trajectory): unknown => rest;

let environment: TestEnvironment;
beforeAll(() => {
  environment = startTestEnvironment(tasks);
});
afterAll(() => environment.close());

describe("actExpert", () => {
  it("solves easy tasks mostly and hard ones less often, unevenly, with detours of different lengths", {
    timeout: 120_000,
  }, async () => {
    const chosen = [1, 2, 3].flatMap((difficulty) =>
      tasks.filter((task) => task.difficulty === difficulty).slice(0, 6),
    );
    const all: Trajectory[] = [];
    for (const task of chosen) {
      for (let attempt = 0; attempt < 8; attempt += 1) all.push(await actExpert(task, attempt, 7, environment));
    }
    for (const one of all) Trajectory.parse(one);
    const rates = passRates(all);
    const mean = (difficulty: number): number => {
      const own = chosen.filter((task) => task.difficulty === difficulty).map(({ id }) => id);
      return (
        rates.filter(({ taskId }) => own.includes(taskId)).reduce((sum, { rate }) => sum + (rate ?? 0), 0) / own.length
      );
    };
    expect(mean(1)).toBeGreaterThan(0.75);
    expect(mean(2)).toBeGreaterThan(0.35);
    expect(mean(3)).toBeGreaterThan(0.2);
    expect(mean(3)).toBeLessThan(0.7);
    expect(mean(1)).toBeGreaterThan(mean(3));
    expect(new Set(rates.map(({ rate }) => rate)).size).toBeGreaterThan(3);
    expect(new Set(all.map(({ turns }) => turns)).size).toBeGreaterThan(3);
    expect(new Set(all.map(({ outcome }) => (outcome.kind === "failed" ? outcome.reason : ""))).size).toBeGreaterThan(
      3,
    );
    expect(chooseSftTrajectories(all).report.dropped.tooLong).toBeGreaterThan(0);
    expect(environment.live()).toEqual([]);
  });

  it("says the same in the same attempt, and not in another", async () => {
    const run = async (attempt: number, seed: number) => said(await actExpert(first, attempt, seed, environment));
    expect(await run(0, 7)).toEqual(await run(0, 7));
    const others = await Promise.all([1, 2, 3, 4, 5, 6].map((attempt) => run(attempt, 7)));
    expect(new Set(others.map((one) => JSON.stringify((one as Trajectory).messages))).size).toBeGreaterThan(1);
    expect(attemptSeed(7, first.id, 0)).not.toBe(attemptSeed(8, first.id, 0));
  });

  it("writes a conversation that a model can be trained on: call, answer, …, Done.", async () => {
    const attempts = await Promise.all([0, 1, 2, 3].map((attempt) => actExpert(first, attempt, 7, environment)));
    for (const { messages, turns, outcome } of attempts) {
      expect(messages[0]).toEqual({ role: "user", content: first.prompt });
      expect(messages.at(-1)).toEqual({ role: "assistant", content: "Done." });
      expect(messages.filter(({ role }) => role === "assistant")).toHaveLength(turns);
      messages.slice(1, -1).forEach((message, index) => {
        if (index % 2 === 0) {
          if (message.role !== "assistant") throw new Error(`message ${index} is by ${message.role}`);
          const [call, ...more] = message.tool_calls ?? [];
          expect(more).toEqual([]);
          expect(call?.id).toBe(`call_${index / 2 + 1}`);
          expect(JSON.parse(call?.function.arguments ?? "")).toBeTypeOf("object");
        } else {
          expect(message).toMatchObject({ role: "tool", tool_call_id: `call_${(index + 1) / 2}` });
        }
      });
      expect(outcome.kind).not.toBe("infrastructure");
    }
  });

  it("edits what the search showed, not what the generator knows", async () => {
    const task = tasks.find(({ kind, difficulty }) => kind === "set-value" && difficulty === 1) as Task;
    const elsewhere: EnvironmentClient = {
      ...environment,
      callTool: async (_, { name }) => ({
        content: name === "search" ? `etc/other.txt: ${task.goal.key}=seen` : "ok",
        status: "ok",
      }),
    };
    const attempts = await Promise.all([0, 1, 2, 3, 4].map((attempt) => actExpert(task, attempt, 7, elsewhere)));
    const edits = attempts
      .flatMap(({ messages }) => messages.flatMap((one) => (one.role === "assistant" ? (one.tool_calls ?? []) : [])))
      .filter((call) => call.function.name === "edit");
    expect(edits.map((call) => JSON.parse(call.function.arguments))).toContainEqual({
      path: "etc/other.txt",
      old: `${task.goal.key}=seen`,
      new: `${task.goal.key}=${task.goal.value}`,
    });
  });

  it("records an infrastructure failure as such, with what was said until then, and gives the sandbox back", async () => {
    const failing: EnvironmentClient = {
      ...environment,
      callTool: async () => {
        throw new InfrastructureError("sandbox-lost", "the sandbox died");
      },
    };
    const { outcome, messages } = await actExpert(first, 0, 7, failing);
    expect(outcome).toEqual({ kind: "infrastructure", code: "sandbox-lost", message: "the sandbox died" });
    expect(messages).toHaveLength(1);
    expect(environment.live()).toEqual([]);
  });

  it("throws when the service is unreachable, and on a defect", async () => {
    const failing = (error: Error): EnvironmentClient => ({
      ...environment,
      grade: async () => {
        throw error;
      },
    });
    const gone = new InfrastructureError("unreachable", "ECONNREFUSED", { unreachable: true });
    await expect(actExpert(first, 0, 7, failing(gone))).rejects.toBe(gone);
    const defect = new TypeError("a defect");
    await expect(actExpert(first, 0, 7, failing(defect))).rejects.toBe(defect);
  });
});

describe("expertSkill", () => {
  it("depends on difficulty and task, always leaves some hope, and is never above certainty", () => {
    const skills = tasks.map(expertSkill);
    expect(Math.min(...skills)).toBeGreaterThan(0);
    expect(Math.max(...skills)).toBeLessThanOrEqual(1);
    expect(expertSkill({ id: "a", difficulty: 1 })).toBeGreaterThan(expertSkill({ id: "a", difficulty: 3 }));
    expect(expertSkill({ id: "a", difficulty: 3 })).not.toBe(expertSkill({ id: "b", difficulty: 3 }));
  });
});
