import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Checkpoint, RenderingProbe } from "../../schemas/checkpoint.ts";
import { digestBytes } from "../../schemas/digest.ts";
import type { Evaluation, Lineage } from "../../schemas/evaluation.ts";
import type { ObjectStore } from "../../schemas/object-store.ts";
import type { Preset } from "../../schemas/preset.ts";
import { Trajectory } from "../../schemas/trajectory.ts";
import { type Evaluate, evaluate, planEvaluation } from "./evaluate.ts";
import {
  FakeEndpoint,
  FakeEnvironment,
  fakeTaskSet,
  type Listening,
  listen,
  type Say,
  TOOLS,
} from "./fake-services.ts";

const digest = digestBytes("weights");
const checkpoint: Checkpoint = {
  schemaVersion: 1,
  digest,
  name: "tiny",
  stage: "rl",
  step: 4,
  runId: "run-1",
  parent: digest,
  base: digest,
  files: [{ path: "config.json", bytes: 2, sha256: "0" }],
  prefix: "checkpoints/x/model",
  createdAt: "2026-01-01T00:00:00Z",
};
const lineage: Lineage = {
  runId: "run-1",
  requestedBy: "run-1",
  recipe: "r",
  planDigest: digest,
  snapshotDigest: digest,
  commit: null,
  uncommittedDigest: null,
};
const preset: Preset = {
  name: "test",
  attempts: 2,
  temperature: 1,
  topP: 1,
  maxTurns: 3,
  maxTokensPerTurn: 64,
  seed: 100,
  failureRule: { retries: 2, exhausted: "counts-as-failure" },
};
const serving = { server: "light", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" } as const;
const user = { role: "user" as const, content: "Solve 0." };
const SOLVE: Say = { calls: [["solve", '{"how": "well"}']] };

let root: string;
let endpoint: FakeEndpoint;
let environment: FakeEnvironment;
let servers: Listening[];
let objects: Map<string, string>;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uplift-evaluation-"));
  endpoint = new FakeEndpoint();
  environment = new FakeEnvironment();
  servers = [await listen(endpoint.handle), await listen(environment.handle)];
  objects = new Map();
});
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await rm(root, { recursive: true, force: true });
});

const store: Pick<ObjectStore, "put"> = {
  put: async (key, bytes) => {
    objects.set(key, String(bytes));
  },
};

function probe(): RenderingProbe {
  return { cases: [{ messages: [user], tools: TOOLS, tokenIds: [...Buffer.from(JSON.stringify([[user], TOOLS]))] }] };
}

async function input(changes: Partial<Evaluate> & { tasks?: number } = {}): Promise<Evaluate> {
  const { tasks = 3, ...rest } = changes;
  const taskSet = fakeTaskSet(tasks);
  const base = {
    checkpoint,
    taskSet,
    heldOutIds: taskSet.splits["held-out"],
    preset,
    serving,
    probe: probe(),
    lineage,
    store: store as ObjectStore,
    endpoint: { url: `${servers[0]?.url}/v1`, apiKey: "key", model: "tiny" },
    environment: { url: servers[1]?.url ?? "" },
    progressFile: join(root, "progress.jsonl"),
    retryMilliseconds: 1,
    now: () => new Date(),
    ...rest,
  };
  const planned = await planEvaluation({ ...base, environmentsUrl: servers[1]?.url ?? "" });
  return { id: planned.id, ...base };
}

const outcomes = (evaluation: Evaluation) => evaluation.results.map(({ outcome }) => outcome.kind);
const trace = (evaluation: Evaluation, index: number) =>
  Trajectory.parse(JSON.parse(objects.get(evaluation.results[index]?.traceKey ?? "") ?? ""));

