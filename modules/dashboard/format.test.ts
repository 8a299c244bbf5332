import { describe, expect, it } from "vitest";
import {
  bytes,
  countOf,
  duration,
  elapsed,
  interval,
  isClearOfZero,
  percent,
  points,
  stageStep,
  utc,
} from "./format.ts";

describe("numbers", () => {
  it("are percent with one digit, and points with a sign", () => {
    expect([percent(0.4783), percent(0), percent(1)]).toEqual(["47.8", "0.0", "100.0"]);
    expect([points(0.1223), points(-0.03), points(0), points(-0.0004), points(0.0004)]).toEqual([
      "+12.2",
      "−3.0",
      "0.0",
      "0.0",
      "0.0",
    ]);
    expect(interval({ mean: 0.1, low: -0.02, high: 0.22 }, points)).toBe("−2.0 to +22.0");
  });

  it("are clear of zero only if the whole interval is", () => {
    expect(isClearOfZero({ mean: 0.1, low: 0.001, high: 0.2 })).toBe(true);
    expect(isClearOfZero({ mean: -0.1, low: -0.2, high: -0.001 })).toBe(true);
    expect(isClearOfZero({ mean: 0.1, low: 0, high: 0.2 })).toBe(false);
  });

  it("have the unit a person would use", () => {
    expect([0, 4.25, 59.9, 59.97, 65, 3599.6, 3725].map(duration)).toEqual([
      "0.0 s",
      "4.3 s",
      "60 s",
      "1 min 00 s",
      "1 min 05 s",
      "1 h 00 min",
      "1 h 02 min",
    ]);
    expect([0, 1023, 1024, 3_145_728, 5e12].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "3.0 MiB", "4.5 TiB"]);
    expect([countOf(1, "file"), countOf(1234, "file")]).toEqual(["1 file", "1,234 files"]);
  });
});

describe("words", () => {
  it("say times in UTC, and how long what has ended took", () => {
    expect(utc("2026-11-29T19:45:01.123Z")).toBe("2026-11-29 19:45:01 UTC");
    expect(elapsed("2026-11-29T19:45:00.000Z", "2026-11-29T19:46:05.000Z")).toBe("1 min 05 s");
    expect(elapsed("2026-11-29T19:45:00.000Z", null)).toBeNull();
  });

  it("name a checkpoint by stage and step", () => {
    expect([stageStep({ stage: "rl", step: 24 }), stageStep({ stage: "base", step: 0 })]).toEqual([
      "rl step 24",
      "base",
    ]);
  });
});
