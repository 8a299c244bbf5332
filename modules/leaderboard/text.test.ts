import { describe, expect, it } from "vitest";
import { buildLeaderboard } from "./board.ts";
import { evaluationOf } from "./fixture.ts";
import { renderLeaderboard } from "./text.ts";

const many = (letters: (task: number) => string) =>
  Object.fromEntries(Array.from({ length: 12 }, (_, task) => [`task-${String(task).padStart(2, "0")}`, letters(task)]));
const base = evaluationOf({ model: "base", marks: many((task) => (task < 6 ? "pfff" : "ffff")) });
const clear = evaluationOf({ model: "quickstart-sft-rl", marks: many((task) => (task < 10 ? "pppf" : "ffPi")) });
const noise = evaluationOf({ model: "quickstart-rl", marks: many((task) => (task < 7 ? "pfff" : "ffff")) });

describe("the leaderboard as text", () => {
  const text = renderLeaderboard(buildLeaderboard([base, clear, noise]));

  it("lines up one row a model under named columns", () => {
    expect(text.split("\n").slice(2, 6)).toEqual([
      "#  model              step   score  95 % interval   gain   95 % interval   +/=/-   fixed  no infra  limit",
      "1  quickstart-sft-rl  rl 24   66.7   [54.3, 79.0]  +54.2  [+42.8, +65.6]  12/0/0  61.9 %      68.1   62.5",
      "2  quickstart-rl      rl 24   14.6    [6.4, 22.8]   +2.1    [-2.5, +6.7]  1/11/0   2.4 %      14.6   14.6",
      "3  base               base    12.5    [4.2, 20.8]      -               -       -       -      12.5   12.5",
    ]);
  });

  it("says whether a gain stands clear of zero", () => {
    expect(text).toContain(
      "quickstart-sft-rl: +54.2 points over base; its 95 % interval excludes zero, so it is a real gain",
    );
    expect(text).toContain("quickstart-rl: +2.1 points over base; its 95 % interval includes zero, so it may be noise");
  });

  it("claims nothing from an interval without width", () => {
    const [none, all] = [
      evaluationOf({ model: "base", marks: { a: "pf", b: "ff" } }),
      evaluationOf({ model: "rl", marks: { a: "pp", b: "pf" } }),
    ];
    expect(renderLeaderboard(buildLeaderboard([none, all]))).toContain("every task changed by the same amount");
  });

  it.each([
    ["0.0", "ff"],
    ["100.0", "pp"],
  ])("says that a score of %s in every task has an interval without width", (score, letters) => {
    const flat = renderLeaderboard(
      buildLeaderboard([
        evaluationOf({ model: "base", marks: { a: letters, b: letters } }),
        evaluationOf({ model: "rl", marks: { a: "pf", b: "ff" } }),
      ]),
    ).replace(/\s+/g, " ");
    expect(flat).toContain(
      `base: every task scored the same ${score} %, so the interval of its score has no width and says nothing of chance.`,
    );
    expect(flat).not.toContain("rl: every task scored the same");
  });

  it("says what served the models", () => {
    expect(text.replace(/\s+/g, " ")).toContain("Served by light, 1024 tokens of context, float32.");
  });

  it("says preset, task set, held-out count, commit, uncommitted changes and snapshot", () => {
    const flat = text.replace(/\s+/g, " ");
    expect(flat).toContain("Percent of 12 held-out tasks × 4 attempts");
    expect(flat).toContain("Preset quickstart: temperature 1, top-p 1, at most 8 turns of 128 tokens");
    expect(flat).toMatch(/Task set [0-9a-f]{12}, held-out tasks [0-9a-f]{12}/);
    expect(flat).toMatch(/commit 0123456789ab \+ uncommitted changes [0-9a-f]{12}, snapshot [0-9a-f]{12}/);
    expect(flat).toContain("2 of 48 attempts broken by infrastructure (4 retries), 2 hit the turn limit");
  });

  it("stays within 110 columns, also with a long name or one that would move the cursor", () => {
    const long = evaluationOf({ model: `long\u001b[2J${"x".repeat(200)}`, marks: many(() => "pppp"), step: 123456 });
    const zero = evaluationOf({ model: "base", marks: many((task) => (task === 0 ? "pfff" : "ffff")) });
    const lines = renderLeaderboard(buildLeaderboard([zero, long])).split("\n");
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(110);
    expect(lines.join("")).not.toContain("\u001b");
  });

  it("marks equal ranks, a missing base and several boards", () => {
    const twin = evaluationOf({ model: "twin", marks: many((task) => (task < 7 ? "pfff" : "ffff")) });
    expect(renderLeaderboard(buildLeaderboard([noise, twin]))).toMatch(/1= {2}quickstart-rl[\s\S]*1= {2}twin/);
    expect(renderLeaderboard(buildLeaderboard([noise]))).toContain("No evaluation of the base model has this key yet");
    const other = evaluationOf({ model: "base", marks: { z: "pp" }, conditions: "other" });
    expect(renderLeaderboard(buildLeaderboard([noise, other]))).toContain("2 boards: their comparability keys differ");
  });

  it("says which command fills an empty leaderboard", () => {
    expect(renderLeaderboard(buildLeaderboard([]))).toContain("uplift train recipes/quickstart-rl.ts");
  });
});
