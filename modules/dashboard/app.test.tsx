import { describe, expect, it } from "vitest";
import type { Leaderboard } from "../../schemas/leaderboard.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { dashboardApp } from "./app.tsx";
import type { DashboardData } from "./data.ts";
import { fixtureData, fixtureEvaluations, fixtureTrajectory } from "./fixture.ts";
import { firstDifference } from "./trace-page.tsx";

const nothing: Leaderboard = { schemaVersion: 1, boards: [] };
const appWith = (changes: Partial<DashboardData> = {}, runs = 3) =>
  dashboardApp({ data: fixtureData(() => nothing, { runs, changes }) });
const evaluation = fixtureEvaluations()[1];
const result = evaluation?.results[0];
if (evaluation === undefined || result === undefined) throw new Error("the fixture has evaluations");
const trace = `/evaluations/${evaluation.id}/${result.taskId}/${result.attempt}`;
const get = async (path: string, app = appWith()) => {
  const response = await app.request(path);
  return { status: response.status, text: await response.text() };
};

describe("pages of nothing", () => {
  it.each([
    ["/", "uplift train recipes/quickstart-rl.ts", {}],
    ["/runs", "uplift train recipes/quickstart-rl.ts", { runs: async () => ({ runs: [], total: 0 }) }],
    [
      "/checkpoints",
      "uplift train recipes/quickstart-rl.ts",
      { checkpoints: async () => ({ checkpoints: [], total: 0 }) },
    ],
    ["/endpoints", "uplift serve CHECKPOINT", { endpoints: async () => [] }],
  ])("%s says that `%s` fills it", async (path, command, changes) => {
    const { status, text } = await get(path, appWith(changes));
    expect(status).toBe(200);
    expect(text).toContain(command);
  });

  it.each([
    "/nowhere",
    "/runs/none",
    "/evaluations/none",
    `${trace}9`,
    `/evaluations/${evaluation.id}/a/x`,
    "/compare",
    "/compare?left=a&right=b",
  ])("%s is not found, and says so with a way on", async (path) => {
    const { status, text } = await get(path);
    expect(status).toBe(404);
    expect(text).toContain("To the leaderboard");
  });
});

describe("what models wrote", () => {
  const nasty = `</pre><script>alert(1)</script><img src=x onerror=alert(1)>`;
  const poisoned: Trajectory = {
    ...fixtureTrajectory(evaluation, result),
    messages: [
      { role: "user", content: nasty },
      {
        role: "assistant",
        content: nasty,
        tool_calls: [
          { id: "1", type: "function", function: { name: nasty, arguments: JSON.stringify({ [nasty]: nasty }) } },
          { id: "2", type: "function", function: { name: "edit", arguments: nasty } },
        ],
      },
      { role: "tool", tool_call_id: "1", name: nasty, content: nasty },
    ],
    outcome: { kind: "failed", reason: nasty },
    violations: [nasty],
  };

  it("is shown as text, never as markup", async () => {
    const { text } = await get(trace, appWith({ trajectory: async () => poisoned }));
    expect(text).not.toContain("<script>alert");
    expect(text).not.toContain("<img");
    expect(text.match(/&lt;script&gt;alert/g)?.length).toBeGreaterThanOrEqual(9);
    expect(text).toContain("arguments are no JSON object");
  });

  it("could run and load nothing even if it were markup", async () => {
    const policy = (await appWith().request("/")).headers.get("content-security-policy");
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
  });

  it("is cut where it is longer than a browser likes, and says so", async () => {
    const long = { ...poisoned, messages: [{ role: "user" as const, content: "x".repeat(3_000_000) }] };
    const { text } = await get(trace, appWith({ trajectory: async () => long }));
    expect(text.length).toBeLessThan(60_000);
    expect(text).toContain("2,980,000 more characters are in the JSON.");
  });

  it("comes 200 messages at a time", async () => {
    const messages = Array.from({ length: 5000 }, (_, at) => ({ role: "user" as const, content: `message ${at}` }));
    const app = appWith({ trajectory: async () => ({ ...poisoned, messages }) });
    const first = await get(trace, app);
    expect(first.text).toContain("Messages 1 to 200 of 5000");
    const last = await get(`${trace}?from=4800`, app);
    expect(last.text).toContain("message 4999");
    expect(last.text).not.toContain("message 4799<");
    expect(last.text).not.toContain("Later messages");
  });
});

