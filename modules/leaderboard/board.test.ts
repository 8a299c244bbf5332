import { describe, expect, it } from "vitest";
import { UserError } from "../../schemas/error.ts";
import { Leaderboard } from "../../schemas/leaderboard.ts";
import { buildLeaderboard } from "./board.ts";
import { evaluationOf } from "./fixture.ts";

const base = evaluationOf({ model: "base", marks: { a: "pfff", b: "ffff", c: "pppp" } });
const rl = evaluationOf({ model: "rl", marks: { a: "pppf", b: "ffff", c: "pppp" } });
const sft = evaluationOf({ model: "sft", marks: { a: "pppp", b: "pfff", c: "pppp" } });

describe("the leaderboard", () => {
  it("ranks by score, best first, with the gain over base and none for base itself", () => {
    const [board, ...others] = buildLeaderboard([base, rl, sft]).boards;
    expect(others).toEqual([]);
    expect(board?.rows.map((row) => [row.rank, row.model.name, row.overBase?.tasksBetter ?? null])).toEqual([
      [1, "sft", 2],
      [2, "rl", 1],
      [3, "base", null],
    ]);
  });

  it("names the tasks that count nowhere once broken attempts are left out", () => {
    const broken = evaluationOf({ model: "rl", marks: { a: "ppii", b: "iiii", c: "pppp" } });
    const [board] = buildLeaderboard([base, broken]).boards;
    expect(board?.rows.map((row) => [row.model.name, row.tasksLeftOut])).toEqual([
      ["rl", ["b"]],
      ["base", []],
    ]);
  });

  it("is the same whatever the order of publication", () => {
    expect(buildLeaderboard([sft, base, rl])).toEqual(buildLeaderboard([rl, sft, base]));
  });

  it("is what the schema says", () => {
    expect(Leaderboard.parse(buildLeaderboard([base, rl, sft]))).toEqual(buildLeaderboard([base, rl, sft]));
  });

  it("never ranks rows of different keys together, and shows the board with the newest evaluation first", () => {
    const other = evaluationOf({
      model: "rl",
      marks: { z: "pp" },
      conditions: "other tasks",
      finishedAt: "2026-11-30T12:00:00.000Z",
    });
    const { boards } = buildLeaderboard([base, rl, other]);
    expect(boards.map((board) => board.rows.map((row) => row.model.name))).toEqual([["rl"], ["rl", "base"]]);
    expect(boards[0]?.rows[0]?.overBase).toBeNull();
    expect(boards[0]?.comparabilityKey).not.toBe(boards[1]?.comparabilityKey);
  });

  it("gives equal scores one rank and lists them by name", () => {
    const twin = evaluationOf({ model: "another", marks: { a: "pppf", b: "ffff", c: "pppp" } });
    const [board] = buildLeaderboard([rl, base, twin, sft]).boards;
    expect(board?.rows.map((row) => [row.rank, row.model.name])).toEqual([
      [1, "sft"],
      [2, "another"],
      [2, "rl"],
      [4, "base"],
    ]);
  });

  it("shows the newest evaluation of a checkpoint that was evaluated twice under one key", () => {
    const again = {
      ...evaluationOf({ model: "rl", marks: { a: "ffff", b: "ffff", c: "ffff" } }),
      id: "eval-0123456789ab",
    };
    const [board] = buildLeaderboard([{ ...again, finishedAt: "2026-12-01T00:00:00.000Z" }, base, rl]).boards;
    expect(board?.rows.map((row) => [row.model.name, row.evaluationId])).toEqual([
      ["base", base.id],
      ["rl", "eval-0123456789ab"],
    ]);
  });

  it.each([
    ["task ids", { ...rl, tasks: rl.tasks.slice(1) }],
    ["preset", { ...rl, preset: { ...rl.preset, temperature: 0.5 } }],
    ["serving settings", { ...rl, serving: { ...rl.serving, contextTokens: 2048 } }],
    ["family", { ...rl, family: "other" }],
  ])("refuses to mix when the %s differ under one key", (what, corrupt) => {
    expect(() => buildLeaderboard([base, corrupt])).toThrow(UserError);
    expect(() => buildLeaderboard([base, corrupt])).toThrow(`${what} differ`);
  });

  it("of nothing has no boards", () => {
    expect(buildLeaderboard([])).toEqual({ schemaVersion: 1, boards: [] });
  });
});
