import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Marks, resultsOf } from "./fixture.ts";
import { estimate, excludesZero, gainOf, pairedGain, scoreOf, shareOfFailuresFixed, tally } from "./statistics.ts";

const score = (marks: Marks) => scoreOf(tally(resultsOf(marks), "as-preset"));
const share = { low: 0, high: 1 };

describe("the score", () => {
  it("is the mean per task, then over tasks, with Student's t over tasks", () => {
    // Task means 1, 1/2, 0: mean 1/2, sd 1/2, SE 1/(2√3) = 0.288675; t(0.975, 2) = 4.302653; half = 1.242069.
    expect(score({ a: "pp", b: "pf", c: "ff" })).toEqual({ mean: 0.5, low: 0, high: 1 });
    // Task means 3/4, 1/2, 1/2, 1/4: sd √(1/24) = 0.204124, SE 0.102062, t(0.975, 3) = 3.182446; half = 0.324807.
    const four = score({ a: "pppf", b: "ppff", c: "ffpp", d: "pfff" });
    expect(four.mean).toBe(0.5);
    expect(four.low).toBeCloseTo(0.5 - 0.324807, 5);
    expect(four.high).toBeCloseTo(0.5 + 0.324807, 5);
  });

  it("weighs tasks alike, however many attempts each has", () => {
    expect(score({ a: "pppppppp", b: "f" }).mean).toBe(0.5);
  });

  it("is not more certain for more attempts that agree: tasks are the clusters", () => {
    expect(score({ a: "p", b: "f", c: "p" })).toEqual(score({ a: "pppppppp", b: "ffffffff", c: "pppppppp" }));
  });

  it("is more certain for more attempts that differ within tasks", () => {
    const width = ({ low, high }: { low: number; high: number }) => high - low;
    // The same pass rate; the task means 0, 1/2, 1/2, 1 come closer together as attempts are added: 3/8 … 5/8.
    const few = score({ a: "ff", b: "pf", c: "fp", d: "pp" });
    const many = score({ a: "ffpffpfp", b: "pfpfpfpf", c: "fpfpfpfp", d: "pppfpfpf" });
    expect(many.mean).toBe(few.mean);
    expect(width(many)).toBeLessThan(width(few) / 2);
  });

  it("has an interval without width where all tasks score alike, and all that is possible for one task", () => {
    expect(score({ a: "pf", b: "fp", c: "pf" })).toEqual({ mean: 0.5, low: 0.5, high: 0.5 });
    expect(estimate([0.1, 0.1, 0.1], share)).toEqual({ mean: 0.1, low: 0.1, high: 0.1 });
    expect(score({ a: "pf" })).toEqual({ mean: 0.5, low: 0, high: 1 });
    expect(estimate([], { low: -1, high: 1 })).toEqual({ mean: 0, low: -1, high: 1 });
  });

  it("is the same to the last bit in any order of results", () => {
    const results = resultsOf({ a: "pffpffpp", b: "ppf", c: "fffffpf", d: "pip" });
    const expected = scoreOf(tally(results, "as-preset"));
    fc.assert(
      fc.property(fc.shuffledSubarray(results, { minLength: results.length }), (shuffled) => {
        expect(scoreOf(tally(shuffled, "as-preset"))).toEqual(expected);
      }),
    );
  });

  it("has the interval around the mean, inside what is possible, and moves with its values", () => {
    const values = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 60 });
    fc.assert(
      fc.property(values, fc.double({ min: -5, max: 5, noNaN: true }), (sample, shift) => {
        const clipped = estimate(sample, share);
        expect(clipped.low).toBeLessThanOrEqual(clipped.mean);
        expect(clipped.high).toBeGreaterThanOrEqual(clipped.mean);
        expect(clipped.low).toBeGreaterThanOrEqual(0);
        expect(clipped.high).toBeLessThanOrEqual(1);
        const open = { low: -1000, high: 1000 };
        const here = estimate(sample, open);
        const there = estimate(
          sample.map((value) => value + shift),
          open,
        );
        expect(there.mean).toBeCloseTo(here.mean + shift, 9);
        expect(there.high - there.low).toBeCloseTo(here.high - here.low, 6);
      }),
    );
  });

  it("covers the truth in about 95 of 100 experiments", () => {
    // A linear congruential generator with a fixed seed: the same 2000 experiments every time.
    let state = 12345;
    const random = () => {
      state = (state * 1664525 + 1013904223) % 2 ** 32;
      return state / 2 ** 32;
    };
    let covered = 0;
    for (let experiment = 0; experiment < 2000; experiment += 1) {
      // Tasks of difficulties spread evenly over 0.2 … 0.8 (true mean 0.5), 8 attempts each.
      const sample = Array.from({ length: 40 }, () => {
        const ability = 0.2 + 0.6 * random();
        return (
          Array.from({ length: 8 }, () => (random() < ability ? 1 : 0)).reduce<number>((sum, one) => sum + one, 0) / 8
        );
      });
      const { low, high } = estimate(sample, share);
      if (low <= 0.5 && 0.5 <= high) covered += 1;
    }
    expect(covered / 2000).toBeGreaterThan(0.93);
    expect(covered / 2000).toBeLessThan(0.97);
  });
});

