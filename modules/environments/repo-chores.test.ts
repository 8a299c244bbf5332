/** The first real family in the real sandbox: its tools, its grader, its answers. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Task } from "../../schemas/task.ts";
import { TestService, taskSetOf } from "./test-service.ts";

const FAMILY = fileURLToPath(new URL("../tasks/repo-chores", import.meta.url));
const start = { "app.conf": "port=20\nhost=red\n", "db.conf": "user=on\n" };
const tune = { "db.conf": "user=off\n" };
const files = { ...start, ...tune, "app.conf": "port=10\nhost=red\n" };
const history = [
  { message: "start", files: start },
  { message: "tune", files: { ...start, ...tune } },
];
const task: Task = {
  ...{
    id: "atlas-set-value-0001",
    family: "repo-chores",
    project: "atlas",
    difficulty: 2,
    kind: "set-value",
    goal: {},
  },
  prompt: "Set port to 10 in every file. Commit as port.",
  repository: {
    commits: [
      { message: "start", files: start },
      { message: "tune", files: tune },
    ],
  },
  grading: { files, head: { message: "port" }, history },
};

let test: TestService;
beforeAll(async () => {
  const set = taskSetOf([task], { name: "repo-chores", version: 1 }, FAMILY);
  test = await TestService.open([task], { families: [FAMILY], set });
}, 60_000);
afterAll(() => test.close());

async function act(id: string, calls: [string, unknown][]): Promise<string[]> {
  await test.create(task.id, id);
  const said: string[] = [];
  for (const [name, given] of calls) said.push((await test.call(id, name, given)).body.content);
  return said;
}

describe("repo-chores", { timeout: 60_000 }, () => {
  it("is passed by doing what the prompt asks", async () => {
    const said = await act("solved", [
      ["search", { text: "port" }],
      ["edit", { path: "app.conf", old: "port=20", new: "port=10" }],
      ["commit", { message: "port" }],
    ]);
    expect(said).toEqual(["app.conf: port=20", "ok", "ok"]);
    expect((await test.grade("solved")).body).toEqual({ passed: true, reward: 1, reasons: [], violations: [] });
  });

  it("is failed, with reasons, by doing nothing or half of it", async () => {
    expect(await act("nothing", [])).toEqual([]);
    expect((await test.grade("nothing")).body).toMatchObject({ passed: false, reward: 0 });
    await act("half", [["edit", { path: "app.conf", old: "port=20", new: "port=10" }]]);
    const { body } = await test.grade("half");
    expect(body.passed).toBe(false);
    expect(body.reasons).toContain("not-committed");
  });

  it("answers a model's mistakes with the same short words every time", async () => {
    const mistakes: [string, unknown][] = [
      ["search", "port"],
      ["search", {}],
      ["find", { text: "port" }],
      ["edit", { path: "web.conf", old: "a", new: "b" }],
      ["edit", { path: "../app.conf", old: "a", new: "b" }],
      ["edit", { path: "app.conf", old: "port", new: "b" }],
      ["commit", { message: "port" }],
      ["search", { text: "queue" }],
    ];
    const words = [
      "error: bad arguments",
      "error: bad arguments",
      "error: no tool",
      "error: no file",
      "error: bad path",
      "error: no line",
      "error: nothing to commit",
      "none",
    ];
    expect(await act("wrong-1", mistakes)).toEqual(words);
    expect(await act("wrong-2", mistakes)).toEqual(words);
    expect((await test.grade("wrong-1")).body.violations).toEqual(['edit.path: "../app.conf" leaves the repository']);
  });
});
