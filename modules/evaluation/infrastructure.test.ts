import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Preset } from "../../schemas/preset.ts";
import { evaluate } from "./evaluate.ts";
import { listen } from "./fake-services.ts";
import { outcomes, preset, SOLVE, TestEvaluation } from "./test-evaluation.ts";

let world: TestEvaluation;
beforeEach(async () => {
  world = await TestEvaluation.open();
});
afterEach(() => world.close());

describe("what breaks by itself", () => {
  const attemptOnce = { ...preset, attempts: 1 };

  test("at the endpoint (500, 429, a lost connection) starts the attempt again and is counted", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    for (const reply of [{ status: 500, body: { error: { message: "boom" } } }, { status: 429 }, "hang up"] as const) {
      const from = world.endpoint.requests.length;
      world.endpoint.before = (count) => (count - from === 2 ? reply : null);
      const evaluation = await evaluate(
        await world.input({ tasks: 1, preset: attemptOnce, progressFile: join(world.root, `${from}.jsonl`) }),
      );
      expect(evaluation.results[0]).toMatchObject({ outcome: { kind: "passed" }, infrastructureRetries: 1, turns: 2 });
    }
    // Every broken try's sandbox was given back, and every try had one of its own.
    expect(world.environment.ended).toHaveLength(3);
    expect(new Set(world.environment.created).size).toBe(6);
  });

  test("in the environment (a crashed grader, a lost attempt, a full service) does so too", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const faults: [RegExp, { status: number; body: unknown }][] = [
      [/grade$/, { status: 500, body: { error: { code: "grader-crashed", message: "exit 1", infrastructure: true } } }],
      [/tool-calls$/, { status: 410, body: { error: { code: "attempt-ended", message: "expired" } } }],
    ];
    for (const [path, reply] of faults) {
      let left = 1;
      world.environment.before = (_, asked) => (path.test(asked) && left-- > 0 ? reply : null);
      const evaluation = await evaluate(
        await world.input({ tasks: 1, preset: attemptOnce, progressFile: join(world.root, `${reply.status}.jsonl`) }),
      );
      expect(evaluation.results[0]).toMatchObject({ outcome: { kind: "passed" }, infrastructureRetries: 1 });
    }
    let full = 2;
    world.environment.before = (method, asked) =>
      method === "POST" && asked === "/v1/attempts" && full-- > 0 ? { status: 429 } : null;
    const waited = await evaluate(
      await world.input({ tasks: 1, preset: attemptOnce, progressFile: join(world.root, "full.jsonl") }),
    );
    expect(waited.results[0]).toMatchObject({ outcome: { kind: "passed" }, infrastructureRetries: 0 });
  });

  test("for one task every time, is that task's outcome after the preset's retries; the others count", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    let grades = 0;
    world.environment.before = (_, path) => {
      if (!/task-1-\d-\d\/grade$/.test(path)) return null;
      grades += 1;
      return { status: 503, body: { error: { code: "grader-crashed", message: "exit 1", infrastructure: true } } };
    };
    const evaluation = await evaluate(await world.input({ preset: attemptOnce, concurrency: 1 }));
    expect(outcomes(evaluation)).toEqual(["passed", "infrastructure", "passed"]);
    expect(evaluation.results[1]).toMatchObject({
      outcome: { code: "environment-grader-crashed" },
      infrastructureRetries: 2,
    });
    expect(grades).toBe(3);
  });

  test("for every attempt, stops the evaluation; once repaired, it plays those attempts again", async () => {
    world.endpoint.before = () => ({ status: 500, body: { error: { message: "no memory" } } });
    const asked = await world.input({ tasks: 20, concurrency: 4 });
    await expect(evaluate(asked)).rejects.toMatchObject({
      code: "evaluation-infrastructure",
      issues: [{ found: expect.stringContaining("endpoint-500: 500: no memory") }],
    });
    expect(world.endpoint.requests.length).toBeLessThan(40);
    world.endpoint.before = () => null;
    const evaluation = await evaluate(asked);
    expect(new Set(outcomes(evaluation))).toEqual(new Set(["failed"]));
    expect(evaluation.results).toHaveLength(40);
  });

  test("half-way, when the endpoint dies, loses nothing that had finished and counts nothing that had not", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const asked = await world.input({ tasks: 20, concurrency: 4 });
    world.endpoint.before = (count) => (count > 30 ? "hang up" : null);
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "evaluation-infrastructure" });
    const kept = (await readFile(asked.progressFile, "utf8"))
      .split("\n")
      .filter((line) => line.includes('"attempt"')).length;
    expect(kept).toBeGreaterThanOrEqual(13);
    world.endpoint.before = () => null;
    const before = world.environment.created.length;
    const evaluation = await evaluate(asked);
    expect(world.environment.created.length - before).toBe(40 - kept);
    expect(new Set(outcomes(evaluation))).toEqual(new Set(["passed"]));
  });

  test("at once, when nothing listens at the endpoint's address", async () => {
    const asked = await world.input();
    await world.servers[0]?.close();
    world.servers = world.servers.slice(1);
    await expect(evaluate(asked)).rejects.toThrow(/endpoint|ECONNREFUSED/);
    expect(world.environment.created).toEqual([]);
  });

  test("a wrong key or model name ends the evaluation at once", async () => {
    const asked = await world.input();
    await expect(evaluate({ ...asked, endpoint: { ...asked.endpoint, apiKey: "wrong" } })).rejects.toMatchObject({
      code: "endpoint-refuses",
    });
    await expect(evaluate({ ...asked, endpoint: { ...asked.endpoint, model: "other" } })).rejects.toMatchObject({
      code: "endpoint-refuses",
    });
    expect(world.environment.created).toEqual([]);
  });

  test("a request that takes too long is broken, not wrong", async () => {
    world.endpoint.latencyMilliseconds = 5000;
    const asked = await world.input({
      tasks: 1,
      preset: { ...attemptOnce, failureRule: { retries: 0, exhausted: "counts-as-failure" } },
      requestSeconds: 1,
    });
    await expect(evaluate(asked)).rejects.toThrow(/endpoint-timeout.*no answer within 1 s/);
  });

  test("and is the last to be played, is played once more at the end, and then stays broken", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    let grades = 0;
    world.environment.before = (_, path) => {
      if (!/task-2-\d-\d\/grade$/.test(path)) return null;
      grades += 1;
      return { status: 503, body: { error: { code: "grader-crashed", message: "exit 1", infrastructure: true } } };
    };
    const evaluation = await evaluate(await world.input({ preset: attemptOnce, concurrency: 1 }));
    expect(outcomes(evaluation)).toEqual(["passed", "passed", "infrastructure"]);
    expect(evaluation.results[2]).toMatchObject({ infrastructureRetries: 5 });
    expect(world.trace(evaluation, 2)).toMatchObject({ infrastructureRetries: 5 });
    expect(grades).toBe(6);
  });

  test("and then works again, is no failure of the last attempts: they are played once more", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const noRetries: Preset = { ...preset, failureRule: { retries: 0, exhausted: "counts-as-failure" } };
    world.endpoint.before = (count) => (count === 9 || count === 10 ? { status: 500 } : null);
    const evaluation = await evaluate(await world.input({ preset: noRetries, concurrency: 1 }));
    expect(outcomes(evaluation)).toEqual(Array(6).fill("passed"));
    const retries = evaluation.results.map((result) => result.infrastructureRetries);
    expect(retries).toEqual([0, 0, 0, 1, 0, 1]);
    expect(new Set(world.environment.created).size).toBe(8);
  });
});

