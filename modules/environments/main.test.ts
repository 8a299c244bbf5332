/** The service as a process: starting, being killed, stopping. Real processes, real signals. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import { FAULTY, faultyTask, taskSetOf } from "./test-service.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const set = taskSetOf([faultyTask("pass", "import time; time.sleep(1); verdict(True)")]);
const USER = 1001;

let folder: string;
let started: ChildProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "service-"));
});
afterEach(async () => {
  for (const child of started) child.kill("SIGKILL");
  started = [];
  rmSync(folder, { recursive: true, force: true });
});

interface Running {
  readonly child: ChildProcess;
  readonly url: string;
  readonly exited: Promise<number | string | null>;
}

function start(words: string[], before: string[] = [], env: NodeJS.ProcessEnv = process.env) {
  const node = [process.execPath, "--import", "tsx", "modules/environments/main.ts", ...words];
  const [program = "", ...rest] = [...before, ...node];
  const child = spawn(program, rest, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  const output = { stdout: "", stderr: "" };
  child.stdout?.on("data", (piece) => (output.stdout += piece));
  child.stderr?.on("data", (piece) => (output.stderr += piece));
  const exited = new Promise<number | string | null>((resolve) =>
    child.once("exit", (code, signal) => resolve(code ?? signal)),
  );
  return { child, output, exited };
}

async function serve(before: string[] = [], data = join(folder, "data")): Promise<Running> {
  const { child, output, exited } = start(["--port", "0", "--data", data, "--families", FAULTY], before);
  let port: string | undefined;
  for (let tries = 0; tries < 600 && port === undefined && child.exitCode === null; tries++) {
    await sleep(50);
    port = /"port":(\d+)[^\n]*"msg":"listening"/.exec(output.stdout)?.[1];
  }
  if (port === undefined) throw new Error(`it did not start: ${output.stdout}${output.stderr}`);
  return { child, url: `http://127.0.0.1:${port}`, exited };
}

async function send(url: string, method: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  const sent =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await fetch(url, { method, ...sent });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
}

/** Every process below this one, as the kernel knows them now. */
function descendants(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      if (fields[0] !== "Z") parents.set(Number(name), Number(fields[1]));
    } catch {
      // Ended while we read.
    }
  }
  const found: number[] = [];
  let last = [pid];
  while (last.length > 0) {
    last = [...parents].filter(([, parent]) => last.includes(parent)).map(([child]) => child);
    found.push(...last);
  }
  return found;
}