describe("an evaluation", () => {
  test("attempts every held-out task as often as the preset says, each with its own seed, and keeps every trace", async () => {
    // Every task's second attempt does nothing.
    const prompted = new Map<string, number>();
    endpoint.say = (messages) => {
      if (messages.length > 1) return { content: "Done." };
      const times = prompted.get(messages[0]?.content ?? "") ?? 0;
      prompted.set(messages[0]?.content ?? "", times + 1);
      return times === 1 ? { content: "Done." } : SOLVE;
    };
    const evaluation = await evaluate(await input());
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
    const { messages, tools, seed, policy } = trace(evaluation, 0);
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
    expect(endpoint.requests[0]).toMatchObject({ temperature: 1, top_p: 1, max_tokens: 64 });
    expect(new Set(environment.created).size).toBe(6);
    expect(objects.size).toBe(6);
    expect(evaluation.tasks).toHaveLength(3);
  });

  test("seeds every turn of every attempt of every task differently, and the same for every model", async () => {
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    await evaluate(await input());
    const seeds = endpoint.requests.map(({ seed }) => seed);
    expect(new Set(seeds).size).toBe(12);
    await evaluate(
      await input({
        checkpoint: { ...checkpoint, digest: digestBytes("other"), name: "other" },
        progressFile: join(root, "other.jsonl"),
      }),
    );
    expect(
      endpoint.requests
        .slice(12)
        .map(({ seed }) => seed)
        .sort(),
    ).toEqual(seeds.sort());
  });

  test("plays every task once before any task twice", async () => {
    await evaluate(await input({ concurrency: 1 }));
    expect(environment.created.map((id) => id.slice(-10))).toEqual([
      "task-0-0-0",
      "task-1-0-0",
      "task-2-0-0",
      "task-0-1-0",
      "task-1-1-0",
      "task-2-1-0",
    ]);
  });

  test("keeps its concurrency in flight and never exceeds it", async () => {
    endpoint.latencyMilliseconds = 20;
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const started = performance.now();
    await evaluate(await input({ tasks: 40, concurrency: 16 }));
    const seconds = (performance.now() - started) / 1000;
    expect(endpoint.largestInFlight).toBe(16);
    // 80 attempts of 2 turns, 16 at once, take 10 rounds of 20 ms if the model is never kept waiting.
    expect(seconds).toBeLessThan(3);
  });

  test("reports its progress, and that it is the same when nothing is left to do", async () => {
    const seen: unknown[] = [];
    const asked = await input({ onProgress: (progress) => seen.push(progress), concurrency: 1 });
    const first = await evaluate(asked);
    expect(seen.at(-1)).toEqual({ done: 6, total: 6, passed: 0, infrastructure: 0 });
    const requests = endpoint.requests.length;
    expect(await evaluate(asked)).toEqual(first);
    expect(endpoint.requests).toHaveLength(requests);
  });
});

