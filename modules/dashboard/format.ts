/**
 * Format: numbers and times of the schemas → the words the pages show. Pure.
 */
import type { Estimate } from "../../schemas/leaderboard.ts";

/** 0.4783 → "47.8". */
export function percent(share: number): string {
  return (share * 100).toFixed(1);
}

/** A difference in percentage points with its sign: "+12.2", "−3.0", "0.0". */
export function points(share: number): string {
  const text = percent(Math.abs(share));
  if (Number(text) === 0) return "0.0";
  return share > 0 ? `+${text}` : `−${text}`;
}

/** "38.1 to 57.5", in percent or, signed, in points. */
export function interval({ low, high }: Estimate, format: (share: number) => string): string {
  return `${format(low)} to ${format(high)}`;
}

/** True if the whole interval lies on one side of zero. */
export function isClearOfZero(gain: Estimate): boolean {
  return gain.low > 0 || gain.high < 0;
}

/** "2026-11-29 19:45:01 UTC" */
export function utc(time: string): string {
  return `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** 3725 → "1 h 02 min", 65 → "1 min 05 s", 4.25 → "4.3 s". */
export function duration(seconds: number): string {
  if (seconds < 59.95) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const pad = (value: number) => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

/** How long something took, or null while it goes on. */
export function elapsed(startedAt: string | null, endedAt: string | null): string | null {
  return startedAt === null || endedAt === null ? null : duration((Date.parse(endedAt) - Date.parse(startedAt)) / 1000);
}

/** 3145728 → "3.0 MiB". */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = count < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
  return power === 0 ? `${count} B` : `${(count / 1024 ** power).toFixed(1)} ${units[power]}`;
}

/** "rl step 24", or "base" for a base model. */
export function stageStep({ stage, step }: { stage: string; step: number }): string {
  return stage === "base" ? "base" : `${stage} step ${step}`;
}

/** 1234567 → "1,234,567". */
export function whole(count: number): string {
  return count.toLocaleString("en-US");
}

/** 1 → "1 file", 2 → "2 files". */
export function countOf(count: number, noun: string): string {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}