describe("a service that goes away", () => {
  async function restart(place: 0 | 1, awayMilliseconds: number): Promise<void> {
    const server = world.servers[place];
    const handle = [world.endpoint.handle, world.environment.handle][place];
    if (server === undefined || handle === undefined) throw new Error("there are two services");
    await server.close();
    await sleep(awayMilliseconds);
    world.servers[place] = await listen(handle, Number(new URL(server.url).port));
  }

  test.each([
    ["endpoint", 0],
    ["environment service", 1],
  ] as const)("and comes back (the %s) costs no attempt, and one retry of those under way", async (_, place) => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    let restarted: Promise<void> | undefined;
    world.endpoint.before = (count) => {
      // Away for far longer than three tries, one and two milliseconds apart.
      if (count === 6) restarted = restart(place, 500);
      return null;
    };
    const evaluation = await evaluate(await world.input({ concurrency: 2 }));
    await restarted;
    expect(outcomes(evaluation)).toEqual(Array(6).fill("passed"));
    const retries = evaluation.results.map((result) => result.infrastructureRetries);
    expect(Math.max(...retries)).toBe(1);
    expect(retries.filter((count) => count > 0).length).toBeLessThanOrEqual(2);
  });

  test("for good stops the evaluation, however few attempts were left, and counts none of them", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    world.endpoint.before = (count) => (count > 10 ? "hang up" : null);
    world.endpoint.health = () => (world.endpoint.requests.length > 10 ? { status: 503 } : { status: 200 });
    const asked = await world.input({ concurrency: 1, outageSeconds: 0.1 });
    await expect(evaluate(asked)).rejects.toMatchObject({
      code: "evaluation-infrastructure",
      issues: [{ found: "for 0.1 seconds one of them did not; last endpoint: GET /health: 503" }],
    });
    world.endpoint.before = () => null;
    world.endpoint.health = () => ({ status: 200 });
    const created = world.environment.created.length;
    expect(outcomes(await evaluate(asked))).toEqual(Array(6).fill("passed"));
    expect(world.environment.created.length - created).toBe(1);
  });
});
