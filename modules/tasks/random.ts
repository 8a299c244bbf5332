/**
 * Random: a text or number seed → a repeatable stream of choices.
 * The generator is sfc32 (Chris Doty-Humphrey's Small Fast Counter, PractRand), seeded from SHA-256, so that equal
 * seeds give equal streams on every machine and near seeds give unrelated ones. Pure; never Math.random.
 */
import { createHash } from "node:crypto";

/** A repeatable source of choices. */
export interface Random {
  /** A number in [0, 1), 32 bits of it random. */
  next(): number;
  /** A whole number in [0, below). */
  below(below: number): number;
  /** True with this probability. */
  chance(probability: number): boolean;
  /** One of the items; throws on an empty list, which is always a defect of the caller. */
  pick<T>(items: readonly T[]): T;
  /** The items in a random order, as a new list. */
  shuffle<T>(items: readonly T[]): T[];
}

/** A stream that depends on every part of the seed, e.g. `random(7, "split", "held-out")`. */
export function random(...seed: readonly (number | string)[]): Random {
  const bytes = createHash("sha256").update(JSON.stringify(seed)).digest();
  let a = bytes.readUInt32LE(0);
  let b = bytes.readUInt32LE(4);
  let c = bytes.readUInt32LE(8);
  let counter = 1;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  // sfc32's authors discard its first outputs until the counter has mixed in.
  for (let i = 0; i < 12; i += 1) next();
  return {
    next,
    below,
    chance: (probability) => next() < probability,
    pick: (items) => {
      if (items.length === 0) throw new RangeError("nothing to pick from");
      return items[below(items.length)] as (typeof items)[number];
    },
    shuffle: (items) => {
      const shuffled = [...items];
      for (let i = shuffled.length - 1; i > 0; i -= 1) {
        const j = below(i + 1);
        const held = shuffled[i] as (typeof shuffled)[number];
        shuffled[i] = shuffled[j] as (typeof shuffled)[number];
        shuffled[j] = held;
      }
      return shuffled;
    },
  };
}
