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
  readonly name: string;
  /** The name, cut to what there is room for. */
  readonly label: string;
  readonly value: string;
  readonly range: string;
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
    value: `${percent(row.score.mean)} %`,
    range: interval(row.score, percent),
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
    title: "Scores",
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
            value: points(row.overBase.gain.mean),
            range: interval(row.overBase.gain, points),
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
    title: "Gains over base",
  });
}

/** One curve over optimiser steps. */
export function curveFigure(series: MetricSeries, width: number): string {
  const last = series.points.at(-1);
  const svg = Plot.plot({
    ...canvas(width, 210),
    marginLeft: 48,
    marginRight: 16,
    marginTop: 28,
    marginBottom: 42,
    x: {
      label: "step",
      labelAnchor: "center",
      labelArrow: "none",
      tickFormat: (step: number) => (Number.isInteger(step) ? String(step) : ""),
    },
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
  const { width, domain, label, reference } = options;
  // Each line has its words above its interval; the reference line runs beside the intervals only, not through words.
  const lines = options.lines.map((line, at) => ({ ...line, words: at - 0.22, at: at + 0.2, from: at, to: at + 0.42 }));
  const loud = lines.filter((line) => !line.isQuiet);
  const quiet = lines.filter((line) => line.isQuiet);
  const shownValue = (line: Line) => (isNarrow(width) ? line.value : `${line.value}  (${line.range})`);
  const text = { y: "words", fill: "var(--text)" };
  const referenceStyle = { stroke: "var(--muted)", ...(reference === 0 ? {} : { strokeDasharray: "3 3" }) };
  const svg = Plot.plot({
    ...canvas(width, lines.length * 46 + 50),
    marginLeft: 10,
    marginRight: 14,
    marginTop: 4,
    marginBottom: 40,
    x: {
      domain,
      label,
      labelAnchor: "center",
      labelArrow: "none",
      grid: true,
      ticks: isNarrow(width) ? 5 : 8,
      tickSize: 0,
    },
    y: { domain: [lines.length - 0.5, -0.5], axis: null },
    marks: [
      ...(reference === null
        ? []
        : [Plot.ruleX(lines, { x: () => reference, y1: "from", y2: "to", ...referenceStyle })]),
      Plot.ruleY(quiet, { y: "at", x1: "low", x2: "high", stroke: "var(--muted)", strokeWidth: 3 }),
      Plot.ruleY(loud, { y: "at", x1: "low", x2: "high", stroke: "var(--accent)", strokeWidth: 3 }),
      Plot.dot(quiet, { y: "at", x: "mean", fill: "var(--surface)", stroke: "var(--muted)", strokeWidth: 2.5, r: 5 }),
      Plot.dot(loud, { y: "at", x: "mean", fill: "var(--accent)", r: 5.5 }),
      Plot.text(lines, { ...text, text: "label", frameAnchor: "left", textAnchor: "start", fontWeight: 600 }),
      Plot.text(lines, { ...text, text: shownValue, frameAnchor: "right", textAnchor: "end" }),
    ],
  });
  const told = lines.map((line) => `${line.name}: ${line.value} (${line.range})`);
  return finish(svg, `${options.title} with 95 % intervals. ${told.join(". ")}.`);
}

function canvas(width: number, height: number) {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  return {
    document,
    width,
    height,
    style: {
      fontFamily: "inherit",
      fontSize: "12.5px",
      color: "var(--muted)",
      background: "none",
      overflow: "visible",
    },
  };
}

/** The element's text, labelled for those who hear it. */
function finish(svg: { setAttribute(name: string, value: string): void; outerHTML: string }, title: string): string {
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  return svg.outerHTML;
}

/** On a phone the bars have to say the intervals: there is no room for the words. */
function isNarrow(width: number): boolean {
  return width < 400;
}

function figureRows(board: Board): LeaderboardRow[] {
  const best = board.rows.slice(0, FIGURE_ROWS);
  return [...best, ...board.rows.slice(FIGURE_ROWS).filter(isBase)];
}

function isBase(row: LeaderboardRow): boolean {
  return row.model.checkpoint === row.model.base;
}

function common(row: LeaderboardRow, width: number): { name: string; label: string } {
  // About 7.5 units a bold letter; the value stands at the other end of the line.
  const room = Math.floor(width / 7.5) - (isNarrow(width) ? 10 : 26);
  const isSaid = row.model.stage === "base" || row.model.name.includes(String(row.model.step));
  const name = isSaid ? row.model.name : `${row.model.name}, ${stageStep(row.model)}`;
  const letters = [...name];
  return { name, label: letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : name };
}

function inPercent({ mean, low, high }: { mean: number; low: number; high: number }) {
  return { mean: mean * 100, low: low * 100, high: high * 100 };
}
