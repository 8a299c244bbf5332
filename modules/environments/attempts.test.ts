/** An attempt's life over HTTP: creating, acting, grading, ending, with the real sandboxes of the fixture family. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import { Attempt, Grade, Health } from "../../schemas/environment.ts";
import { FAULTY, faultyTask, TestService, taskSetOf } from "./test-service.ts";

let test: TestService;
const tasks = [
  faultyTask("pass", "verdict(True)"),
  faultyTask("fail", "verdict(False, 'wrong-content')"),
  faultyTask("crash", "raise ValueError('bad spec')"),
  faultyTask("hang", "import time; time.sleep(60)"),
  faultyTask("garbage", "print('all good')"),
  faultyTask("exit", "import sys; print('{}'); sys.exit(4)"),
  faultyTask("shape", "print(json.dumps({'passed': 1, 'reasons': []}))"),
  faultyTask("content", "verdict((root / 'a.txt').read_text() == 'two\\n')"),
];

beforeAll(async () => {
  test = await TestService.open(tasks, { maxAttempts: 8 });
}, 60_000);
afterAll(() => test.close());

const error = (status: number, code: string, infrastructure: boolean) => ({
  status,
  body: { error: { code, infrastructure, message: expect.any(String) } },
});

describe("creating an attempt", { timeout: 60_000 }, () => {
  it("answers the prompt and the tools, and nothing of goal or grading", async () => {
    const answer = await test.create("pass", "c1");
    expect(answer.status).toBe(201);
    const attempt = Attempt.strict().parse(answer.body);
    expect(attempt.messages).toEqual([{ role: "user", content: "Do pass." }]);
    expect(attempt.tools.map((tool) => tool.function.name)).toEqual(["python", "refuse", "shell"]);
    expect(JSON.stringify(answer.body)).not.toMatch(/verdict|hint/);
    await test.request("DELETE", "/v1/attempts/c1");
  });

  it("gives a retried request the same attempt, also while the first is on its way", async () => {
    const before = test.service.attempts.count;
    const [one, two] = await Promise.all([test.create("pass", "c2"), test.create("pass", "c2")]);
    const three = await test.create("pass", "c2");
    expect(one.status).toBe(201);
    expect(two.body).toEqual(one.body);
    expect(three.body).toEqual(one.body);
    expect(test.service.attempts.count).toBe(before + 1);
    await test.request("DELETE", "/v1/attempts/c2");
  });

  it("refuses an id that is in use for another task, or in which something was done", async () => {
    await test.create("pass", "c3");
    expect(await test.create("fail", "c3")).toMatchObject(error(409, "attempt-in-use", false));
    await test.shell("c3", "true");
    expect(await test.create("pass", "c3")).toMatchObject(error(409, "attempt-in-use", false));
    await test.request("DELETE", "/v1/attempts/c3");
    expect((await test.create("pass", "c3")).status).toBe(201);
    await test.grade("c3");
    expect(await test.create("pass", "c3")).toMatchObject(error(409, "attempt-graded", false));
  });

  it("refuses what it does not know", async () => {
    expect(await test.create("none", "c4")).toMatchObject(error(404, "task-unknown", false));
    const taskSet = digestJson("other");
    const body = { taskSet, taskId: "pass", id: "c4" };
    expect(await test.request("POST", "/v1/attempts", body)).toMatchObject(error(404, "task-set-unknown", false));
    expect(await test.create("pass", "../x")).toMatchObject(error(400, "bad-request", false));
    expect(await test.request("POST", "/v1/attempts", "text")).toMatchObject(error(400, "bad-request", false));
    const cut = await test.app.request("/v1/attempts", {
      ...{ method: "POST", body: "{", headers: { "content-type": "application/json" } },
    });
    expect({ status: cut.status, body: await cut.json() }).toMatchObject(error(400, "bad-request", false));
  });

  it("refuses more than it has places for, as nobody's fault, and takes again when one ends", async () => {
    const free = 8 - test.service.attempts.count;
    const ids = Array.from({ length: free + 3 }, (_, index) => `full-${index}`);
    const answers = await Promise.all(ids.map((id) => test.create("pass", id)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(free);
    const refused = answers.filter(({ status }) => status !== 201);
    expect(refused[0]).toMatchObject(error(429, "attempts-full", true));
    expect(refused[0]?.headers.get("retry-after")).toBe("1");
    await Promise.all(ids.map((id) => test.request("DELETE", `/v1/attempts/${id}`)));
    expect((await test.create("pass", "after")).status).toBe(201);
    await test.request("DELETE", "/v1/attempts/after");
  });
});

describe("a tool call", { timeout: 60_000 }, () => {
  beforeAll(() => test.create("pass", "t1"));
  afterAll(() => test.request("DELETE", "/v1/attempts/t1"));

  it.each([
    ["no JSON", "{"],
    ["an array", "[]"],
    ["null", "null"],
    ["a missing argument", "{}"],
    ["an unknown argument", '{"why":"x","path":"y"}'],
    ["an argument that is no text", '{"why":1}'],
    ["an argument of every object", '{"why":"x","__proto__":{}}'],
  ])("with %s as arguments is answered as malformed", async (_, given) => {
    const answer = await test.call("t1", "refuse", given);
    expect(answer).toMatchObject({
      status: 200,
      body: { content: "error: bad arguments", status: "malformed-arguments" },
    });
  });

  it("of a tool that does not exist is answered", async () => {
    const answer = await test.call("t1", "constructor", {});
    expect(answer.body).toEqual({ content: "error: no tool", status: "unknown-tool" });
  });

  it("may leave out what is not required", async () => {
    expect(await test.python("t1", "out = note or 'none'")).toEqual({ content: "none", status: "ok" });
    expect((await test.call("t1", "python", { code: "out = note", note: "n" })).body.content).toBe("n");
  });

  it("waits for the one before it", async () => {
    const calls = [0, 1, 2, 3].map((n) => test.shell("t1", `sleep 0.${3 - n}; echo ${n} >> log`));
    await Promise.all(calls);
    expect(await test.shell("t1", "tr -d '\\n' < log")).toBe("0123exit 0");
  });

  it("on an attempt that is not there is no answer of a tool", async () => {
    expect(await test.call("nobody", "shell", { command: "true" })).toMatchObject(error(404, "attempt-unknown", false));
    await test.create("pass", "t2");
    expect((await test.request("DELETE", "/v1/attempts/t2")).status).toBe(204);
    expect((await test.request("DELETE", "/v1/attempts/t2")).status).toBe(204);
    expect(await test.call("t2", "shell", { command: "true" })).toMatchObject(error(410, "attempt-ended", false));
    expect(await test.grade("t2")).toMatchObject(error(410, "attempt-ended", false));
  });
});

describe("a grade", { timeout: 60_000 }, () => {
  it("is of the files the attempt left, and the same for every later call", async () => {
    await test.create("content", "g1");
    await test.shell("g1", "echo two > a.txt");
    const [one, two] = await Promise.all([test.grade("g1"), test.grade("g1")]);
    expect(Grade.parse(one.body)).toEqual({ passed: true, reward: 1, reasons: [], violations: [] });
    expect(two.body).toEqual(one.body);
    expect((await test.grade("g1")).body).toEqual(one.body);
    expect(await test.call("g1", "shell", { command: "true" })).toMatchObject(error(410, "attempt-ended", false));
    expect((await test.request("DELETE", "/v1/attempts/g1")).status).toBe(204);
    expect((await test.grade("g1")).body).toEqual(one.body);
  });

  it("says why an attempt failed", async () => {
    await test.create("fail", "g2");
    expect((await test.grade("g2")).body).toEqual({
      passed: false,
      reward: 0,
      reasons: ["wrong-content"],
      violations: [],
    });
  });

  it.each([
    ["crash", /ended with code 1; it said last: [\s\S]*ValueError: bad spec/],
    ["hang", /did not end within 4 s/],
    ["garbage", /printed no JSON line but "all good\\n"/],
    ["exit", /ended with code 4/],
    ["shape", /not \{"passed", "reasons"\}/],
  ])(
    "whose grader does %s is the infrastructure's failure, every time, and never a wrong answer",
    async (task, message) => {
      await test.create(task, `g-${task}`);
      for (let time = 0; time < 2; time++) {
        const answer = await test.grade(`g-${task}`);
        expect(answer).toMatchObject(error(503, "grader-failed", true));
        expect(answer.body.error.message).toMatch(message);
      }
      await test.request("DELETE", `/v1/attempts/g-${task}`);
    },
  );

  it("records what tried to reach out of the repository", async () => {
    await test.create("pass", "g3");
    await test.call("g3", "refuse", { why: "/etc/passwd" });
    await test.call("g3", "refuse", { why: "/etc/passwd" });
    await test.call("g3", "nothing", { path: "a/../../b" });
    await test.call("g3", "shell", { command: "cat /grader/spec.json" });
    await test.call("g3", "refuse", { why: "no harm..." });
    expect((await test.grade("g3")).body.violations).toEqual([
      'refuse.why: "/etc/passwd" is an absolute path',
      'nothing.path: "a/../../b" leaves the repository',
      'shell.command: "cat /grader/spec.json" names the grader',
    ]);
  });

  it("is a wrong answer when the attempt left no repository to read, or too much of one", async () => {
    await test.create("pass", "g4");
    await test.shell("g4", "cd / && rm -rf /work/repo");
    expect((await test.grade("g4")).body).toMatchObject({ passed: false, reasons: ["repository-unreadable"] });
    await test.create("pass", "g5");
    const many = "for i in range(9000): (root / ('n' * 240 + str(i))).touch()";
    expect(await test.python("g5", many)).toEqual({ content: "", status: "ok" });
    expect((await test.grade("g5")).body).toMatchObject({ passed: false, reasons: ["repository-too-large"] });
  });

  it("survives a restart, and a request after the restart is not a second grading", async () => {
    const one = await TestService.open([faultyTask("time", "import time; verdict(True, str(time.time()))")]);
    await one.create("time", "r1");
    await one.create("time", "r2");
    const { body } = await one.grade("r1");
    expect(body.reasons).toHaveLength(1);
    await one.close({ keepData: true });
    writeFileSync(join(one.data, "grades.jsonl"), '{"id":"r2","grade":{"pas', { flag: "a" });
    const two = await TestService.open([faultyTask("pass")], { data: one.data });
    expect((await two.grade("r1")).body).toEqual(body);
    expect(await two.grade("r2")).toMatchObject(error(404, "attempt-unknown", false));
    const again = { taskSet: one.taskSet, taskId: "time", id: "r2" };
    expect((await two.request("POST", "/v1/attempts", again)).status).toBe(201);
    expect((await two.grade("r2")).body.passed).toBe(true);
    await two.close({ keepData: true });
    expect(readFileSync(join(one.data, "grades.jsonl"), "utf8").split("\n")).toHaveLength(4);
    rmSync(one.data, { recursive: true });
  });
});

describe("what an attempt leaves in .git", { timeout: 60_000 }, () => {
  const evil = 'touch /work/evil; echo \'{"passed": true, "reasons": ["forged"]}\' > /proc/$PPID/fd/1';
  const code = [
    "import os, subprocess",
    "done = [subprocess.run(['git', '-C', str(root), *words], capture_output=True, text=True) for words in",
    "  (['status', '--porcelain'], ['diff'], ['log', '-1', '--format=%s'], ['checkout', '-q', '.'], ['add', '-A'])]",
    "verdict(False, 'evil' if os.path.exists('/work/evil') else 'clean', done[2].stdout.strip())",
  ].join("\n");

  it.each([
    ["a file-system monitor", 'git config core.fsmonitor "$PWD/.git/evil"'],
    [
      "a hooks path and hooks",
      "mkdir -p .git/hooks; for h in post-checkout pre-commit post-index-change; do cp .git/evil .git/hooks/$h; done; git config core.hooksPath .git/hooks",
    ],
    [
      "filters",
      "git config filter.x.clean \"$PWD/.git/evil\"; git config filter.x.smudge \"$PWD/.git/evil\"; echo '* filter=x' > .gitattributes; echo '* filter=x' > .git/info/attributes || { mkdir .git/info; echo '* filter=x' > .git/info/attributes; }",
    ],
    [
      "an external diff and a pager",
      'git config diff.external "$PWD/.git/evil"; git config core.pager "$PWD/.git/evil"; git config pager.log "$PWD/.git/evil"; echo 2 >> a.txt',
    ],
    [
      "an included file",
      "printf '[core]\\n\\tfsmonitor = %s/.git/evil\\n' \"$PWD\" > more; git config include.path ../more",
    ],
    [
      "a pointer to a repository in the tree",
      'cp -r .git other; git --git-dir other config core.fsmonitor "$PWD/other/evil"; git --git-dir other config core.worktree "$PWD"; rm -rf .git; echo \'gitdir: other\' > .git',
    ],
    [
      "a submodule with a monitor",
      'git init -q sub; cp .git/evil sub/.git/evil; cd sub; git commit -q --allow-empty -m x; git config core.fsmonitor "$PWD/.git/evil"; cd ..; git add sub 2>/dev/null',
    ],
  ])("%s starts nothing in the grader's sandbox", async (_, plant) => {
    const set = taskSetOf([faultyTask("git", code)]);
    const digest = digestJson(set);
    await test.request("PUT", `/v1/task-sets/${digest}`, set);
    const id = `git-${plant.length}`;
    await test.request("POST", "/v1/attempts", { taskSet: digest, taskId: "git", id });
    const script = `printf '#!/bin/sh\\n%s\\n' ${JSON.stringify(evil).replaceAll("$", "\\$")} > .git/evil; chmod +x .git/evil; ${plant}`;
    expect(await test.shell(id, script)).toMatch(/exit 0$/);
    const { body } = await test.grade(id);
    expect(body).toMatchObject({ passed: false, reasons: ["clean", expect.any(String)] });
  });
});

describe("an attempt that nobody ends", { timeout: 60_000 }, () => {
  it("is ended when its time is up, and its place is free again", async () => {
    const folder = mkdtempSync(join(tmpdir(), "brief-"));
    cpSync(FAULTY, folder, { recursive: true });
    const family = JSON.parse(readFileSync(join(folder, "family.json"), "utf8"));
    family.limits.attemptSeconds = 1.5;
    writeFileSync(join(folder, "family.json"), JSON.stringify(family));
    const brief = await TestService.open([faultyTask("pass")], { families: [folder], maxAttempts: 1 });
    const { body } = await brief.create("pass", "x1");
    expect(Date.parse(body.expiresAt) - Date.now()).toBeLessThan(1600);
    const hanging = brief.call("x1", "shell", { command: "sleep 60" });
    const [pid] = brief.service.pool.pids;
    expect(await hanging).toMatchObject(error(410, "attempt-expired", false));
    expect(await brief.grade("x1")).toMatchObject(error(410, "attempt-expired", false));
    for (let tries = 0; tries < 100 && brief.service.pool.pids.length > 0; tries++) await sleep(50);
    expect(() => process.kill(pid ?? 0, 0)).toThrow("ESRCH");
    expect((await brief.create("pass", "x2")).status).toBe(201);
    await brief.close();
    rmSync(folder, { recursive: true });
  });

  it("is lost, not failed, when its sandbox dies", async () => {
    for (const how of ["call", "grade"] as const) {
      const id = `lost-${how}`;
      const before = new Set(test.service.pool.pids);
      await test.create("pass", id);
      const pid = test.service.pool.pids.find((one) => !before.has(one));
      process.kill(pid ?? 0, "SIGKILL");
      const answer = how === "call" ? await test.call(id, "shell", { command: "true" }) : await test.grade(id);
      expect(answer).toMatchObject(error(503, "sandbox-lost", true));
      expect(await test.grade(id)).toMatchObject(error(503, "sandbox-lost", true));
      expect((await test.create("pass", id)).status).toBe(201);
      expect((await test.grade(id)).body.passed).toBe(true);
    }
  });
});

describe("the service", { timeout: 60_000 }, () => {
  it("says how it is, and has the same digest for the same families wherever they lie", async () => {
    const health = Health.parse((await test.request("GET", "/health")).body);
    const folder = mkdtempSync(join(tmpdir(), "moved-"));
    cpSync(FAULTY, folder, { recursive: true });
    const moved = await TestService.open([faultyTask("pass")], { families: [folder] });
    expect(moved.service.environmentsDigest).toBe(health.environmentsDigest);
    await moved.close();
    writeFileSync(join(folder, "grader.py"), "\n# changed\n", { flag: "a" });
    const changed = await TestService.open([faultyTask("pass")], { families: [folder] });
    expect(changed.service.environmentsDigest).not.toBe(health.environmentsDigest);
    await changed.close();
    rmSync(folder, { recursive: true });
  });

  it("has a digest of each family, which another family beside it does not change", async () => {
    const health = Health.parse((await test.request("GET", "/health")).body);
    expect(Object.keys(health.families)).toEqual(["faulty"]);
    const folder = mkdtempSync(join(tmpdir(), "second-"));
    cpSync(FAULTY, folder, { recursive: true });
    const definition = JSON.parse(readFileSync(join(folder, "family.json"), "utf8"));
    writeFileSync(join(folder, "family.json"), JSON.stringify({ ...definition, name: "second" }));
    const both = await TestService.open([faultyTask("pass")], { families: [FAULTY, folder] });
    const wider = Health.parse((await both.request("GET", "/health")).body);
    expect(wider.families).toEqual({ ...health.families, second: expect.stringMatching(/^sha256:/) });
    expect(wider.families.second).not.toBe(wider.families.faulty);
    expect(wider.environmentsDigest).not.toBe(health.environmentsDigest);
    await both.close();
    rmSync(folder, { recursive: true });
  });

  it("no longer knows a task set once its family's files are others, also after a restart", async () => {
    const folder = mkdtempSync(join(tmpdir(), "edited-"));
    cpSync(FAULTY, folder, { recursive: true });
    const one = await TestService.open([faultyTask("pass")], { families: [folder] });
    await one.close({ keepData: true });
    writeFileSync(join(folder, "grader.py"), "\n# changed\n", { flag: "a" });
    const two = await TestService.open([faultyTask("pass")], { families: [folder], data: one.data });
    const create = { taskSet: one.taskSet, taskId: "pass", id: "pass" };
    expect(await two.request("POST", "/v1/attempts", create)).toMatchObject(error(422, "family-differs", false));
    await two.close();
    rmSync(folder, { recursive: true });
  });

  it("serves its families, and its own description", async () => {
    expect((await test.request("GET", "/v1/families/faulty")).body).toMatchObject({ name: "faulty", version: 3 });
    expect(await test.request("GET", "/v1/families/none")).toMatchObject(error(404, "family-unknown", false));
    expect(await test.request("GET", "/none")).toMatchObject(error(404, "route-unknown", false));
    const { body } = await test.request<{ paths: object }>("GET", "/openapi.json");
    expect(Object.keys(body.paths)).toContain("/v1/attempts/{id}/grade");
  });

  it("refuses a task set that is not what its digest says, not valid, or not of its family's version and files", async () => {
    const set = taskSetOf([faultyTask("pass")]);
    const put = (value: unknown, digest = digestJson(value)) => test.request("PUT", `/v1/task-sets/${digest}`, value);
    expect((await put(set)).status).toBe(204);
    expect((await put(set)).status).toBe(204);
    expect(await put(set, digestJson("other"))).toMatchObject(error(422, "task-set-digest", false));
    expect(await put({ ...set, tasks: 1 })).toMatchObject(error(422, "task-set-invalid", false));
    expect(await put(taskSetOf(set.tasks, { name: "faulty", version: 4 }))).toMatchObject(
      error(422, "family-version", false),
    );
    expect(await put(taskSetOf(set.tasks, { name: "other", version: 3 }))).toMatchObject(
      error(404, "family-unknown", false),
    );
    expect(await put({ ...set, family: { ...set.family, digest: digestJson("edited") } })).toMatchObject(
      error(422, "family-differs", false),
    );
    const strange = set.tasks.map((task) => ({ ...task, family: "other" }));
    expect(await put({ ...set, tasks: strange })).toMatchObject(error(422, "task-set-invalid", false));
    const outside = taskSetOf([faultyTask("out", "verdict(True)", { "../x": "" })]);
    await put(outside);
    const create = { taskSet: digestJson(outside), taskId: "out", id: "out" };
    expect(await test.request("POST", "/v1/attempts", create)).toMatchObject(error(422, "repository-invalid", false));
  });
});
