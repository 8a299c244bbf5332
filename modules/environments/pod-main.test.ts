/** The service as a process whose sandboxes are pods, as deployment.ts starts it: in its environment, killed, drained. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import { TestCluster } from "./test-cluster.ts";
import { settingsOf } from "./test-pods.ts";
import { FAULTY, faultyTask, taskSetOf } from "./test-service.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const isRoot = process.getuid?.() === 0;
const set = taskSetOf([faultyTask("pass")]);

let folder: string;
let cluster: TestCluster;
let started: ChildProcess[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "service-"));
  cluster = await TestCluster.start();
  mkdirSync(join(folder, "account"));
  writeFileSync(join(folder, "account/token"), `${cluster.token}\n`);
  writeFileSync(join(folder, "account/ca.crt"), cluster.certificate);
});
afterEach(async () => {
  for (const child of started) child.kill("SIGKILL");
  started = [];
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** As in its own pod: the addresses in the environment, and no bubblewrap. */
function start(words: string[], environment: NodeJS.ProcessEnv = {}) {
  const env = {
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    KUBERNETES_SERVICE_PORT: String(cluster.port),
    PATH: "/nonexistent",
  };
  const main = ["--import", "tsx", "modules/environments/main.ts", "--port", "0", "--data", join(folder, "data")];
  const all = [...main, "--families", FAULTY, "--sandbox", "kubernetes", "--service-account", join(folder, "account")];
  const child = spawn(process.execPath, [...all, ...words], {
    ...{ cwd: ROOT, env: { ...env, ...environment }, stdio: ["ignore", "pipe", "pipe"] },
  });
  started.push(child);
  const output = { stdout: "", stderr: "" };
  child.stdout?.on("data", (piece) => (output.stdout += piece));
  child.stderr?.on("data", (piece) => (output.stderr += piece));
  const exited = new Promise<number | string | null>((resolve) =>
    child.once("exit", (code, signal) => resolve(code ?? signal)),
  );
  return { child, output, exited };
}

async function serve(words: string[] = []) {
  const running = start(["--pods", JSON.stringify(settingsOf(cluster)), ...words]);
  const port = () => /"port":(\d+)[^\n]*"msg":"listening"/.exec(running.output.stdout)?.[1];
  for (let tries = 0; tries < 600 && port() === undefined && running.child.exitCode === null; tries++) await sleep(50);
  if (port() === undefined) throw new Error(`it did not start: ${running.output.stdout}${running.output.stderr}`);
  const url = `http://127.0.0.1:${port()}`;
  expect((await send(`${url}/v1/task-sets/${digestJson(set)}`, "PUT", set)).status).toBe(204);
  return { ...running, url };
}

async function send(url: string, method: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  const sent =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await fetch(url, { method, ...sent });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
}

const create = (url: string, id: string) =>
  send(`${url}/v1/attempts`, "POST", { taskSet: digestJson(set), taskId: "pass", id });
const grade = (url: string, id: string) => send(`${url}/v1/attempts/${id}/grade`, "POST");

describe.runIf(isRoot)("the service's process, in a cluster", { timeout: 120_000 }, () => {
  it("leaves no running pod when it is killed with SIGKILL, and the next one goes on", async () => {
    const one = await serve();
    expect((await create(one.url, "graded")).status).toBe(201);
    const { body } = await grade(one.url, "graded");
    expect(body).toMatchObject({ passed: true, reward: 1 });
    expect((await create(one.url, "open")).status).toBe(201);
    one.child.kill("SIGKILL");
    await one.exited;
    const phases = () => cluster.pods.map(({ status }) => status?.phase);
    for (let tries = 0; tries < 200 && phases().includes("Running"); tries++) await sleep(50);
    expect(phases()).toEqual(["Succeeded"]);
    const two = await serve();
    expect(cluster.pods).toEqual([]);
    expect(await grade(two.url, "graded")).toEqual({ status: 200, body });
    expect((await grade(two.url, "open")).status).toBe(404);
    expect((await create(two.url, "open")).status).toBe(201);
    expect(await grade(two.url, "open")).toMatchObject({ status: 200, body: { passed: true } });
  });

  it("lets its attempts end after SIGTERM, takes no new ones, and exits 0 without a pod left", async () => {
    const one = await serve(["--drain-seconds", "60"]);
    await create(one.url, "a");
    one.child.kill("SIGTERM");
    await sleep(500);
    expect(await create(one.url, "b")).toMatchObject({ status: 503, body: { error: { code: "service-stopping" } } });
    expect(await grade(one.url, "a")).toMatchObject({ status: 200, body: { passed: true, reward: 1 } });
    expect(await one.exited).toBe(0);
    expect(cluster.pods).toEqual([]);
  });

  it("ends at once at a second SIGTERM, and its pods with it", async () => {
    const one = await serve(["--drain-seconds", "60"]);
    await create(one.url, "a");
    one.child.kill("SIGTERM");
    await sleep(300);
    one.child.kill("SIGTERM");
    expect(await one.exited).toBe(0);
    expect(cluster.pods).toEqual([]);
  });

  it("answers metrics on a port that answers nothing else", async () => {
    const port = 20_000 + (process.pid % 10_000);
    const one = await serve(["--metrics-port", String(port)]);
    await create(one.url, "a");
    const metrics = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await metrics.text()).toContain("\nuplift_environments_attempts_live 1\n");
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(404);
    expect((await fetch(`http://127.0.0.1:${port}/v1/attempts/a/grade`, { method: "POST" })).status).toBe(404);
  });

  it("refuses to start outside of a pod, and with settings that are none", async () => {
    const outside = start(["--pods", JSON.stringify(settingsOf(cluster))], { KUBERNETES_SERVICE_HOST: undefined });
    expect(await outside.exited).toBe(1);
    expect(outside.output.stderr).toMatch(/in no pod with a service account.*\[kubernetes-not-inside\]/);
    const unset = start(["--pods", '{"namespace": "x"}']);
    expect(await unset.exited).toBe(1);
    expect(unset.output.stderr).toMatch(/--pods: image.*\[pod-settings-invalid\]/);
    const missing = start([]);
    expect(await missing.exited).toBe(1);
    expect(missing.output.stderr).toMatch(/\[pod-settings-invalid\]/);
  });
});
