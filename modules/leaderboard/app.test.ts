import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import { Hono } from "hono";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { ErrorBody, UserError } from "../../schemas/error.ts";
import { Leaderboard } from "../../schemas/leaderboard.ts";
import { apiNotFound, leaderboardApp } from "./app.ts";
import { evaluationOf, trajectoryOf } from "./fixture.ts";
import { migrations } from "./store.ts";

const base = evaluationOf({ model: "base", marks: { a: "pf", b: "ff" } });
const objects = new Map<string, string>();
const store = {
  async get(key: string) {
    const object = objects.get(key);
    if (object !== undefined) return new TextEncoder().encode(object);
    throw new UserError({
      code: "object-missing",
      path: key,
      asked: "it",
      found: "none",
      allowed: "any",
      todo: "put it",
    });
  },
};

const Description = z.object({ paths: z.record(z.string(), z.unknown()) });

let app: ReturnType<typeof leaderboardApp>;
const post = (body: unknown) =>
  app.request("/api/evaluations", {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
const errorOf = async (response: Response) => [response.status, ErrorBody.parse(await response.json()).error.code];

const client = new PGlite();

beforeEach(async () => {
  await client.exec("DROP TABLE IF EXISTS leaderboard_evaluations; DROP FUNCTION IF EXISTS leaderboard_append_only");
  for (const migration of migrations) await client.exec(migration.sql);
  app = leaderboardApp({ db: drizzle(client), store });
  objects.clear();
});

describe("the leaderboard's API", () => {
  it("publishes once, and says so", async () => {
    expect(await (await app.request("/api/leaderboard")).json()).toEqual({ schemaVersion: 1, boards: [] });
    expect((await post(base)).status).toBe(201);
    const again = await post(base);
    expect([again.status, await again.json()]).toEqual([200, { id: base.id, published: false }]);
    const { boards } = Leaderboard.parse(await (await app.request("/api/leaderboard")).json());
    expect(boards[0]?.rows[0]?.evaluationId).toBe(base.id);
    expect(await (await app.request(`/api/evaluations/${base.id}`)).json()).toEqual(base);
  });

  it("answers what cannot be published with a code and a status", async () => {
    await post(base);
    expect(await errorOf(await post({ ...base, startedAt: "2026-11-29T10:00:00.000Z" }))).toEqual([
      409,
      "evaluation-differs",
    ]);
    expect(await errorOf(await post({ ...base, results: base.results.slice(1) }))).toEqual([
      422,
      "evaluation-incomplete",
    ]);
    expect(await errorOf(await post({ id: "x" }))).toEqual([400, "request-malformed"]);
    expect(await errorOf(await post("{"))).toEqual([400, "request-malformed"]);
  });

  it("answers a path that it does not have in the same shape, alone and beside other apps", async () => {
    const beside = new Hono()
      .route("/", app)
      .all("/api/*", apiNotFound)
      .get("*", (context) => context.text("a page"));
    for (const one of [app, beside])
      expect(await errorOf(await one.request("/api/nowhere", { method: "POST" }))).toEqual([404, "route-unknown"]);
    expect((await beside.request("/api/leaderboard")).status).toBe(200);
    expect(await (await beside.request("/nowhere")).text()).toBe("a page");
  });

  it("answers its own mistakes in the same shape, as worth another try, and logs the stack", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    await client.exec("DROP TABLE leaderboard_evaluations");
    const response = await app.request("/api/leaderboard");
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({
      error: { code: "defect", message: expect.not.stringContaining("leaderboard_evaluations"), infrastructure: true },
    });
    expect(logged).toHaveBeenCalledWith(expect.any(Error));
    logged.mockRestore();
  });

  it("gives the trace of an attempt out of the object store", async () => {
    await post(base);
    objects.set("traces/a/1.json", JSON.stringify(trajectoryOf("a", 1)));
    const response = await app.request(`/api/evaluations/${base.id}/attempts/a/1`);
    expect([response.status, await response.json()]).toEqual([200, trajectoryOf("a", 1)]);
  });

  it("tells apart what is unknown, lost and corrupt", async () => {
    await post(base);
    const trace = async (path: string) => errorOf(await app.request(`/api/evaluations/${path}`));
    expect(await trace("eval-000000000000")).toEqual([404, "evaluation-unknown"]);
    expect(await trace(`${base.id}/attempts/a/7`)).toEqual([404, "attempt-unknown"]);
    expect(await trace(`${base.id}/attempts/a/x`)).toEqual([400, "request-malformed"]);
    expect(await trace(`${base.id}/attempts/a/0`)).toEqual([404, "object-missing"]);
    objects.set("traces/a/0.json", JSON.stringify(trajectoryOf("b", 0)));
    expect(await trace(`${base.id}/attempts/a/0`)).toEqual([500, "trace-corrupt"]);
    objects.set("traces/a/0.json", "half a tra");
    expect(await trace(`${base.id}/attempts/a/0`)).toEqual([500, "trace-corrupt"]);
  });

  it("describes itself", async () => {
    const description = Description.parse(await (await app.request("/api/openapi.json")).json());
    expect(Object.keys(description.paths)).toEqual([
      "/api/leaderboard",
      "/api/evaluations/{id}",
      "/api/evaluations/{id}/attempts/{task}/{attempt}",
      "/api/evaluations",
    ]);
    expect(JSON.stringify(description.paths["/api/leaderboard"])).toContain('"tasksBetter":{"type":"integer"');
  });
});
