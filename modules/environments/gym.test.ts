/** NeMo Gym's routes over a real service: what simple_agent calls, in its order, with real sandboxes. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Task } from "../../schemas/task.ts";
import { GymRollout } from "./test-gym.ts";
import { FAULTY, faultyTask, TestService, taskSetOf } from "./test-service.ts";

let test: TestService;
const tasks = [
  faultyTask("content", "verdict((root / 'a.txt').read_text() == 'two\\n', 'looked')"),
  faultyTask("pass", "verdict(True)"),
  faultyTask("crash", "raise ValueError('bad spec')"),
];

beforeAll(async () => {
  test = await TestService.open(tasks, { maxAttempts: 6, seedWaitSeconds: 20 });
}, 60_000);
afterAll(() => test.close());

async function seeded(taskId: string, rest: object = {}, of: TestService = test): Promise<GymRollout> {
  const rollout = new GymRollout(of, taskId, rest);
  expect((await rollout.seed()).status).toBe(200);
  return rollout;
}

const rollouts = async (of: TestService = test) => {
  const text = await (await of.app.request("/metrics")).text();
  return Object.fromEntries(
    [...text.matchAll(/gym_rollouts_total\{outcome="(\w+)"\} (\d+)/g)].map(([, outcome, count]) => [
      outcome,
      Number(count),
    ]),
  );
};

const refusal = (status: number, code: string, infrastructure = false) => ({
  status,
  body: { error: { code, infrastructure, message: expect.any(String) } },
});

describe("a rollout", { timeout: 60_000 }, () => {
  it("that solves its task is given 1, and its row and response come back byte for byte", async () => {
    const rollout = await seeded("content");
    expect(await rollout.call("shell", { command: "echo two > a.txt" })).toBe("exit 0");
    const output = '[{"type":"message","generation_log_probs":[0.0,-0.50,-1e-07],"prompt_token_ids":[1,2]}]';
    const body = `${JSON.stringify(rollout.row).slice(0, -1)},"response":{"id":"resp_1","output":${output}}}`;
    const response = await rollout.post("/verify", body);
    const text = await response.text();
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(text.startsWith(body.slice(0, -1))).toBe(true);
    expect(JSON.parse(text)).toEqual({
      ...rollout.row,
      response: { id: "resp_1", output: JSON.parse(output) },
      ...{ reward: 1, passed: true, reasons: ["looked"], violations: [] },
      ...{ mask_sample: false, instance_config: { mask_sample: false } },
    });
  });

  it("that does not is given 0, with reasons and violations, and counts as much", async () => {
    const rollout = await seeded("content", { instance_config: { image: "a", mask_sample: true } });
    expect(await rollout.call("refuse", { why: "/etc/passwd" })).toMatch(/^error: /);
    expect((await rollout.verify()).body).toMatchObject({
      ...{ reward: 0, passed: false, reasons: ["looked"] },
      violations: ['refuse.why: "/etc/passwd" is an absolute path'],
      ...{ mask_sample: false, instance_config: { image: "a", mask_sample: false } },
    });
  });

  it("has the grade that an evaluation of the same files gives, once, however often it is verified", async () => {
    const before = await rollouts();
    const rollout = await seeded("content");
    await rollout.call("shell", { command: "echo two > a.txt" });
    const session = rollout.cookie?.split("=")[1] ?? "";
    const [one, two] = await Promise.all([rollout.verify(), rollout.verify()]);
    const three = await rollout.verify({ id: "resp_2", output: [] });
    expect(two).toEqual(one);
    expect(three.body).toEqual({ ...one.body, response: { id: "resp_2", output: [] } });
    const { body: grade } = await test.grade(session);
    expect(one.body).toMatchObject(grade);
    expect(grade.passed).toBe(true);
    expect(await rollouts()).toEqual({ ...before, passed: (before.passed ?? 0) + 1 });
    const journal = readFileSync(join(test.data, "grades.jsonl"), "utf8");
    expect(journal.split(session)).toHaveLength(2);
  });

  it("does not see what another does at the same time", async () => {
    const [one, two] = await Promise.all([seeded("content"), seeded("content")]);
    expect(one.cookie).not.toBe(two.cookie);
    await Promise.all([
      one.call("shell", { command: "echo two > a.txt" }),
      two.call("shell", { command: "echo three > a.txt" }),
    ]);
    expect(await two.call("shell", { command: "cat a.txt" })).toBe("three\nexit 0");
    const [first, second] = await Promise.all([one.verify(), two.verify()]);
    expect([first.body.reward, second.body.reward]).toEqual([1, 0]);
  });

  it("has its cookie in every answer, since Gym keeps those of the last one only", async () => {
    const rollout = await seeded("pass");
    const { cookie } = rollout;
    expect(cookie).toMatch(/^uplift_session=gym-[0-9a-f]{12}-[A-Za-z0-9_-]{24}$/);
    for (const path of ["/shell", "/no_such_tool", "/verify", "/seed_session"]) {
      await rollout.post(path, "{}");
      expect(rollout.cookie).toBe(cookie);
    }
    await test.request("DELETE", `/v1/attempts/${cookie?.split("=")[1]}`);
    expect((await rollout.post("/shell", "{}")).status).toBe(410);
    expect(rollout.cookie).toBe(cookie);
    await rollout.verify();
    expect(rollout.cookie).toBe(cookie);
  });
});

describe("a model's tool call", { timeout: 60_000 }, () => {
  let rollout: GymRollout;
  beforeAll(async () => {
    rollout = await seeded("pass");
  });
  afterAll(() => rollout.verify());

  it.each([
    ["a tool that does not exist", "no_such_tool", "{}", "error: no tool"],
    ["a name that is no path", "a%20b/%2e%2e/?c=%", "{}", "error: no tool"],
    ["the name of an object's member", "constructor", "{}", "error: no tool"],
    ["an argument too few", "shell", "{}", "error: bad arguments"],
    ["an argument that is no text", "shell", '{"command":1}', "error: bad arguments"],
    ["arguments that are a list", "shell", "[1]", "error: bad arguments"],
    ["null, which Gym sends as no body", "shell", "", "error: bad arguments"],
    ["what is no JSON", "shell", "{", "error: bad arguments"],
  ])("with %s is an answer", async (_, path, body, said) => {
    const response = await rollout.post(`/${path}`, body);
    expect([response.status, await response.text()]).toEqual([200, said]);
  });

  it.each([...["seed_session", "verify", "close_session", "aggregate_metrics", "mcp"], "v1/attempts", "metrics"])(
    "named %s is a tool's that does not exist, so a model cannot begin anew, nor grade or end itself",
    async (name) => {
      const { count } = test.service.attempts;
      const [, session] = rollout.cookie?.split("=") ?? [];
      const { task_set: taskSet, task_id: taskId } = rollout.row as { task_set: string; task_id: string };
      const given = { ...rollout.row, taskSet, taskId, id: "another", resources_session_id: session };
      expect(await rollout.call(name, given)).toBe("error: no tool");
      expect(test.service.attempts.count).toBe(count);
      expect(await rollout.call("shell", { command: "true" })).toBe("exit 0");
    },
  );
});

describe("what is no session", { timeout: 60_000 }, () => {
  it("is refused with a reason: a cookie that was dropped", async () => {
    const rollout = await seeded("pass");
    const { cookie } = rollout;
    for (const path of ["shell", "verify"]) {
      rollout.cookie = null;
      const response = await rollout.post(`/${path}`, JSON.stringify({ ...rollout.row, response: {} }));
      expect({ status: response.status, body: await response.json() }).toMatchObject(refusal(400, "session-missing"));
    }
    rollout.cookie = cookie;
    expect((await rollout.verify()).body.reward).toBe(1);
  });

  it("is refused: another attempt's id as a cookie, so it is no way into an evaluation", async () => {
    await test.create("pass", "evaluated");
    const rollout = new GymRollout(test, "pass");
    rollout.cookie = "uplift_session=evaluated";
    expect(await rollout.verify()).toMatchObject(refusal(400, "session-missing"));
    await test.request("DELETE", "/v1/attempts/evaluated");
  });

  it("is refused: a session of another task than the row's", async () => {
    const rollout = await seeded("pass");
    const other = new GymRollout(test, "content");
    other.cookie = rollout.cookie;
    expect(await other.verify()).toMatchObject(refusal(409, "session-other-task"));
    expect((await rollout.verify()).body.reward).toBe(1);
  });

  it("is refused: a row without its task, or with one that is unknown", async () => {
    const without = new GymRollout(test, "pass", { task_set: undefined });
    expect(await without.seed()).toMatchObject(refusal(400, "bad-request"));
    expect(await new GymRollout(test, "none").seed()).toMatchObject(refusal(404, "task-unknown"));
    expect(test.service.attempts.count).toBe(0);
  });
});

describe("what the infrastructure takes away", { timeout: 60_000 }, () => {
  const masked = (kind: string, code: string) => ({
    status: 200,
    body: {
      ...{ reward: 0, passed: false, reasons: [code], mask_sample: true, failure_kind: kind },
      ...{ instance_config: { mask_sample: true }, failure_reason: expect.any(String) },
    },
  });

  it("is masked, not learnt from: a sandbox that died", async () => {
    const before = await rollouts();
    const rollout = await seeded("pass");
    process.kill(test.service.pool.pids.at(-1) ?? 0, "SIGKILL");
    for (let tries = 0; tries < 100 && test.service.attempts.count > 0; tries++) await sleep(50);
    const response = await rollout.post("/shell", '{"command":"true"}');
    expect({ status: response.status, body: await response.json() }).toMatchObject(refusal(503, "sandbox-lost", true));
    expect(await rollout.verify()).toMatchObject(masked("session_lost", "sandbox-lost"));
    await rollout.verify();
    expect(await rollouts()).toEqual({ ...before, masked: (before.masked ?? 0) + 1 });
  });

  it("is masked, not learnt from: a grader that fails three times", async () => {
    const rollout = await seeded("crash");
    const answer = await rollout.verify();
    expect(answer).toMatchObject(masked("verifier_error", "grader-failed"));
    expect(answer.body.failure_reason).toMatch(/ValueError: bad spec/);
    await test.request("DELETE", `/v1/attempts/${rollout.cookie?.split("=")[1]}`);
  });

  it("is masked, not learnt from: a service that was restarted meanwhile; what was graded before is not", async () => {
    const one = await TestService.open(tasks);
    const [graded, lost] = [await seeded("pass", {}, one), await seeded("pass", {}, one)];
    const before = await graded.verify();
    await one.close({ keepData: true });
    const two = await TestService.open(tasks, { data: one.data });
    const later = (rollout: GymRollout) => {
      const again = new GymRollout(two, "pass");
      again.cookie = rollout.cookie;
      return again.verify();
    };
    expect(await later(lost)).toMatchObject(masked("session_lost", "attempt-unknown"));
    expect((await later(graded)).body).toEqual(before.body);
    await two.close();
  });

  it("is masked, not learnt from: an attempt that nobody verified in time, and its place is free again", async () => {
    const folder = mkdtempSync(join(tmpdir(), "brief-"));
    cpSync(FAULTY, folder, { recursive: true });
    const family = JSON.parse(readFileSync(join(folder, "family.json"), "utf8"));
    family.limits.attemptSeconds = 1;
    writeFileSync(join(folder, "family.json"), JSON.stringify(family));
    const brief = await TestService.open(tasks, { families: [folder], maxAttempts: 1, seedWaitSeconds: 20 });
    const rollout = await seeded("pass", {}, brief);
    const next = await seeded("pass", {}, brief); // Waited for the first one's end.
    expect(await rollout.verify()).toMatchObject(masked("session_expired", "attempt-expired"));
    await next.verify();
    await brief.close();
    rmSync(folder, { recursive: true });
  });
});

describe("a service that is full", { timeout: 60_000 }, () => {
  it("lets rollouts wait for a place, in the order they came, where attempts are refused at once", async () => {
    const held = await Promise.all(Array.from({ length: 6 }, () => seeded("pass")));
    const order: number[] = [];
    const waiting = [0, 1, 2].map(async (index) => {
      const rollout = await seeded("pass");
      order.push(index);
      return rollout;
    });
    expect(await test.create("pass", "refused")).toMatchObject(refusal(429, "attempts-full", true));
    for (const rollout of held) {
      expect((await rollout.verify()).body.reward).toBe(1);
      if (order.length < 3) await waiting[order.length];
    }
    expect(order).toEqual([0, 1, 2]);
    for (const rollout of await Promise.all(waiting)) expect((await rollout.verify()).body.reward).toBe(1);
    expect(test.service.attempts.count).toBe(0);
  });

  it("says so when the wait is over, and starts nothing for an agent that is gone", async () => {
    const full = await TestService.open(tasks, { maxAttempts: 1, seedWaitSeconds: 1 });
    const holder = await seeded("pass", {}, full);
    const gone = new AbortController();
    const [late, unheard] = [new GymRollout(full, "pass").seed(), new GymRollout(full, "pass").seed(gone.signal)];
    gone.abort();
    expect(await late).toMatchObject(refusal(503, "session-no-place", true));
    expect((await unheard).status).toBeGreaterThanOrEqual(400);
    await holder.verify();
    await sleep(500);
    expect(full.service.attempts.count).toBe(0);
    await full.close();
  });

  it("gives the place back of an agent that left while its attempt was started", async () => {
    const gone = new AbortController();
    const seeding = new GymRollout(test, "pass").seed(gone.signal);
    for (let tries = 0; tries < 100 && test.service.attempts.count === 0; tries++) await sleep(1);
    gone.abort();
    await seeding;
    expect(test.service.attempts.count).toBe(0);
  });
});

describe("beside rollouts", { timeout: 60_000 }, () => {
  it("a session is closed ungraded by its id, again and unknown ones too", async () => {
    const rollout = new GymRollout(test, "pass");
    const { resources_session_id } = (await rollout.seed()).body;
    for (const id of [resources_session_id, resources_session_id, "unknown"]) {
      const { status, body } = await test.request("POST", "/close_session", {
        resources_session_id: id,
        episode_id: "e",
      });
      expect([status, body]).toEqual([200, { resources_session_id: id }]);
    }
    expect(test.service.attempts.count).toBe(0);
    expect((await rollout.verify()).body).toMatchObject({ mask_sample: true, failure_kind: "cancelled" });
  });

  it("metrics are means over what was measured, for each task and for all", async () => {
    const response = (_ng_task_index: number, reward: number, rest = {}) => ({ _ng_task_index, reward, ...rest });
    const verify_responses = [
      ...[response(1, 1), response(0, 0), response(1, 0), response(1, 1, { mask_sample: false })],
      response(2, 0, { mask_sample: true }),
    ];
    expect((await test.request("POST", "/aggregate_metrics", { verify_responses })).body).toEqual({
      group_level_metrics: [
        { _ng_task_index: 0, "mean/reward": 0, rollouts: 1 },
        { _ng_task_index: 1, "mean/reward": 2 / 3, rollouts: 3 },
      ],
      agent_metrics: { "mean/reward": 0.5, "coverage/measured_rollouts": 4, "coverage/masked_rollouts": 1 },
      key_metrics: { "mean/reward": 0.5 },
    });
    expect((await test.request("POST", "/aggregate_metrics", { verify_responses: [] })).body).toMatchObject({
      ...{ group_level_metrics: [], key_metrics: {} },
    });
  });

  it("whether the service is up may be asked at /, and any answer will do", async () => {
    expect((await test.app.request("/")).status).toBe(404);
  });
});

describe("a rollout of repo-chores", { timeout: 60_000 }, () => {
  it("that searches, edits and commits as the prompt asks is given 1", async () => {
    const family = fileURLToPath(new URL("../tasks/repo-chores", import.meta.url));
    const start = { "app.conf": "port=20\n" };
    const files = { "app.conf": "port=10\n" };
    const history = [{ message: "start", files: start }];
    const task: Task = {
      ...{ id: "atlas-1", family: "repo-chores", project: "atlas", difficulty: 1, kind: "set-value", goal: {} },
      prompt: "Set port to 10 in every file. Commit as port.",
      repository: { commits: history },
      grading: { files, head: { message: "port" }, history },
    };
    const set = taskSetOf([task], { name: "repo-chores", version: 1 }, family);
    const chores = await TestService.open([task], { families: [family], set });
    const rollout = await seeded(task.id, {}, chores);
    const said = [
      await rollout.call("search", { text: "port" }),
      await rollout.call("edit", { path: "app.conf", old: "port=20", new: "port=10" }),
      await rollout.call("commit", { message: "port" }),
    ];
    expect(said).toEqual(["app.conf: port=20", "ok", "ok"]);
    expect((await rollout.verify()).body).toMatchObject({ reward: 1, mask_sample: false });
    const idle = await seeded(task.id, {}, chores);
    expect((await idle.verify()).body).toMatchObject({ reward: 0, mask_sample: false });
    await chores.close();
  });
});
