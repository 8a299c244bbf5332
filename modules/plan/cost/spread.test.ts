import { describe, expect, it } from "vitest";
import { ASSUMPTIONS, EXPECTED, NAMES } from "./assumptions.ts";
import { mapRange, roundTo, spread, sumRanges } from "./spread.ts";
import { about, dollars, duration, number, percent } from "./text.ts";

describe("a range", () => {
  it("of one assumption reaches exactly to its fast and its slow value", () => {
    const { range, causes } = spread((values) => values.turnSeconds);
    const { fast, expected, slow } = ASSUMPTIONS.turnSeconds;
    expect(range).toEqual({ low: fast, expected, high: slow });
    expect(causes).toEqual([{ name: "turnSeconds", adds: slow - expected }]);
  });

  it("of two adds their effects as the root of the sum of squares, the larger cause first", () => {
    const { range, causes } = spread(({ switchSeconds, stepSeconds }) => switchSeconds + stepSeconds);
    expect(range.expected).toBe(35);
    expect(range.high).toBeCloseTo(35 + Math.hypot(90 - 30, 15 - 5), 10);
    expect(causes.map(({ name }) => name)).toEqual(["switchSeconds", "stepSeconds"]);
  });

  it("stays above zero however many assumptions would make it faster", () => {
    const { range } = spread((values) => NAMES.reduce((product, name) => product * (1 + values[name]), 1));
    expect(range.low).toBeGreaterThan(0);
    expect(range.low).toBeLessThan(range.expected);
  });

  it("has every assumption's expected value between its fast and its slow one", () => {
    for (const name of NAMES) {
      const { fast, slow } = ASSUMPTIONS[name];
      expect((EXPECTED[name] - fast) * (slow - EXPECTED[name])).toBeGreaterThan(0);
    }
  });

  it("is rounded and added up number by number", () => {
    const half = mapRange({ low: 1, expected: 2.005, high: 3 }, (value) => roundTo(value / 2, 2));
    expect(half).toEqual({ low: 0.5, expected: 1, high: 1.5 });
    expect(sumRanges([half, half, { low: 0.1, expected: 0.2, high: 0.3 }], 2)).toEqual({
      low: 1.1,
      expected: 2.2,
      high: 3.3,
    });
  });
});

describe("numbers in sentences", () => {
  it("are grouped and rounded the same in any locale", () => {
    expect([number(1234567.5), number(999), number(1234.56, 1)]).toEqual(["1,234,568", "999", "1,234.6"]);
    expect([about(0), about(0.0123), about(5), about(12.34), about(300), about(98765)]).toEqual([
      "0",
      "0.0123",
      "5",
      "12.3",
      "300",
      "98,765",
    ]);
    expect([percent(0.25), percent(0.125)]).toEqual(["25 %", "12.5 %"]);
    expect([dollars(63.3), dollars(12345.6)]).toEqual(["$63.30", "$12,346"]);
    expect([duration(45), duration(600), duration(9000)]).toEqual(["45 s", "10 min", "2.5 h"]);
  });
});