describe("variants", () => {
  const marks = { a: "pi", b: "ii", c: "Pf" };

  it("leave out what the infrastructure broke, and name a task of which nothing is left", () => {
    const counts = tally(resultsOf(marks), "without-infrastructure");
    expect(counts.leftOut).toEqual(["b"]);
    expect(Object.fromEntries(counts.tasks)).toEqual({ a: { passed: 1, counted: 1 }, c: { passed: 1, counted: 2 } });
    expect(scoreOf(counts).mean).toBe(0.75);
  });

  it("count a broken attempt as a failure under the preset's rule", () => {
    expect(scoreOf(tally(resultsOf(marks), "as-preset")).mean).toBeCloseTo((0.5 + 0 + 0.5) / 3, 12);
  });

  it("fail a passed attempt that hit the turn limit", () => {
    expect(scoreOf(tally(resultsOf(marks), "turn-limit-as-failure")).mean).toBeCloseTo(0.5 / 3, 12);
  });
});

describe("the gain", () => {
  const base = { a: "pfff", b: "ffff", c: "pppp", d: "ppff" };
  const trained = { a: "pppf", b: "ffff", c: "pppf", d: "pppp" };

  it("is paired by task", () => {
    // Differences 1/2, 0, -1/4, 1/2: mean 3/16, sd 0.375, SE 0.1875; t(0.975, 3) = 3.182446; half = 0.596709.
    const gain = pairedGain(resultsOf(trained), resultsOf(base));
    expect(gain.gain.mean).toBeCloseTo(0.1875, 12);
    expect(gain.gain.low).toBeCloseTo(0.1875 - 0.596709, 5);
    expect(gain.gain.high).toBeCloseTo(0.1875 + 0.596709, 5);
    expect([gain.tasksBetter, gain.tasksSame, gain.tasksWorse]).toEqual([2, 1, 1]);
    // Base scores 7/16: it fails 9/16, and 3/16 of all is a third of that.
    expect(gain.failuresFixed).toBeCloseTo(1 / 3, 12);
    expect(excludesZero(gain.gain)).toBe(false);
  });

  it("is far more certain than two unpaired scores where hard tasks stay hard", () => {
    const easy = Object.fromEntries(Array.from({ length: 10 }, (_, task) => [`easy-${task}`, "ppppppff"]));
    const hard = Object.fromEntries(Array.from({ length: 10 }, (_, task) => [`hard-${task}`, "ffffffff"]));
    const better = Object.fromEntries(
      Array.from({ length: 10 }, (_, task) => [`hard-${task}`, task < 8 ? "pfffffff" : "ffffffff"]),
    );
    const before = tally(resultsOf({ ...easy, ...hard }), "as-preset");
    const after = tally(resultsOf({ ...easy, ...better }), "as-preset");
    expect(excludesZero(gainOf(after, before))).toBe(true);
    expect(scoreOf(after).low).toBeLessThan(scoreOf(before).high);
  });

  it("of a model over itself is zero without width, and turns its sign with the sides", () => {
    const same = pairedGain(resultsOf(base), resultsOf(base));
    expect(same.gain).toEqual({ mean: 0, low: 0, high: 0 });
    expect(same.tasksSame).toBe(4);
    const there = pairedGain(resultsOf(trained), resultsOf(base));
    const back = pairedGain(resultsOf(base), resultsOf(trained));
    expect(back.gain.mean).toBeCloseTo(-there.gain.mean, 12);
    expect(back.gain.low).toBeCloseTo(-there.gain.high, 12);
    expect(back.tasksWorse).toBe(there.tasksBetter);
  });

  it("takes only tasks both have: one that the infrastructure broke on either side is left out of that variant", () => {
    const gain = pairedGain(resultsOf({ a: "pp", b: "ii", c: "pf" }), resultsOf({ a: "ff", b: "ff", c: "ff" }));
    expect(gain.gainWithoutInfrastructure.mean).toBeCloseTo(0.75, 12);
    expect(gain.gain.mean).toBeCloseTo(0.5, 12);
  });

  it("says nothing of failures fixed where base failed nothing", () => {
    expect(pairedGain(resultsOf({ a: "pf" }), resultsOf({ a: "pp" })).failuresFixed).toBeNull();
    expect(shareOfFailuresFixed(1, 0)).toBeNull();
  });
});

describe("the write-up's arithmetic", () => {
  /** Spreads passes over tasks as evenly as they go: 46 tasks × 8 attempts with 131 passes, and so on. */
  const spread = (tasks: number, passes: number): Marks =>
    Object.fromEntries(
      Array.from({ length: tasks }, (_, task) => {
        const passed = Math.floor(((task + 1) * passes) / tasks) - Math.floor((task * passes) / tasks);
        return [`task-${task}`, "p".repeat(passed) + "f".repeat(8 - passed)];
      }),
    );
  const oneDigit = (share: number) => Number((share * 100).toFixed(1));

  it("gives 35.6 → 47.8 = +12.2 on 46 GitHub tasks, about one fifth of the failures fixed", () => {
    const base = resultsOf(spread(46, 131));
    const trained = resultsOf(spread(46, 176));
    const gain = pairedGain(trained, base);
    expect(oneDigit(scoreOf(tally(base, "as-preset")).mean)).toBe(35.6);
    expect(oneDigit(scoreOf(tally(trained, "as-preset")).mean)).toBe(47.8);
    expect(oneDigit(gain.gain.mean)).toBe(12.2);
    expect(gain.failuresFixed).toBeCloseTo(0.19, 2);
  });

  it("gives one fifth for 64.3 → 71.5 and about a quarter for 64.3 → 73.1 on the Unreal tasks", () => {
    expect(shareOfFailuresFixed(0.643, 0.715 - 0.643)).toBeCloseTo(0.2, 2);
    expect(shareOfFailuresFixed(0.643, 0.731 - 0.643)).toBeCloseTo(0.25, 2);
    expect(shareOfFailuresFixed(0.356, 0.454 - 0.356)).toBeCloseTo(0.15, 2);
  });
});
