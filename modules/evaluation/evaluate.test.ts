import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { digestBytes } from "../../schemas/digest.ts";
import { evaluate } from "./evaluate.ts";
import { TOOLS } from "./fake-services.ts";
import { checkpoint, SOLVE, TestEvaluation, user } from "./test-evaluation.ts";

let world: TestEvaluation;
beforeEach(async () => {
  world = await TestEvaluation.open();
});
afterEach(() => world.close());

describe("an evaluation", () => {
  test("attempts every held-out task as often as the preset says, each with its own seed, and keeps every trace", async () => {
    // Every task's second attempt does nothing.
    const prompted = new Map<string, number>();
    world.endpoint.say = (messages) => {
      if (messages.length > 1) return { content: "Done." };
      const times = prompted.get(messages[0]?.content ?? "") ?? 0;
      prompted.set(messages[0]?.content ?? "", times + 1);
      return times === 1 ? { content: "Done." } : SOLVE;
    };
    const evaluation = await evaluate(await world.input());
    expect(evaluation.results.map(({ taskId, attempt, outcome }) => [taskId, attempt, outcome.kind])).toEqual([
      ["task-0", 0, "passed"],
      ["task-0", 1, "failed"],
      ["task-1", 0, "passed"],
      ["task-1", 1, "failed"],
      ["task-2", 0, "passed"],
      ["task-2", 1, "failed"],
    ]);
    expect(evaluation.results[0]).toMatchObject({
      turns: 2,
      hitTurnLimit: false,
      promptTokens: 20,
      completionTokens: 6,
      infrastructureRetries: 0,
    });
    const { messages, tools, seed, policy } = world.trace(evaluation, 0);
    expect(messages).toEqual([
      user,
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: "call-0", type: "function", function: { name: "solve", arguments: '{"how": "well"}' } }],
      },
      { role: "tool", tool_call_id: "call-0", name: "solve", content: "ok" },
      { role: "assistant", content: "Done." },
    ]);
    expect({ tools, seed, policy }).toEqual({ tools: TOOLS, seed: 100, policy: "tiny" });
    expect(world.endpoint.requests[0]).toMatchObject({ temperature: 1, top_p: 1, max_tokens: 64 });
    expect(new Set(world.environment.created).size).toBe(6);
    expect(world.objects.size).toBe(6);
    expect(evaluation.tasks).toHaveLength(3);
  });

  test("seeds every turn of every attempt of every task differently, and the same for every model", async () => {
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    await evaluate(await world.input());
    const seeds = world.endpoint.requests.map(({ seed }) => seed);
    expect(new Set(seeds).size).toBe(12);
    await evaluate(
      await world.input({
        checkpoint: { ...checkpoint, digest: digestBytes("other"), name: "other" },
        progressFile: join(world.root, "other.jsonl"),
      }),
    );
    expect(
      world.endpoint.requests
        .slice(12)
        .map(({ seed }) => seed)
        .sort(),
    ).toEqual(seeds.sort());
  });

  test("plays every task once before any task twice", async () => {
    await evaluate(await world.input({ concurrency: 1 }));
    expect(world.environment.created.map((id) => id.slice(-10))).toEqual([
      "task-0-0-0",
      "task-1-0-0",
      "task-2-0-0",
      "task-0-1-0",
      "task-1-1-0",
      "task-2-1-0",
    ]);
  });

  test("keeps its concurrency in flight and never exceeds it", async () => {
    world.endpoint.latencyMilliseconds = 20;
    world.endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const started = performance.now();
    await evaluate(await world.input({ tasks: 40, concurrency: 16 }));
    const seconds = (performance.now() - started) / 1000;
    expect(world.endpoint.largestInFlight).toBe(16);
    // 80 attempts of 2 turns, 16 at once, take 10 rounds of 20 ms if the model is never kept waiting.
    expect(seconds).toBeLessThan(3);
  });

  test("reports its progress, and that it is the same when nothing is left to do", async () => {
    const seen: unknown[] = [];
    const asked = await world.input({ onProgress: (progress) => seen.push(progress), concurrency: 1 });
    const first = await evaluate(asked);
    expect(seen.at(-1)).toEqual({ done: 6, total: 6, passed: 0, infrastructure: 0 });
    const requests = world.endpoint.requests.length;
    expect(await evaluate(asked)).toEqual(first);
    expect(world.endpoint.requests).toHaveLength(requests);
  });
});

describe("an evaluation that could not be compared", () => {
  test("does not start when the endpoint renders the conversation into other tokens, and shows where", async () => {
    world.endpoint.render = (messages, tools) => [
      ...Buffer.from(JSON.stringify([messages, tools.map((tool) => ({ ...tool, return: null }))])),
    ];
    await expect(evaluate(await world.input())).rejects.toMatchObject({
      code: "rendering-differs",
      issues: [
        {
          path: "rendering-probe.json: cases.0",
          found: expect.stringMatching(/^token \d+ differs: the trainer has 125 in ".*", the endpoint 44 in ".*return/),
        },
      ],
    });
    expect(world.environment.created).toEqual([]);
    expect(world.endpoint.requests).toEqual([]);
  });

  test("does not start when the endpoint's rendering is only longer", async () => {
    world.endpoint.render = (messages, tools) => [...Buffer.from(`${JSON.stringify([messages, tools])}\n`)];
    await expect(evaluate(await world.input())).rejects.toMatchObject({
      code: "rendering-differs",
      issues: [{ found: expect.stringContaining("the trainer has nothing in") }],
    });
  });

  test("does not finish when the environments change meanwhile, and does not go on under others", async () => {
    const asked = await world.input({ tasks: 4, concurrency: 1 });
    world.endpoint.before = (count) => {
      if (count === 5) world.environment.families = { fake: digestBytes("environments 2") };
      return null;
    };
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "environments-changed" });
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "environments-changed" });
    world.environment.families = { fake: digestBytes("environments 1") };
    expect((await evaluate(asked)).results).toHaveLength(8);
  });

  test("is another one with another server code, and refuses to go on under the id of the first", async () => {
    const asked = await world.input();
    const serverCode = digestBytes("server 2");
    expect((await world.input({ serverCode })).id).not.toBe(asked.id);
    await expect(evaluate({ ...asked, serverCode })).rejects.toMatchObject({ code: "environments-changed" });
    expect(world.environment.created).toEqual([]);
  });

  test("is the same whatever other families the environment service has", async () => {
    const { id } = await world.input();
    world.environment.families = { ...world.environment.families, other: digestBytes("other") };
    expect((await world.input()).id).toBe(id);
  });

  test("is refused where the environment service does not have the task set's family", async () => {
    world.environment.families = { other: digestBytes("other") };
    await expect(world.input()).rejects.toMatchObject({
      code: "task-set-refused",
      issues: [{ found: "it has other" }],
    });
  });

  test("of tasks that are not in the set, or twice, is refused", async () => {
    await expect(world.input({ heldOutIds: ["task-0", "task-0", "task-9"] })).rejects.toMatchObject({
      code: "held-out-tasks",
    });
    await expect(world.input({ heldOutIds: [] })).rejects.toMatchObject({ code: "held-out-tasks" });
  });
});
