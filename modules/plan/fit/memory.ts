/**
 * Terms and sums of one GPU's memory: bytes with the arithmetic behind them → rounded GiB, largest first. Pure.
 */
import { GIB } from "./constants.ts";

/** One thing that takes memory on a GPU. `how` is the arithmetic in words and numbers. */
export interface Term {
  readonly name: string;
  readonly gib: number;
  readonly how: string;
}

/** Memory of one GPU in one phase, and what may be used of it. */
export interface Memory {
  readonly phase: string;
  readonly terms: Term[];
  readonly totalGib: number;
  readonly limitGib: number;
}

/** Two decimals: enough for a reader, and the same on every machine. */
export function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** A term from bytes. */
export function term(name: string, bytes: number, how: string): Term {
  return { name, gib: bytes / GIB, how };
}

/** A phase's terms with their sum. Terms of nothing are left out. */
export function memory(phase: string, terms: readonly Term[], limitGib: number): Memory {
  const shown = terms
    .map((each) => ({ ...each, gib: round(each.gib) }))
    .filter((each) => each.gib > 0)
    .sort((a, b) => b.gib - a.gib || (a.name < b.name ? -1 : 1));
  return {
    phase,
    terms: shown,
    totalGib: round(terms.reduce((sum, each) => sum + each.gib, 0)),
    limitGib: round(limitGib),
  };
}

/** Used part of the limit; more than 1 does not fit. */
export function load({ totalGib, limitGib }: Memory): number {
  return totalGib / limitGib;
}

/** Whether a phase fits. */
export function fits(one: Memory): boolean {
  return one.totalGib <= one.limitGib;
}

/** The phase that is nearest to, or furthest over, its limit. */
export function tightest(phases: readonly [Memory, ...Memory[]]): Memory {
  return phases.reduce((worst, each) => (load(each) > load(worst) ? each : worst));
}

/** "27.32 billion". */
export function billions(count: number): string {
  return count >= 1e9 ? `${round(count / 1e9)} billion` : `${round(count / 1e6)} million`;
}

/** "12.5 %". */
export function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}
