import { parseHTML } from "linkedom";
import { describe, expect, it } from "vitest";
import { digestJson } from "../../schemas/digest.ts";
import type { Evaluation } from "../../schemas/evaluation.ts";
import type { Board, LeaderboardRow } from "../../schemas/leaderboard.ts";
import { curveFigure, FIGURE_ROWS, gainFigure, scoreFigure } from "./figure.ts";
import { fixtureEvaluations } from "./fixture.ts";

const evaluations = fixtureEvaluations();
const [base, trained] = [evaluationAt(0), evaluationAt(1)];
const estimate = (mean: number) => ({ mean, low: mean - 0.05, high: mean + 0.05 });

function evaluationAt(index: number): Evaluation {
  const evaluation = evaluations[index];
  if (evaluation === undefined) throw new Error("the fixture has three evaluations");
  return evaluation;
}

function row(rank: number, name: string, score: number, gain: number | null): LeaderboardRow {
  return {
    rank,
    evaluationId: `eval-${String(rank).padStart(12, "0")}`,
    model: { ...(gain === null ? base : trained).model, name },
    lineage: base.lineage,
    score: estimate(score),
    scoreWithoutInfrastructure: estimate(score),
    tasksLeftOut: [],
    scoreTurnLimitAsFailure: estimate(score),
    tasks: 48,
    attempts: 384,
    infrastructureFailures: 0,
    infrastructureRetries: 0,
    turnLimitHits: 0,
    violations: 0,
    overBase:
      gain === null
        ? null
        : {
            gain: estimate(gain),
            tasksBetter: 1,
            tasksSame: 1,
            tasksWorse: 1,
            failuresFixed: 0.1,
            gainWithoutInfrastructure: estimate(gain),
            gainTurnLimitAsFailure: estimate(gain),
          },
    finishedAt: base.finishedAt,
  };
}

function board(rows: LeaderboardRow[]): Board {
  const { comparability, family, preset, serving, taskSetDigest } = base;
  const { key, parts } = comparability;
  return { comparabilityKey: key, parts, family, preset, serving, taskSetDigest, rows };
}

function svgOf(text: string) {
  const svg = parseHTML(`<body>${text}</body>`).document.querySelector("svg");
  if (svg === null) throw new Error("no SVG");
  return svg;
}
const words = (text: string) => [...svgOf(text).querySelectorAll("text")].map((one) => one.textContent);

describe("the figure", () => {
  const rows = [row(1, "good", 0.5, 0.3), row(2, "so-so", 0.22, 0.02), row(3, "base", 0.2, null)];

  it("names every row with its score and interval, and has an axis with a unit", () => {
    const said = words(scoreFigure(board(rows), 540));
    expect(said).toContain("good, rl step 24");
    expect(said).toContain("50.0 %  (45.0 to 55.0)");
    expect(said).toContain("base");
    expect(said).toContain("Held-out score, %");
  });

  it("draws a gain that is clear of zero filled, another one hollow", () => {
    const svg = svgOf(gainFigure(board(rows), 540) ?? "");
    const fills = [...svg.querySelectorAll('[aria-label="dot"]')].map((group) => [
      group.getAttribute("fill"),
      group.querySelectorAll("circle").length,
    ]);
    expect(fills).toEqual([
      ["var(--surface)", 1],
      ["var(--accent)", 1],
    ]);
    expect(words(gainFigure(board(rows), 540) ?? "")).toContain("+2.0  (−3.0 to +7.0)");
  });

  it("has no gains where base was not evaluated", () => {
    expect(gainFigure(board([row(1, "base", 0.2, null)]), 540)).toBeNull();
  });

  it("says all of it to those who cannot see it, also where there is no room to write it", () => {
    const svg = svgOf(scoreFigure(board(rows), 330));
    expect(svg.getAttribute("role")).toBe("img");
    expect(svg.getAttribute("aria-label")).toContain("good, rl step 24: 50.0 % (45.0 to 55.0). so-so");
    expect(words(scoreFigure(board(rows), 330))).toContain("50.0 %");
  });

  it("cuts a long name, and shows a name as text whatever it holds", () => {
    const nasty = `"><img src=x onerror=alert(1)>`;
    const text = scoreFigure(board([row(1, nasty, 0.5, 0.3), row(2, "x".repeat(300), 0.4, 0.2)]), 540);
    const { document } = parseHTML(`<body>${text}</body>`);
    expect(document.querySelector("img")).toBeNull();
    expect(words(text)).toContain(`${nasty}, rl step 24`);
    expect(Math.max(...words(text).map((word) => word?.length ?? 0))).toBeLessThan(60);
  });

  it("draws the best rows and base of a long board", () => {
    const many = Array.from({ length: 60 }, (_, at) => row(at + 1, `model-${at}`, 0.9 - at / 100, 0.5 - at / 100));
    const said = words(scoreFigure(board([...many, row(61, "base", 0.1, null)]), 540)).join("\n");
    expect(said).toContain(`model-${FIGURE_ROWS - 1}`);
    expect(said).not.toContain(`model-${FIGURE_ROWS},`);
    expect(said).toContain("base");
  });
});

describe("a curve", () => {
  it("says its last value, also of a single point", () => {
    const series = { stepId: "train-rl", name: "reward", points: [{ step: 1, value: 0.25 }] };
    expect(svgOf(curveFigure(series, 330)).getAttribute("aria-label")).toBe(
      "reward of train-rl over 1 steps. Last: 0.250 at step 1.",
    );
    expect(digestJson(curveFigure(series, 330))).toBe(digestJson(curveFigure(series, 330)));
  });
});
