import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Preset } from "../../schemas/preset.ts";
import { evaluate } from "./evaluate.ts";
import type { FakeEndpoint } from "./fake-services.ts";
import { preset, SOLVE, TestEvaluation } from "./test-evaluation.ts";

let world: TestEvaluation;
beforeEach(async () => {
  world = await TestEvaluation.open();
});
afterEach(() => world.close());

describe("what a model does wrong is a graded answer:", () => {
  async function single(say: FakeEndpoint["say"], changes: Partial<Preset> = {}) {
    world.endpoint.say = say;
    const evaluation = await evaluate(await world.input({ tasks: 1, preset: { ...preset, attempts: 1, ...changes } }));
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
    expect(world.environment.calls[0]).toEqual({ name: "solve", arguments: '{"how": ' });
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

  test("a message cut at its limit, though what there is of it is a whole call: that is not carried out", async () => {
    const result = await single(() => ({ ...SOLVE, cut: true }));
    expect(result).toMatchObject({
      outcome: {
        kind: "failed",
        reason: "none; its last message was cut at 64 tokens, and its tool calls were not carried out",
      },
      turns: 1,
      malformedToolCalls: 0,
    });
    expect(world.environment.calls).toEqual([]);
  });

  test("going on until the turn limit, which is marked and graded as it stands", async () => {
    const solved = await single(() => SOLVE);
    expect(solved).toMatchObject({ outcome: { kind: "passed" }, turns: 3, hitTurnLimit: true });
    expect(world.environment.calls).toHaveLength(3);
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
    expect(world.environment.calls.map(({ name }) => name)).toEqual(["solve", "break"]);
  });

  test("a conversation that outgrows the context, graded by what was done until then", async () => {
    world.endpoint.before = (count) =>
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
    world.endpoint.before = (count) =>
      count === 4 ? { status: 400, body: { error: { message: "maximum context length" } } } : null;
    await rm(join(world.root, "progress.jsonl"));
    const failed = await single(() => ({ calls: [["break", '{"how":"b"}']] }));
    expect(failed.outcome).toEqual({
      kind: "failed",
      reason: "broken; the endpoint refused the conversation (context-overflow): 400: maximum context length",
    });
  });
});