describe("what a model does wrong is a graded answer:", () => {
  async function single(say: FakeEndpoint["say"], changes: Partial<Preset> = {}) {
    endpoint.say = say;
    const evaluation = await evaluate(await input({ tasks: 1, preset: { ...preset, attempts: 1, ...changes } }));
    const [result] = evaluation.results;
    if (result === undefined) throw new Error("there is one result");
    return result;
  }

  test("no tool call at all", async () => {
    const result = await single(() => ({ content: "I would rather not." }));
    expect(result).toMatchObject({
      outcome: { kind: "failed", reason: "none; it called no tool" },
      turns: 1,
      malformedToolCalls: 0,
    });
  });

  test("arguments that do not parse, which the model is told and may correct", async () => {
    const result = await single((messages) =>
      messages.length === 1 ? { calls: [["solve", '{"how": ']] } : messages.length === 3 ? SOLVE : { content: "Done." },
    );
    expect(result).toMatchObject({ outcome: { kind: "passed" }, malformedToolCalls: 1, turns: 3 });
    expect(environment.calls[0]).toEqual({ name: "solve", arguments: '{"how": ' });
  });

  test("a tool that does not exist", async () => {
    const result = await single((messages) =>
      messages.length === 1 ? { calls: [["fly", "{}"]] } : { content: "Done." },
    );
    expect(result).toMatchObject({ outcome: { kind: "failed" }, malformedToolCalls: 1 });
  });

  test("a tool call that is not JSON, which servers pass on as text", async () => {
    const result = await single(() => ({ content: '<tool_call>\n{"name": "solve", "argu', cut: true }));
    expect(result).toMatchObject({
      outcome: {
        kind: "failed",
        reason: "none; its last tool call is not JSON; its last message was cut at 64 tokens",
      },
      malformedToolCalls: 1,
    });
  });

  test("going on until the turn limit, which is marked and graded as it stands", async () => {
    const solved = await single(() => SOLVE);
    expect(solved).toMatchObject({ outcome: { kind: "passed" }, turns: 3, hitTurnLimit: true });
    expect(environment.calls).toHaveLength(3);
  });

  test("several calls in one message, which are carried out in order", async () => {
    const result = await single((messages) =>
      messages.length === 1
        ? {
            calls: [
              ["solve", '{"how":"a"}'],
              ["break", '{"how":"b"}'],
            ],
          }
        : { content: "Done." },
    );
    expect(result).toMatchObject({ outcome: { kind: "failed", reason: "broken" } });
    expect(environment.calls.map(({ name }) => name)).toEqual(["solve", "break"]);
  });

  test("a conversation that outgrows the context, graded by what was done until then", async () => {
    endpoint.before = (count) =>
      count === 2
        ? {
            status: 400,
            body: {
              error: {
                message:
                  "This model's maximum context length is 1024 tokens. However, your request has 1030 input tokens.",
                code: 400,
              },
            },
          }
        : null;
    const result = await single(() => SOLVE);
    expect(result).toMatchObject({ outcome: { kind: "passed" }, turns: 1, infrastructureRetries: 0 });
    endpoint.before = (count) =>
      count === 4 ? { status: 400, body: { error: { message: "maximum context length" } } } : null;
    await rm(join(root, "progress.jsonl"));
    const failed = await single(() => ({ calls: [["break", '{"how":"b"}']] }));
    expect(failed.outcome).toEqual({
      kind: "failed",
      reason: "broken; the endpoint refused the conversation (context-overflow): 400: maximum context length",
    });
  });
});

