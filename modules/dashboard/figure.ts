/**
 * Figure: rows and curves → SVG text, drawn on the server with Observable Plot. Colours are the style sheet's
 * variables, so a figure follows light and dark. Pure.
 */
import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import type { Board, LeaderboardRow } from "../../schemas/leaderboard.ts";
import type { MetricSeries } from "./data.ts";
import { interval, isClearOfZero, percent, points, stageStep } from "./format.ts";

/** More rows than this make a figure nobody reads; the table has them all. */
export const FIGURE_ROWS = 16;

type Line = {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  /** Drawn hollow and grey: the base model itself, or a gain that may be noise. */
  readonly isQuiet: boolean;
};

/** Scores of a board's best rows and of base, with their intervals; a dashed line marks base. */
export function scoreFigure(board: Board, width: number): string {
  const rows = figureRows(board);
  const base = rows.find(isBase);
  const lines = rows.map((row) => ({
    ...common(row, width),
    value: `${percent(row.score.mean)} %  (${interval(row.score, percent)})`,
    ...inPercent(row.score),
    isQuiet: isBase(row),
  }));
  const highest = Math.max(10, ...lines.map((line) => line.high));
  return draw({
    lines,
    width,
    domain: [0, Math.min(100, Math.ceil(highest / 10) * 10)],
    label: "Held-out score, %",
    reference: base === undefined ? null : base.score.mean * 100,
    title: `Scores with 95 % intervals. ${lines.map((line) => `${line.label}: ${line.value}`).join(". ")}.`,
  });
}

/** Gains over base with their intervals; a solid line marks zero. Null where no row has one. */
export function gainFigure(board: Board, width: number): string | null {
  const lines = figureRows(board).flatMap((row) =>
    row.overBase === null
      ? []
      : [
          {
            ...common(row, width),
            value: `${points(row.overBase.gain.mean)}  (${interval(row.overBase.gain, points)})`,
            ...inPercent(row.overBase.gain),
            isQuiet: !isClearOfZero(row.overBase.gain),
          },
        ],
  );
  if (lines.length === 0) return null;
  const round = (value: number) => Math.sign(value) * Math.ceil(Math.abs(value) / 5) * 5;
  return draw({
    lines,
    width,
    domain: [
      Math.min(-5, round(Math.min(...lines.map((line) => line.low)))),
      Math.max(5, round(Math.max(...lines.map((line) => line.high)))),
    ],
    label: "Gain over base, percentage points",
    reference: 0,
    title: `Gains over base with 95 % intervals. ${lines.map((line) => `${line.label}: ${line.value}`).join(". ")}.`,
  });
}

/** One curve over optimiser steps. */
export function curveFigure(series: MetricSeries, width: number): string {
  const last = series.points.at(-1);
  const svg = Plot.plot({
    ...canvas(width, 220),
    marginLeft: 48,
    marginRight: 16,
    marginTop: 28,
    x: { label: "step", tickFormat: (step: number) => (Number.isInteger(step) ? String(step) : "") },
    y: { label: series.name, grid: true, nice: true, ticks: 5 },
    marks: [
      Plot.line(series.points, { x: "step", y: "value", stroke: "var(--accent)", strokeWidth: 2 }),
      Plot.dot(series.points, { x: "step", y: "value", fill: "var(--accent)", r: series.points.length > 80 ? 0 : 2.5 }),
    ],
  });
  const summary = last === undefined ? "" : ` Last: ${last.value.toFixed(3)} at step ${last.step}.`;
  return finish(svg, `${series.name} of ${series.stepId} over ${series.points.length} steps.${summary}`);
}

function draw(options: {
  lines: readonly Line[];
  width: number;
  domain: [number, number];
  label: string;
  reference: number | null;
  title: string;
}): string {
  const { lines, width, domain, label, reference } = options;
  const loud = lines.filter((line) => !line.isQuiet);
  const quiet = lines.filter((line) => line.isQuiet);
  const text = { y: "id", dy: -13, fill: "var(--text)" };
  const svg = Plot.plot({
    ...canvas(width, lines.length * 46 + 58),
    marginLeft: 10,
    marginRight: 14,
    marginTop: 8,
    marginBottom: 40,
    x: { domain, label, labelAnchor: "center", labelArrow: "none", grid: true, ticks: width < 400 ? 5 : 8, tickSize: 0 },
    y: { domain: lines.map((line) => line.id), axis: null },
    marks: [
      ...(reference === null
        ? []
        : [Plot.ruleX([reference], { stroke: "var(--muted)", ...(reference === 0 ? {} : { strokeDasharray: "4 4" }) })]),
      Plot.ruleY(quiet, { y: "id", x1: "low", x2: "high", stroke: "var(--muted)", strokeWidth: 3, dy: 6 }),
      Plot.ruleY(loud, { y: "id", x1: "low", x2: "high", stroke: "var(--accent)", strokeWidth: 3, dy: 6 }),
      Plot.dot(quiet, { y: "id", x: "mean", fill: "var(--surface)", stroke: "var(--muted)", strokeWidth: 2.5, r: 5, dy: 6 }),
      Plot.dot(loud, { y: "id", x: "mean", fill: "var(--accent)", r: 5.5, dy: 6 }),
      Plot.text(lines, { ...text, text: "label", frameAnchor: "left", textAnchor: "start", fontWeight: 600 }),
      Plot.text(lines, { ...text, text: "value", frameAnchor: "right", textAnchor: "end" }),
    ],
  });
  return finish(svg, options.title);
}

function canvas(width: number, height: number) {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  return {
    document: document as unknown as Document,
    width,
    height,
    style: { fontFamily: "inherit", fontSize: "12.5px", color: "var(--muted)", background: "none", overflow: "visible" },
  };
}

/** The element's text, labelled for those who hear it. */
function finish(svg: Element, title: string): string {
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  return svg.outerHTML;
}

function figureRows(board: Board): LeaderboardRow[] {
  const best = board.rows.slice(0, FIGURE_ROWS);
  return [...best, ...board.rows.slice(FIGURE_ROWS).filter(isBase)];
}

function isBase(row: LeaderboardRow): boolean {
  return row.model.checkpoint === row.model.base;
}

function common(row: LeaderboardRow, width: number): { id: string; label: string } {
  const room = Math.floor(width / 7) - 26;
  const step = row.model.stage === "base" || row.model.name.includes(String(row.model.step)) ? "" : `, ${stageStep(row.model)}`;
  const name = [...`${row.model.name}${step}`];
  return { id: row.evaluationId, label: name.length > room ? `${name.slice(0, room - 1).join("")}…` : name.join("") };
}

function inPercent({ mean, low, high }: { mean: number; low: number; high: number }) {
  return { mean: mean * 100, low: low * 100, high: high * 100 };
}
