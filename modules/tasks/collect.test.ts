import { describe, expect, it, vi } from "vitest";
import type { Message } from "../../schemas/message.ts";
import type { TaskSet } from "../../schemas/task.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { type CollectRequest, collectTrajectories } from "./collect.ts";
import { type EnvironmentClient, InfrastructureError } from "./environment-client.ts";
import { buildTaskSet } from "./task-set.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

const taskSet: TaskSet = await buildTaskSet({ family: "repo-chores", seed: 7, tasks: 40, heldOut: 6, validation: 3 });
const taskIds = taskSet.splits["held-out"];
const attemptOf = (id: string): string => id.split(".").slice(1, 3).join(" ");

/** An environment that finds nothing and passes nobody; only what goes wrong around it matters here. */
function blankEnvironment(overrides: Partial<EnvironmentClient> = {}): EnvironmentClient & { started: string[] } {
  const started: string[] = [];
  const messages: Message[] = [{ role: "user", content: "?" }];
  return {
    started,
    createAttempt: async ({ id, taskId }) => {
      started.push(id);
      await new Promise((resolve) => setTimeout(resolve, 1));
      return { id, taskId, messages, tools: [], expiresAt: "2026-01-01T00:00:00Z" };
    },
    callTool: async () => ({ content: "none", status: "ok" }),
    grade: async () => ({ passed: false, reward: 0, reasons: ["nothing-done"], violations: [] }),
    end: async () => undefined,
    ...overrides,
  };
}

async function collect(overrides: Partial<CollectRequest>) {
  const trajectories: Trajectory[] = [];
  const report = await collectTrajectories({
    taskSet,
    taskIds,
    attempts: 3,
    seed: 7,
    concurrency: 4,
    environment: blankEnvironment(),
    done: [],
    onTrajectory: (one) => {
      trajectories.push(one);
    },
    retryPauseMilliseconds: 1,
    ...overrides,
  });
  return { report, trajectories };
}
const names = (all: readonly Trajectory[]): string[] => all.map(({ taskId, attempt }) => `${taskId} ${attempt}`).sort();
const wanted = taskIds.flatMap((id) => [0, 1, 2].map((attempt) => `${id} ${attempt}`)).sort();

describe("collectTrajectories", () => {
  it("hands over every attempt at every task exactly once", async () => {
    const { report, trajectories } = await collect({ taskIds: [...taskIds, taskIds[0] as string] });
    expect(names(trajectories)).toEqual(wanted);
    expect(report).toEqual({ alreadyDone: 0, collected: 18, remaining: 0 });
  });

  it("goes on where it was, and ends with the same set", async () => {
    const all = (await collect({})).trajectories;
    const done = all.slice(0, 7);
    const environment = blankEnvironment();
    const { report, trajectories } = await collect({ done, environment });
    expect(report).toEqual({ alreadyDone: 7, collected: 11, remaining: 0 });
    expect(names([...done, ...trajectories])).toEqual(wanted);
    expect(environment.started).toHaveLength(11);
    const seeds = (list: Trajectory[]) => new Map(list.map((one) => [names([one])[0], one.seed]));
    expect(seeds([...done, ...trajectories])).toEqual(seeds(all));
  });

  it("refuses to go on with another seed's trajectories", async () => {
    const done = (await collect({ seed: 8 })).trajectories;
    await expect(collect({ done })).rejects.toMatchObject({ code: "another-collection" });
  });

  it("never has more attempts under way than asked, and uses them all", async () => {
    let live = 0;
    let most = 0;
    const environment = blankEnvironment();
    const { createAttempt, grade } = environment;
    await collect({
      environment: {
        ...environment,
        createAttempt: async (request) => {
          live += 1;
          most = Math.max(most, live);
          return createAttempt(request);
        },
        grade: async (id) => {
          live -= 1;
          return grade(id);
        },
      },
    });
    expect(most).toBe(4);
  });

  it("hands over one trajectory at a time", async () => {
    let writing = false;
    await collect({
      onTrajectory: async () => {
        expect(writing).toBe(false);
        writing = true;
        await new Promise((resolve) => setTimeout(resolve, 2));
        writing = false;
      },
    });
  });

  it("tries an infrastructure failure again in a new sandbox, and counts how often", async () => {
    const failures = new Map<string, number>();
    const environment = blankEnvironment({
      grade: async (id) => {
        const tries = (failures.get(attemptOf(id)) ?? 0) + 1;
        failures.set(attemptOf(id), tries);
        if (tries <= 2) throw new InfrastructureError("sandbox-lost", "gone");
        return { passed: true, reward: 1, reasons: [], violations: [] };
      },
    });
    const { trajectories } = await collect({ environment });
    for (const { outcome, infrastructureRetries } of trajectories) {
      expect(outcome).toEqual({ kind: "passed" });
      expect(infrastructureRetries).toBe(2);
    }
    expect(new Set(environment.started).size).toBe(18 * 3);
  });

  it("records an infrastructure failure that stays", async () => {
    const environment = blankEnvironment({
      grade: async () => {
        throw new InfrastructureError("grader-failed", "crashed");
      },
    });
    const { trajectories } = await collect({ environment, infrastructureRetries: 1 });
    expect(names(trajectories)).toEqual(wanted);
    for (const { outcome, infrastructureRetries } of trajectories) {
      expect(outcome).toMatchObject({ kind: "infrastructure", code: "grader-failed" });
      expect(infrastructureRetries).toBe(1);
    }
  });

  it("stops at once when the service is unreachable, and keeps what was handed over", async () => {
    const kept: Trajectory[] = [];
    let grades = 0;
    const environment = blankEnvironment({
      grade: async () => {
        grades += 1;
        if (grades > 5) throw new InfrastructureError("unreachable", "ECONNREFUSED", { unreachable: true });
        return { passed: true, reward: 1, reasons: [], violations: [] };
      },
    });
    const stopped = collect({
      environment,
      onTrajectory: (one) => {
        kept.push(one);
      },
    });
    await expect(stopped).rejects.toMatchObject({ code: "unreachable" });
    expect(kept).toHaveLength(5);
    expect(environment.started.length).toBeLessThan(18);
  });

  it("passes on an error of the one who takes the trajectories", async () => {
    const full = new Error("ENOSPC");
    await expect(
      collect({
        onTrajectory: () => {
          throw full;
        },
      }),
    ).rejects.toBe(full);
  });

  it("finishes what is under way and begins nothing new after a signal", async () => {
    const stop = new AbortController();
    const { report, trajectories } = await collect({
      signal: stop.signal,
      environment: blankEnvironment({
        grade: async () => {
          stop.abort();
          return { passed: true, reward: 1, reasons: [], violations: [] };
        },
      }),
    });
    expect(trajectories).toHaveLength(4);
    expect(report).toEqual({ alreadyDone: 0, collected: 4, remaining: 14 });
  });

  it("refuses tasks that are not in the set", async () => {
    await expect(collect({ taskIds: ["nobody"] })).rejects.toMatchObject({ code: "unknown-task" });
  });
});
