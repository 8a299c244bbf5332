/**
 * The README's promise, as it is given: one command, and both recipes' gains stand clear of their own intervals.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Endpoint } from "../schemas/endpoint.ts";
import { Evaluation } from "../schemas/evaluation.ts";
import { type Board, Leaderboard, type LeaderboardRow } from "../schemas/leaderboard.ts";
import { TaskSet } from "../schemas/task.ts";
import { Trajectory } from "../schemas/trajectory.ts";
import { type TestPlatform, testPlatform, until } from "./support/platform.ts";

let platform: TestPlatform;
let board: Board;
let base: LeaderboardRow;
let sftRl: LeaderboardRow;
let rl: LeaderboardRow;

beforeAll(async () => {
  platform = await testPlatform();
  const started = Date.now();
  await platform.uplift("quickstart");
  process.stdout.write(`quickstart took ${Math.round((Date.now() - started) / 1000)} s\n`);
  process.stdout.write(`${await platform.uplift("leaderboard")}\n`);
  const { boards } = Leaderboard.parse(JSON.parse(await platform.uplift("leaderboard", "--json")));
  const [only, ...others] = boards;
  if (!only || others.length > 0) throw new Error(`one board was expected, not ${boards.length}`);
  board = only;
  const row = (stage: string, recipe: string) => {
    const found = board.rows.find((each) => each.model.stage === stage && each.lineage.recipe.startsWith(recipe));
    if (!found) throw new Error(`no ${stage} row of ${recipe}`);
    return found;
  };
  base = row("base", "quickstart");
  sftRl = row("rl", "quickstart-sft-rl");
  rl = row("rl", "quickstart-rl");
});
afterAll(() => platform.remove());

const get = async (path: string) => (await fetch(`${platform.controllerUrl}${path}`)).json();

const readJson = async (path: string): Promise<unknown> => JSON.parse(await readFile(path, "utf8"));

describe("the quickstart", () => {
  it("ends with the base model and both recipes on one board", () => {
    expect(board.rows).toHaveLength(3);
    expect(base.overBase).toBeNull();
  });

  it("starts from a base that solves some tasks and not most", () => {
    expect(base.score.mean).toBeGreaterThan(0.02);
    expect(base.score.mean).toBeLessThan(0.4);
  });

  it("gains by SFT then RL, clear of the gain's own 95 % interval, by every way of counting", () => {
    expect(sftRl.overBase?.gain.low).toBeGreaterThan(0);
    expect(sftRl.overBase?.gainWithoutInfrastructure.low).toBeGreaterThan(0);
    expect(sftRl.overBase?.gainTurnLimitAsFailure.low).toBeGreaterThan(0);
  });

  it("gains by RL alone, clear of the gain's own 95 % interval, by every way of counting", () => {
    expect(rl.overBase?.gain.low).toBeGreaterThan(0);
    expect(rl.overBase?.gainWithoutInfrastructure.low).toBeGreaterThan(0);
    expect(rl.overBase?.gainTurnLimitAsFailure.low).toBeGreaterThan(0);
  });

  it("measures each model on the same held-out tasks, eight times each", () => {
    for (const row of board.rows) {
      expect(row.tasks).toBeGreaterThanOrEqual(40);
      expect(row.tasks).toBe(base.tasks);
      expect(row.attempts).toBe(row.tasks * 8);
    }
  });

  it("never trained on a held-out task nor on a near copy of one", async () => {
    const [file] = await readdir(join(platform.home, "objects/task-sets"));
    const taskSet = TaskSet.parse(await readJson(join(platform.home, "objects/task-sets", file ?? "")));
    const groupOf = new Map(Object.entries(taskSet.groups).flatMap(([group, ids]) => ids.map((id) => [id, group])));
    const { tasks } = Evaluation.parse(await get(`/api/evaluations/${rl.evaluationId}`));
    const heldOut = new Set(tasks.map(({ id }) => groupOf.get(id)));
    for (const { lineage } of [sftRl, rl]) {
      const folder = join(platform.home, "runs", lineage.runId ?? "");
      const config = (await readJson(join(folder, "rl.config.json"))) as { tasks: string[] };
      const sft = await readFile(join(folder, "sft-trajectories.jsonl"), "utf8").catch(() => "");
      const demonstrated = sft.split("\n").filter(Boolean);
      const trained = [...config.tasks, ...demonstrated.map((line) => String(JSON.parse(line).taskId))];
      expect(trained.length).toBeGreaterThan(20);
      expect(trained.filter((id) => heldOut.has(groupOf.get(id)))).toEqual([]);
      expect(demonstrated.length > 0).toBe(lineage.recipe === "quickstart-sft-rl");
    }
  });

  it("keeps in each row what is needed to trust it", async () => {
    for (const row of board.rows) {
      expect(row.lineage.snapshotDigest).toMatch(/^sha256:/);
      expect(row.lineage.planDigest).toMatch(/^sha256:/);
      const run = (await get(`/api/runs/${row.lineage.requestedBy}`)) as {
        state: string;
        snapshot: { digest: string };
      };
      expect(run.state).toBe("succeeded");
      expect(run.snapshot.digest).toBe(row.lineage.snapshotDigest);
    }
  });

  it("has the trace of every attempt", async () => {
    const { results } = Evaluation.parse(await get(`/api/evaluations/${sftRl.evaluationId}`));
    const passed = results.find(({ outcome }) => outcome.kind === "passed");
    const path = `/api/evaluations/${sftRl.evaluationId}/attempts/${passed?.taskId}/${passed?.attempt}`;
    const trace = Trajectory.parse(await get(path));
    expect(trace.messages.map(({ role }) => role).slice(0, 3)).toEqual(["user", "assistant", "tool"]);
    expect(trace.outcome).toEqual({ kind: "passed" });
  });

  it("leaves no endpoint, job or sandbox behind", async () => {
    const endpoints = JSON.parse(await platform.uplift("endpoints", "--json")).map((each: unknown) =>
      Endpoint.parse(each),
    );
    expect(endpoints).toEqual([]);
    expect(await platform.processes(/uplift_trl|bwrap|vllm|light_server/)).toEqual([]);
  });

  it("serves a checkpoint to OpenAI's own client, to holders of the key, until its time is over", async () => {
    const hours = 0.04;
    const made = Endpoint.strip().parse(
      JSON.parse(await platform.uplift("serve", sftRl.model.checkpoint, "--hours", String(hours), "--json")),
    );
    expect(made.state).toBe("ready");
    expect(JSON.stringify(made)).not.toContain(await readFile(made.apiKeyPath, "utf8"));
    const evaluation = Evaluation.parse(await get(`/api/evaluations/${sftRl.evaluationId}`));
    const solved = evaluation.results.find(({ outcome }) => outcome.kind === "passed");
    const trace = Trajectory.parse(
      await get(`/api/evaluations/${sftRl.evaluationId}/attempts/${solved?.taskId}/${solved?.attempt}`),
    );
    const ask = async (apiKey: string) =>
      new OpenAI({ baseURL: made.url, apiKey, maxRetries: 0 }).chat.completions.create({
        model: made.model,
        messages: trace.messages.slice(0, 1) as OpenAI.ChatCompletionMessageParam[],
        tools: trace.tools,
        temperature: 0,
        max_tokens: 48,
      });
    const answer = await ask((await readFile(made.apiKeyPath, "utf8")).trim());
    const [call] = answer.choices[0]?.message.tool_calls ?? [];
    expect(call?.type === "function" && trace.tools.map((tool) => tool.function.name)).toContain(
      call?.type === "function" ? call.function.name : "",
    );
    await expect(ask("wrong")).rejects.toMatchObject({ status: 401 });

    await until("the endpoint's end", 400, async () =>
      JSON.parse(await platform.uplift("endpoints", "--json")).length === 0 ? true : null,
    );
    expect(await platform.processes(/vllm|light_server/)).toEqual([]);
  });

  it("shows the leaderboard and a trace as pages", async () => {
    for (const path of ["/", `/evaluations/${rl.evaluationId}`, "/runs", "/checkpoints", "/endpoints"]) {
      const page = await fetch(`${platform.controllerUrl}${path}`);
      expect([path, page.status]).toEqual([path, 200]);
      expect(page.headers.get("content-type")).toContain("text/html");
    }
  });
});
