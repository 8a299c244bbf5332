/**
 * A number that depends on assumptions → a range, and which assumption moves it most. Pure.
 *
 * Each assumption is moved alone to its fast and its slow value; the effects are put together as the root of the sum
 * of their squares, because they have nothing to do with each other: all of them at their worst at once is not a
 * forecast. Below expected the ratios are put together, so that low stays above zero.
 */
import type { Range } from "../../../schemas/estimate.ts";
import { ASSUMPTIONS, type AssumptionName, EXPECTED, NAMES, type Values } from "./assumptions.ts";

/** A range before rounding, with what an assumption's slow value adds to it. */
export interface Spread {
  readonly range: Range;
  /** The largest first; those that add nothing are left out. */
  readonly causes: readonly { readonly name: AssumptionName; readonly adds: number }[];
}

/** The range of a number that is above zero. */
export function spread(estimate: (values: Values) => number): Spread {
  const expected = estimate(EXPECTED);
  const causes: { name: AssumptionName; adds: number }[] = [];
  let slower = 0;
  let faster = 0;
  for (const name of NAMES) {
    const { fast, slow } = ASSUMPTIONS[name];
    const adds = Math.max(0, estimate({ ...EXPECTED, [name]: slow }) - expected);
    const ratio = Math.max(0, expected / estimate({ ...EXPECTED, [name]: fast }) - 1);
    slower += adds * adds;
    faster += ratio * ratio;
    if (adds > 0) causes.push({ name, adds });
  }
  causes.sort((a, b) => b.adds - a.adds || (a.name < b.name ? -1 : 1));
  const range = { low: expected / (1 + Math.sqrt(faster)), expected, high: expected + Math.sqrt(slower) };
  return { range, causes };
}

/** Rounds to so many digits behind the point; halves go up. */
export function roundTo(value: number, digits: number): number {
  const scale = 10 ** digits;
  return Math.round(value * scale) / scale;
}

/** Applies one function to all three numbers; it must not turn their order round. */
export function mapRange({ low, expected, high }: Range, change: (value: number) => number): Range {
  return { low: change(low), expected: change(expected), high: change(high) };
}

/** A range whose bounds are found one by one. */
export function mapBounds(of: (bound: keyof Range) => number): Range {
  return { low: of("low"), expected: of("expected"), high: of("high") };
}

/** Of stages one after another. Lows and highs are added as they are: stages share their assumptions. */
export function sumRanges(ranges: readonly Range[], digits: number): Range {
  return mapBounds((bound) =>
    roundTo(
      ranges.reduce((total, range) => total + range[bound], 0),
      digits,
    ),
  );
}