describe("what breaks by itself", () => {
  const attemptOnce = { ...preset, attempts: 1 };

  test("at the endpoint (500, 429, a lost connection) starts the attempt again and is counted", async () => {
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    for (const reply of [{ status: 500, body: { error: { message: "boom" } } }, { status: 429 }, "hang up"] as const) {
      const from = endpoint.requests.length;
      endpoint.before = (count) => (count - from === 2 ? reply : null);
      const evaluation = await evaluate(
        await input({ tasks: 1, preset: attemptOnce, progressFile: join(root, `${from}.jsonl`) }),
      );
      expect(evaluation.results[0]).toMatchObject({ outcome: { kind: "passed" }, infrastructureRetries: 1, turns: 2 });
    }
    // Every broken try's sandbox was given back, and every try had one of its own.
    expect(environment.ended).toHaveLength(3);
    expect(new Set(environment.created).size).toBe(6);
  });

  test("in the environment (a crashed grader, a lost attempt, a full service) does so too", async () => {
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const faults: [RegExp, { status: number; body: unknown }][] = [
      [/grade$/, { status: 500, body: { error: { code: "grader-crashed", message: "exit 1", infrastructure: true } } }],
      [/tool-calls$/, { status: 410, body: { error: { code: "attempt-ended", message: "expired" } } }],
    ];
    for (const [path, reply] of faults) {
      let left = 1;
      environment.before = (_, asked) => (path.test(asked) && left-- > 0 ? reply : null);
      const evaluation = await evaluate(
        await input({ tasks: 1, preset: attemptOnce, progressFile: join(root, `${reply.status}.jsonl`) }),
      );
      expect(evaluation.results[0]).toMatchObject({ outcome: { kind: "passed" }, infrastructureRetries: 1 });
    }
    let full = 2;
    environment.before = (method, asked) =>
      method === "POST" && asked === "/v1/attempts" && full-- > 0 ? { status: 429 } : null;
    const waited = await evaluate(
      await input({ tasks: 1, preset: attemptOnce, progressFile: join(root, "full.jsonl") }),
    );
    expect(waited.results[0]).toMatchObject({ outcome: { kind: "passed" }, infrastructureRetries: 0 });
  });

  test("for one task every time, is that task's outcome after the preset's retries; the others count", async () => {
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    let grades = 0;
    environment.before = (_, path) => {
      if (!/task-1-\d-\d\/grade$/.test(path)) return null;
      grades += 1;
      return { status: 503, body: { error: { code: "grader-crashed", message: "exit 1", infrastructure: true } } };
    };
    const evaluation = await evaluate(await input({ preset: attemptOnce }));
    expect(outcomes(evaluation)).toEqual(["passed", "infrastructure", "passed"]);
    expect(evaluation.results[1]).toMatchObject({
      outcome: { code: "environment-grader-crashed" },
      infrastructureRetries: 2,
    });
    expect(grades).toBe(3);
  });

  test("for every attempt, stops the evaluation; once repaired, it plays those attempts again", async () => {
    endpoint.before = () => ({ status: 500, body: { error: { message: "no memory" } } });
    const asked = await input({ tasks: 20, concurrency: 4 });
    await expect(evaluate(asked)).rejects.toMatchObject({
      code: "evaluation-infrastructure",
      issues: [{ found: expect.stringContaining("endpoint-500: 500: no memory") }],
    });
    expect(endpoint.requests.length).toBeLessThan(40);
    endpoint.before = () => null;
    const evaluation = await evaluate(asked);
    expect(new Set(outcomes(evaluation))).toEqual(new Set(["failed"]));
    expect(evaluation.results).toHaveLength(40);
  });

  test("half-way, when the endpoint dies, loses nothing that had finished and counts nothing that had not", async () => {
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const asked = await input({ tasks: 20, concurrency: 4 });
    endpoint.before = (count) => (count > 30 ? "hang up" : null);
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "evaluation-infrastructure" });
    const kept = (await readFile(asked.progressFile, "utf8"))
      .split("\n")
      .filter((line) => line.includes('"attempt"')).length;
    expect(kept).toBeGreaterThanOrEqual(13);
    endpoint.before = () => null;
    const before = environment.created.length;
    const evaluation = await evaluate(asked);
    expect(environment.created.length - before).toBe(40 - kept);
    expect(new Set(outcomes(evaluation))).toEqual(new Set(["passed"]));
  });

  test("at once, when nothing listens at the endpoint's address", async () => {
    const asked = await input();
    await servers[0]?.close();
    servers = servers.slice(1);
    await expect(evaluate(asked)).rejects.toThrow(/endpoint|ECONNREFUSED/);
    expect(environment.created).toEqual([]);
  });

  test("a wrong key or model name ends the evaluation at once", async () => {
    const asked = await input();
    await expect(evaluate({ ...asked, endpoint: { ...asked.endpoint, apiKey: "wrong" } })).rejects.toMatchObject({
      code: "endpoint-refuses",
    });
    await expect(evaluate({ ...asked, endpoint: { ...asked.endpoint, model: "other" } })).rejects.toMatchObject({
      code: "endpoint-refuses",
    });
    expect(environment.created).toEqual([]);
  });

  test("a request that takes too long is broken, not wrong", async () => {
    endpoint.latencyMilliseconds = 5000;
    const asked = await input({
      tasks: 1,
      preset: { ...attemptOnce, failureRule: { retries: 0, exhausted: "counts-as-failure" } },
      requestSeconds: 1,
    });
    await expect(evaluate(asked)).rejects.toThrow(/endpoint-timeout.*no answer within 1 s/);
  });
});

