import { describe, expect, test } from "vitest";
import { digestBytes } from "../../schemas/digest.ts";
import { type Conditions, comparabilityOf, evaluationId } from "./comparability.ts";
import { fakeTaskSet } from "./fake-services.ts";

const conditions: Conditions = {
  preset: {
    name: "p",
    attempts: 8,
    temperature: 1,
    topP: 1,
    maxTurns: 8,
    maxTokensPerTurn: 64,
    seed: 0,
    failureRule: { retries: 2, exhausted: "counts-as-failure" },
  },
  tasks: fakeTaskSet(3).tasks,
  environments: digestBytes("environments"),
  harness: "1",
  serving: { server: "vllm", contextTokens: 1024, dtype: "float32", toolCallParser: "hermes" },
  serverCode: digestBytes("server"),
};
const keyOf = (changes: Partial<Conditions>) => comparabilityOf({ ...conditions, ...changes }).key;

describe("the comparability key", () => {
  test("is the same for the same conditions, whatever the order of tasks and fields", () => {
    const { serving } = conditions;
    const other = {
      toolCallParser: serving.toolCallParser,
      dtype: serving.dtype,
      contextTokens: serving.contextTokens,
      server: serving.server,
    };
    expect(keyOf({ tasks: [...conditions.tasks].reverse(), serving: other })).toBe(keyOf({}));
  });

  test.each<[string, Partial<Conditions>]>([
    ["the preset", { preset: { ...conditions.preset, temperature: 0.5 } }],
    [
      "the failure rule",
      { preset: { ...conditions.preset, failureRule: { retries: 0, exhausted: "counts-as-failure" } } },
    ],
    ["the tasks", { tasks: conditions.tasks.slice(1) }],
    ["a prompt", { tasks: conditions.tasks.map((task, at) => (at === 0 ? { ...task, prompt: "Other." } : task)) }],
    [
      "a grading",
      { tasks: conditions.tasks.map((task, at) => (at === 0 ? { ...task, grading: { files: {} } } : task)) },
    ],
    ["the environments", { environments: digestBytes("others") }],
    ["the harness", { harness: "2" }],
    ["the server", { serving: { ...conditions.serving, server: "light" } }],
    ["the server's code", { serverCode: digestBytes("another server") }],
    ["the context", { serving: { ...conditions.serving, contextTokens: 2048 } }],
  ])("changes with %s", (_, changes) => {
    expect(keyOf(changes)).not.toBe(keyOf({}));
  });

  test("and the checkpoint make the evaluation's id", () => {
    const id = evaluationId(digestBytes("a"), keyOf({}));
    expect(id).toMatch(/^eval-[0-9a-f]{12}$/);
    expect(evaluationId(digestBytes("a"), keyOf({}))).toBe(id);
    expect(evaluationId(digestBytes("b"), keyOf({}))).not.toBe(id);
    expect(evaluationId(digestBytes("a"), keyOf({ harness: "2" }))).not.toBe(id);
  });
});