describe("the list of runs", () => {
  it("is quick with 1,000 runs: it asks for one page of them", async () => {
    const asked: unknown[] = [];
    const data = fixtureData(() => nothing, { runs: 1000 });
    const app = dashboardApp({
      data: {
        ...data,
        runs: (page) => {
          asked.push(page);
          return data.runs(page);
        },
      },
    });
    await get("/runs", app);
    const started = performance.now();
    const { text } = await get("/runs?page=20", app);
    expect(performance.now() - started).toBeLessThan(2000);
    expect(asked.at(-1)).toEqual({ offset: 950, limit: 50 });
    expect(text).toContain("Runs 951 to 1000 of 1000");
    expect(text.match(/<tr>/g)).toHaveLength(51);
  });

  it("takes a page number that is none as the first page", async () => {
    expect((await get("/runs?page=-4")).text).toContain("quickstart-rl-20261129-181203-9c1d");
  });
});

describe("a run", () => {
  it("that is live looks again by itself; one that has ended does not", async () => {
    const ids = (await fixtureData(() => nothing).runs({ offset: 0, limit: 3 })).runs.map((run) => run.id);
    const [ended, live, failed] = await Promise.all(ids.map((id) => get(`/runs/${id}`)));
    expect(live?.text).toContain('data-live="2000"');
    expect(live?.text).toContain('http-equiv="refresh"');
    expect(live?.text).toContain("reward 0.42, about 4 min 11 s left");
    expect(ended?.text).not.toContain("data-live=");
    expect(failed?.text).toContain("environment service refused the connection");
    expect(failed?.text).toContain("End of the log of train-rl");
  });

  it("says quietly what a step waits for: that is no error", async () => {
    const { runs } = await fixtureData(() => nothing).runs({ offset: 0, limit: 3 });
    const { text } = await get(`/runs/${runs.find(({ state }) => state === "running")?.id}`);
    expect(text).toContain('<p class="quiet">in Slurm&#39;s queue: Resources</p>');
    expect(text).not.toContain("Error of checkpoint-rl-40");
  });

  it("is cancelled by a post from its own page, and not by another site", async () => {
    const cancelled: string[] = [];
    const app = appWith({ cancelRun: async (id) => void cancelled.push(id) });
    const post = (origin: string) =>
      app.request("http://localhost/runs/a-run/cancel", {
        method: "POST",
        headers: { origin, "content-type": "application/x-www-form-urlencoded" },
      });
    expect((await post("http://evil.example")).status).toBe(403);
    expect(cancelled).toEqual([]);
    const response = await post("http://localhost");
    expect([response.status, response.headers.get("location")]).toEqual([303, "/runs/a-run"]);
    expect(cancelled).toEqual(["a-run"]);
  });
});

describe("two attempts side by side", () => {
  it("first differ where what they say differs, whatever the ids of their calls", () => {
    const one = fixtureTrajectory(evaluation, result);
    const renamed = {
      ...one,
      messages: one.messages.map((message) =>
        message.role === "assistant"
          ? { ...message, tool_calls: message.tool_calls?.map((call) => ({ ...call, id: `x${call.id}` })) }
          : message,
      ),
    };
    expect(firstDifference(one, renamed)).toBeNull();
    expect(firstDifference(one, { ...one, messages: one.messages.slice(0, 3) })).toBe(3);
    const other = one.messages.map((message, at) => (at === 2 ? { ...message, content: "nothing" } : message));
    expect(firstDifference(one, { ...one, messages: other })).toBe(2);
  });
});