const isAlive = (pid: number): boolean => {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

async function waitForEnd(pids: number[]): Promise<number[]> {
  for (let tries = 0; tries < 200 && pids.some(isAlive); tries++) await sleep(25);
  return pids.filter(isAlive);
}

/** Attempts in every state: idle, within a tool, within a grader. */
async function busyService(url: string): Promise<Promise<unknown>[]> {
  const digest = digestJson(set);
  expect((await send(`${url}/v1/task-sets/${digest}`, "PUT", set)).status).toBe(204);
  for (const id of ["idle", "acting", "grading"]) {
    expect((await send(`${url}/v1/attempts`, "POST", { taskSet: digest, taskId: "pass", id })).status).toBe(201);
  }
  const command = { name: "shell", arguments: JSON.stringify({ command: "setsid sleep 60 & sleep 60" }) };
  const hanging = [
    send(`${url}/v1/attempts/acting/tool-calls`, "POST", command),
    send(`${url}/v1/attempts/grading/grade`, "POST"),
  ];
  await sleep(600);
  return hanging.map((request) => request.catch(() => "cut off"));
}

describe("the service's process", { timeout: 120_000 }, () => {
  it("keeps an idle connection for longer than NeMo Gym's client does, which takes 15 s", async () => {
    const { url } = await serve();
    expect((await fetch(`${url}/health`)).headers.get("keep-alive")).toBe("timeout=30");
  });

  it("leaves nothing behind when it is killed with SIGKILL, and the next one goes on", async () => {
    const one = await serve();
    const hanging = await busyService(one.url);
    const all = descendants(one.child.pid ?? 0);
    expect(all.length).toBeGreaterThanOrEqual(3 * 2 + 2);
    one.child.kill("SIGKILL");
    await one.exited;
    expect(await waitForEnd(all)).toEqual([]);
    await Promise.all(hanging);
    const two = await serve();
    expect(await send(`${two.url}/v1/attempts/idle/grade`, "POST")).toMatchObject({ status: 404 });
    const again = { taskSet: digestJson(set), taskId: "pass", id: "idle" };
    expect((await send(`${two.url}/v1/attempts`, "POST", again)).status).toBe(201);
    expect(await send(`${two.url}/v1/attempts/idle/grade`, "POST")).toMatchObject({
      status: 200,
      body: { passed: true },
    });
  });

  it("ends all sandboxes and exits 0 on SIGTERM", async () => {
    const one = await serve();
    const hanging = await busyService(one.url);
    const all = descendants(one.child.pid ?? 0);
    one.child.kill("SIGTERM");
    expect(await one.exited).toBe(0);
    expect(await waitForEnd(all)).toEqual([]);
    await Promise.all(hanging);
  });

  it("says which port is in use and what to do, and exits 1", async () => {
    const one = await serve();
    const port = new URL(one.url).port;
    const two = start(["--port", port, "--data", join(folder, "other"), "--families", FAULTY]);
    expect(await two.exited).toBe(1);
    expect(two.output.stderr).toMatch(
      new RegExp(`127\\.0\\.0\\.1:${port}.*another process listens there.*choose another port.*\\[port-in-use\\]`),
    );
    expect((await send(`${one.url}/health`, "GET")).status).toBe(200);
  });

  it("works as an ordinary user", async (context) => {
    if (process.getuid?.() !== 0) context.skip("these tests run as an ordinary user already");
    const as = ["setpriv", `--reuid=${USER}`, `--regid=${USER}`, "--clear-groups"];
    try {
      execFileSync("setpriv", [...as.slice(1), "test", "-r", join(ROOT, "package.json")]);
    } catch {
      context.skip("an ordinary user may not read this checkout");
    }
    chmodSync(folder, 0o777);
    const one = await serve(as);
    const hanging = await busyService(one.url);
    expect((await Promise.all(hanging))[1]).toMatchObject({ status: 200, body: { passed: true, reward: 1 } });
    const bomb = {
      name: "python",
      arguments: JSON.stringify({
        code: "import os\nmade = 0\ntry:\n  while made < 500:\n    if os.fork() == 0:\n      import time; time.sleep(9)\n    made += 1\nexcept BlockingIOError: out = str(made < 16)",
      }),
    };
    expect(await send(`${one.url}/v1/attempts/idle/tool-calls`, "POST", bomb)).toMatchObject({
      body: { content: "True" },
    });
    const all = descendants(one.child.pid ?? 0);
    one.child.kill("SIGKILL");
    expect(await waitForEnd(all)).toEqual([]);
  });

  it("refuses a machine without bubblewrap, and says what to install", async () => {
    const words = ["--port", "0", "--data", join(folder, "data"), "--families", FAULTY];
    const none = start(words, [], { ...process.env, PATH: folder });
    expect(await none.exited).toBe(1);
    expect(none.output.stderr).toMatch(
      /there is no bwrap on PATH.*apt-get install bubblewrap.*\[sandbox-no-bubblewrap\]/,
    );
  });

  it("refuses a machine that lets nobody make namespaces, with bubblewrap's reason and the remedy", async () => {
    const words = ["--port", "0", "--data", join(folder, "data"), "--families", FAULTY];
    // A user namespace has its own limit of namespaces within it; none is what such a machine allows.
    const closed = ["unshare", "--user", "--map-root-user", "sh", "-c"];
    const refused = start(words, [...closed, 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" "$@"']);
    expect(await refused.exited).toBe(1);
    expect(refused.output.stderr).toMatch(
      /Creating new namespace failed.*sysctl user\.max_user_namespaces.*\[sandbox-refused\]/s,
    );
  });

  it("works as root of a user namespace that has no other users, as in a rootless container", async () => {
    const one = await serve(["unshare", "--user", "--map-root-user"]);
    const hanging = await busyService(one.url);
    expect((await Promise.all(hanging))[1]).toMatchObject({ status: 200, body: { passed: true } });
  });

  it("refuses wrong words on its command line", async () => {
    const none = start([]);
    expect(await none.exited).toBe(1);
    expect(none.output.stderr).toMatch(/--port/);
    const port = start(["--port", "70000", "--data", folder, "--families", FAULTY]);
    expect(await port.exited).toBe(1);
    expect(port.output.stderr).toMatch(/whole number from 0 to 65535/);
    const family = start(["--port", "0", "--data", folder, "--families", folder]);
    expect(await family.exited).toBe(1);
    expect(family.output.stderr).toMatch(/it has no family\.json.*\[family-incomplete\]/);
  });
});
