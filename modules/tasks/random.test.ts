import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { random } from "./random.ts";

const take = (count: number, ...seed: (number | string)[]): number[] => {
  const rng = random(...seed);
  return Array.from({ length: count }, () => rng.next());
};

describe("random", () => {
  it("gives the same stream for the same seed on every machine", () => {
    expect(take(3, 7, "pinned").map((value) => value * 2 ** 32)).toEqual([2259423868, 3518371510, 1390535692]);
  });

  it("gives unrelated streams for near seeds", () => {
    expect(take(1, 7)).not.toEqual(take(1, 8));
    expect(take(1, 1, "2")).not.toEqual(take(1, "1", 2));
    expect(take(1, "ab", "c")).not.toEqual(take(1, "a", "bc"));
  });

  it("spreads evenly", () => {
    const rng = random("even");
    const drawn = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 10_000; i += 1) {
      const value = rng.below(10);
      drawn[value] = (drawn[value] ?? 0) + 1;
    }
    // 1,000 each; five standard deviations are 150.
    for (const count of drawn) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  it("shuffles without losing, adding or changing the original", () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.integer(), (items, seed) => {
        const before = [...items];
        const shuffled = random(seed).shuffle(items);
        expect([...shuffled].sort()).toEqual([...items].sort());
        expect(items).toEqual(before);
      }),
    );
  });

  it("refuses to pick from nothing", () => {
    expect(() => random(1).pick([])).toThrow(RangeError);
  });
});
