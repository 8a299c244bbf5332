import type { AddressInfo } from "node:net";
import { type ServerType, serve } from "@hono/node-server";
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Attempt, CallTool, CreateAttempt } from "../../schemas/environment.ts";
import type { ErrorBody, UserError } from "../../schemas/error.ts";
import type { TaskSet } from "../../schemas/task.ts";
import { connectHttpEnvironment, type HttpEnvironment } from "./http-environment.ts";
import { buildTaskSet, taskSetDigest } from "./task-set.ts";

// Seconds of work on an idle machine; the limit is for a busy one.
vi.setConfig({ testTimeout: 60_000 });

const taskSet: TaskSet = await buildTaskSet({ family: "repo-chores", seed: 7, tasks: 40, heldOut: 6, validation: 3 });
const digest = taskSetDigest(taskSet);
const errorBody = (code: string, infrastructure: boolean): ErrorBody => ({
  error: { code, message: `it is ${code}`, infrastructure },
});

/** What the next requests are answered with, instead of success: a status and body, or a cut connection. */
type Fault = { status: 404 | 409 | 410 | 422 | 429 | 500 | 503; body: ErrorBody | string } | "cut";

let requests: string[];
let faults: Fault[];
let server: ServerType;
let url: string;
let client: HttpEnvironment | null;

beforeEach(async () => {
  requests = [];
  faults = [];
  client = null;
  const app = new Hono<{ Bindings: { outgoing: import("node:http").ServerResponse } }>();
  app.use(async (c, next) => {
    requests.push(`${c.req.method} ${c.req.path}`);
    const fault = faults.shift();
    if (!fault) return next();
    if (fault === "cut") {
      c.env.outgoing.destroy();
      return c.body(null);
    }
    return typeof fault.body === "string" ? c.text(fault.body, fault.status) : c.json(fault.body, fault.status);
  });
  app.put("/v1/task-sets/:digest", (c) => c.body(null, 204));
  app.post("/v1/attempts", async (c) => {
    const { id, taskId } = CreateAttempt.parse(await c.req.json());
    return c.json(Attempt.parse({ id, taskId, messages: [], tools: [], expiresAt: "2026-01-01T00:00:00Z" }), 201);
  });
  app.post("/v1/attempts/:id/tool-calls", async (c) => {
    const { name } = CallTool.parse(await c.req.json());
    return c.json({ content: `${name} done`, status: "ok" });
  });
  app.post("/v1/attempts/:id/grade", (c) => c.json({ passed: true, reward: 1, reasons: [], violations: [] }));
  app.delete("/v1/attempts/:id", (c) => c.body(null, 204));
  await new Promise<void>((resolve) => {
    server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () => resolve());
  });
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  await client?.close();
  await new Promise((resolve) => server.close(resolve));
});

async function connect(): Promise<HttpEnvironment> {
  client = await connectHttpEnvironment({ url: `${url}/`, taskSet, tries: 3, firstPauseMilliseconds: 1 });
  requests.length = 0;
  return client;
}

describe("connectHttpEnvironment", () => {
  it("registers the task set, then speaks the contract", async () => {
    client = await connectHttpEnvironment({ url, taskSet });
    expect(client.taskSet).toBe(digest);
    expect(await client.createAttempt({ taskId: "t", id: "a" })).toMatchObject({ id: "a", taskId: "t" });
    expect(await client.callTool("a", { name: "search", arguments: "{}" })).toEqual({
      content: "search done",
      status: "ok",
    });
    expect(await client.grade("a")).toMatchObject({ passed: true });
    await client.end("a");
    expect(requests).toEqual([
      `PUT /v1/task-sets/${digest}`,
      "POST /v1/attempts",
      "POST /v1/attempts/a/tool-calls",
      "POST /v1/attempts/a/grade",
      "DELETE /v1/attempts/a",
    ]);
  });

  it("waits for a free sandbox", async () => {
    const environment = await connect();
    faults = [
      { status: 429, body: errorBody("attempts-full", true) },
      { status: 429, body: "busy" },
    ];
    await environment.createAttempt({ taskId: "t", id: "a" });
    expect(requests).toHaveLength(3);
  });

  it("gives up after the asked number of tries, and says what failed", async () => {
    const environment = await connect();
    faults = Array.from({ length: 5 }, () => ({ status: 503, body: errorBody("grader-failed", true) }));
    await expect(environment.grade("a")).rejects.toMatchObject({ code: "grader-failed", unreachable: false });
    expect(requests).toHaveLength(3);
  });

  it("grades again after a cut connection, since grading twice gives the same grade", async () => {
    const environment = await connect();
    faults = ["cut", { status: 500, body: "a gateway's page" }];
    expect(await environment.grade("a")).toMatchObject({ passed: true });
    expect(requests).toHaveLength(3);
  });

  it.each<[string, Fault, string]>([
    ["a cut connection", "cut", "connection-lost"],
    ["a dead sandbox", { status: 503, body: errorBody("sandbox-lost", true) }, "sandbox-lost"],
    ["a service that crashed inside", { status: 500, body: "oops" }, "environment-error"],
  ])("never sends a tool call twice: %s costs the attempt", async (_, fault, code) => {
    const environment = await connect();
    faults = [fault];
    await expect(environment.callTool("a", { name: "edit", arguments: "{}" })).rejects.toMatchObject({
      code,
      unreachable: false,
    });
    expect(requests).toHaveLength(1);
  });

  it.each([404, 410] as const)("takes an attempt that is gone (%i) for the infrastructure's fault", async (status) => {
    const environment = await connect();
    const gone: Fault = { status, body: errorBody("attempt-unknown", false) };
    faults = [gone, gone, gone];
    await expect(environment.callTool("a", { name: "edit", arguments: "{}" })).rejects.toMatchObject({
      code: "attempt-lost",
    });
    await expect(environment.grade("a")).rejects.toMatchObject({ code: "attempt-lost" });
    await environment.end("a");
  });

  it("hands the task set over again to a service that has forgotten it", async () => {
    const environment = await connect();
    faults = [{ status: 404, body: errorBody("task-set-unknown", false) }];
    await environment.createAttempt({ taskId: "t", id: "a" });
    expect(requests).toEqual(["POST /v1/attempts", `PUT /v1/task-sets/${digest}`, "POST /v1/attempts"]);
  });

  it("says that the service refuses the task set", async () => {
    faults = [{ status: 422, body: errorBody("family-version", false) }];
    const refused = connectHttpEnvironment({ url, taskSet }).catch((error: UserError) => error.code);
    expect(await refused).toBe("task-set-refused");
  });

  it("throws a defect where the contract is broken", async () => {
    const environment = await connect();
    faults = [{ status: 409, body: errorBody("attempt-in-use", false) }];
    await expect(environment.createAttempt({ taskId: "t", id: "a" })).rejects.toThrow("409");
    faults = [{ status: 422, body: "{}" }];
    await expect(environment.grade("a")).rejects.not.toHaveProperty("unreachable");
  });

  it("tells an unreachable service, also for calls that are never repeated", async () => {
    const environment = await connect();
    await new Promise((resolve) => server.close(resolve));
    const unreachable = { code: "unreachable", unreachable: true };
    await expect(environment.grade("a")).rejects.toMatchObject(unreachable);
    await expect(environment.callTool("a", { name: "edit", arguments: "{}" })).rejects.toMatchObject(unreachable);
    await expect(connectHttpEnvironment({ url, taskSet, tries: 2, firstPauseMilliseconds: 1 })).rejects.toMatchObject(
      unreachable,
    );
  });
});