describe("an evaluation that is interrupted", () => {
  test("by an abort stops soon and goes on later, repeating nothing that had finished", async () => {
    endpoint.latencyMilliseconds = 5;
    const abort = new AbortController();
    const asked = await input({
      tasks: 20,
      concurrency: 4,
      signal: abort.signal,
      onProgress: ({ done }) => done === 10 && abort.abort(new Error("cancelled by a test")),
    });
    await expect(evaluate(asked)).rejects.toThrow("cancelled by a test");
    const kept = (await readFile(asked.progressFile, "utf8"))
      .split("\n")
      .filter((line) => line.includes('"attempt"')).length;
    const before = environment.created.length;
    expect((await evaluate({ ...asked, signal: undefined })).results).toHaveLength(40);
    expect(environment.created.length - before).toBe(40 - kept);
  });

  test("by kill -9 goes on with what was not finished, and plays no finished attempt twice", async () => {
    endpoint.latencyMilliseconds = 30;
    endpoint.say = (messages) => (messages.length > 1 ? { content: "Done." } : SOLVE);
    const asked = await input({ tasks: 20, concurrency: 4 });
    const program = join(root, "child.mts");
    const { store: _, now: __, ...rest } = asked;
    await writeFile(
      program,
      `import { evaluate } from "${new URL("./evaluate.ts", import.meta.url)}";
       await evaluate({ ...${JSON.stringify(rest)}, store: { put: async () => {} }, now: () => new Date() });`,
    );
    const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), program], { stdio: "inherit" });
    const lines = async () =>
      (await readFile(asked.progressFile, "utf8").catch(() => ""))
        .split("\n")
        .filter((line) => line.includes('"attempt"'));
    while ((await lines()).length < 10) {
      if (child.exitCode !== null) throw new Error(`the child ended with ${child.exitCode}`);
      await sleep(10);
    }
    child.kill("SIGKILL");
    await once(child, "exit");
    // The kill tore the line that was being written.
    await appendFile(asked.progressFile, '{"kind":"attempt","result":{"taskId":"task-1');
    const finished = (await lines()).slice(0, -1).map((line) => JSON.parse(line).result);
    const before = environment.created.length;

    const evaluation = await evaluate(asked);
    expect(evaluation.results).toHaveLength(40);
    expect(new Set(outcomes(evaluation))).toEqual(new Set(["passed"]));
    expect(environment.created.length - before).toBe(40 - finished.length);
    expect(evaluation.results).toEqual(expect.arrayContaining(finished));
  }, 30_000);

  test("refuses a progress file of another evaluation, and one that was damaged in the middle", async () => {
    const asked = await input();
    await writeFile(
      asked.progressFile,
      '{"kind":"evaluation","id":"eval-000000000000","startedAt":"2026-01-01T00:00:00Z"}\n',
    );
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "evaluation-progress" });
    await writeFile(
      asked.progressFile,
      `{"kind":"evaluation","id":"${asked.id}","startedAt":"2026-01-01T00:00:00Z"}\nnonsense\n`,
    );
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "evaluation-progress" });
    expect(environment.created).toEqual([]);
  });
});

describe("an evaluation that could not be compared", () => {
  test("does not start when the endpoint renders the conversation into other tokens, and shows where", async () => {
    endpoint.render = (messages, tools) => [
      ...Buffer.from(JSON.stringify([messages, tools.map((tool) => ({ ...tool, return: null }))])),
    ];
    await expect(evaluate(await input())).rejects.toMatchObject({
      code: "rendering-differs",
      issues: [
        {
          path: "rendering-probe.json: cases.0",
          found: expect.stringMatching(/^token \d+ differs: the trainer has 125 in ".*", the endpoint 44 in ".*return/),
        },
      ],
    });
    expect(environment.created).toEqual([]);
    expect(endpoint.requests).toEqual([]);
  });

  test("does not start when the endpoint's rendering is only longer", async () => {
    endpoint.render = (messages, tools) => [...Buffer.from(`${JSON.stringify([messages, tools])}\n`)];
    await expect(evaluate(await input())).rejects.toMatchObject({
      code: "rendering-differs",
      issues: [{ found: expect.stringContaining("the trainer has nothing in") }],
    });
  });

  test("does not finish when the environments change meanwhile, and does not go on under others", async () => {
    const asked = await input({ tasks: 4, concurrency: 1 });
    endpoint.before = (count) => {
      if (count === 5) environment.environmentsDigest = digestBytes("environments 2");
      return null;
    };
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "environments-changed" });
    await expect(evaluate(asked)).rejects.toMatchObject({ code: "environments-changed" });
    environment.environmentsDigest = digestBytes("environments 1");
    expect((await evaluate(asked)).results).toHaveLength(8);
  });

  test("of tasks that are not in the set, or twice, is refused", async () => {
    await expect(input({ heldOutIds: ["task-0", "task-0", "task-9"] })).rejects.toMatchObject({
      code: "held-out-tasks",
    });
    await expect(input({ heldOutIds: [] })).rejects.toMatchObject({ code: "held-out-tasks" });
  });
});
