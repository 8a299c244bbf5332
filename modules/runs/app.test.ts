import { appendFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import type { Job } from "../../schemas/job.ts";
import type { Plan } from "../../schemas/plan.ts";
import { Run } from "../../schemas/run.ts";
import { runsApp } from "./app.ts";
import { planWith, snapshot } from "./fixture.ts";
import { Layout } from "./layout.ts";
import { migrations, RunStore } from "./store.ts";

const collect: Job = {
  id: "collect",
  kind: "collect",
  needs: [],
  expert: "1",
  splits: [],
  attempts: 1,
  seed: 0,
  concurrency: 1,
};
const plan = planWith([collect]);
let home: string;
let client: PGlite;
let store: RunStore;
let layout: Layout;
let app: ReturnType<typeof runsApp>;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "uplift-runs-"));
  client = new PGlite();
  await client.exec(migrations.map(({ sql }) => sql).join("\n"));
  store = new RunStore(drizzle(client));
  layout = new Layout(home);
  app = runsApp({ store, layout });
});
beforeEach(() => client.exec("truncate runs, run_steps"));
afterAll(async () => {
  await client.close();
  await rm(home, { recursive: true, force: true });
});

const post = (body: unknown) =>
  app.request("/api/runs", {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
const submit = (id: string, more: object = {}) => post({ id, plan, snapshot, ...more });
const codeOf = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code;

describe("the runs API", () => {
  it("takes a plan and gives back a run with a pending step for each job", async () => {
    const response = await submit("run-a");
    expect(response.status).toBe(201);
    const run = Run.parse(await response.json());
    expect(run).toMatchObject({ id: "run-a", recipe: "fixture", state: "running", plan: { digest: plan.digest } });
    expect(run.steps).toMatchObject([{ id: "collect", state: "pending", tries: 0 }]);
  });

  it("takes only plans that can be run where it is", async () => {
    const accept = ({ name }: Plan) => {
      throw new UserError({ code: "elsewhere", path: name, asked: "a", found: "b", allowed: "c", todo: "d" });
    };
    const picky = runsApp({ store, layout, accept });
    const request = { method: "POST", body: JSON.stringify({ id: "run-a", plan, snapshot }) };
    const refused = await picky.request("/api/runs", request);
    expect([refused.status, await codeOf(refused)]).toEqual([422, "elsewhere"]);
    expect(await (await app.request("/api/runs")).json()).toMatchObject({ total: 0 });
  });

  it("makes one run of a request that is sent twice", async () => {
    await submit("run-a");
    expect((await submit("run-a")).status).toBe(201);
    expect(await (await app.request("/api/runs")).json()).toMatchObject({ total: 1 });
  });

  it("refuses the same plan with the same code while it runs, unless told to", async () => {
    await submit("run-a");
    const refused = await submit("run-b");
    expect(refused.status).toBe(409);
    const text = JSON.stringify(await refused.json());
    expect(text).toContain("run-exists");
    expect(text).toContain("run-a");
    expect((await submit("run-b", { again: true })).status).toBe(201);
  });

  it("refuses a plan whose content is not what its digest says", async () => {
    const response = await submit("run-a", { plan: { ...plan, name: "another" } });
    expect([response.status, await codeOf(response)]).toEqual([422, "plan-differs"]);
  });

  it("answers a malformed submission with what is wrong and keeps nothing of it", async () => {
    expect((await post({ id: "run-a" })).status).toBe(422);
    expect((await app.request("/api/runs", { method: "POST", body: "{" })).status).toBe(422);
    expect(await (await app.request("/api/runs")).json()).toMatchObject({ total: 0 });
  });

  it("lists runs newest first, a page at a time", async () => {
    for (const id of ["run-a", "run-b", "run-c"]) await submit(id, { again: true });
    const page = (await (await app.request("/api/runs?offset=1&limit=1")).json()) as { runs: Run[]; total: number };
    expect(page.total).toBe(3);
    expect(page.runs).toHaveLength(1);
    expect((await app.request("/api/runs?limit=100000")).status).toBe(422);
  });

  it("lists runs that another version wrote, says so when asked for one, and goes on with all others", async () => {
    await submit("run-a");
    await client.query(`update runs set plan = plan - 'measurementKey'`);
    await submit("run-b");
    const list = (await (await app.request("/api/runs")).json()) as { runs: Run[] };
    expect(list.runs.map(({ id }) => id)).toEqual(["run-b", "run-a"]);
    const old = await app.request("/api/runs/run-a");
    expect([old.status, await codeOf(old)]).toEqual([410, "run-unreadable"]);
    const { runs, unreadable } = await store.active();
    expect([runs.map(({ id }) => id), unreadable.length]).toEqual([["run-b"], 1]);
  });

  it("finds the run of an id, and the runs of a recipe newest first", async () => {
    for (const id of ["run-a", "run-b"]) await submit(id, { again: true });
    await client.query(`update runs set created_at = '2026-01-01T00:00:00.000Z' where id = 'run-b'`);
    await store.setState("run-a", "failed", "x", new Date().toISOString());
    expect(await store.named("run-b")).toEqual([{ id: "run-b", recipe: "fixture", state: "running" }]);
    expect((await store.named("fixture")).map(({ id, state }) => `${id} ${state}`)).toEqual([
      "run-a failed",
      "run-b running",
    ]);
    expect(await store.named("run-c")).toEqual([]);
  });

  it("cancels a running run once and says that an ended one has ended", async () => {
    await submit("run-a");
    const cancelled = Run.parse(await (await app.request("/api/runs/run-a/cancel", { method: "POST" })).json());
    expect(cancelled.state).toBe("cancelling");
    await store.setState("run-a", "cancelled", null, new Date().toISOString());
    const again = await app.request("/api/runs/run-a/cancel", { method: "POST" });
    expect([again.status, await codeOf(again)]).toEqual([409, "run-ended"]);
  });

  it("knows no run or step that there is not", async () => {
    await submit("run-a");
    expect(await codeOf(await app.request("/api/runs/other"))).toBe("run-unknown");
    expect(await codeOf(await app.request("/api/runs/run-a/log/other"))).toBe("step-unknown");
  });

  it("gives a log from an offset on, whole lines first, and where to go on", async () => {
    await submit("run-a");
    const path = layout.log("run-a", "collect");
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, "eins\nzwéi\ndr");
    const first = await app.request("/api/runs/run-a/log/collect");
    expect(await first.text()).toBe("eins\nzwéi\n");
    const next = first.headers.get("x-next-offset");
    expect(next).toBe("11");
    const second = await app.request(`/api/runs/run-a/log/collect?offset=${next}`);
    expect(await second.text()).toBe("dr");
    const empty = await app.request("/api/runs/run-a/log/collect?offset=13");
    expect([await empty.text(), empty.headers.get("x-next-offset")]).toEqual(["", "13"]);
  });
});

describe("the counts of runs", () => {
  it("are by state, and of steps that wait in runs under way only", async () => {
    expect(await store.counts()).toEqual({ runs: {}, waitingSteps: 0 });
    for (const id of ["run-a", "run-b", "run-c"]) await submit(id, { again: true });
    const [step] = (await store.get("run-a")).steps;
    if (step) await store.saveStep("run-a", { ...step, state: "running" });
    await store.setState("run-c", "failed", "it broke", "2026-11-29T12:00:00.000Z");
    expect(await store.counts()).toEqual({ runs: { running: 2, failed: 1 }, waitingSteps: 1 });
  });
});
