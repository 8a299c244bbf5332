/**
 * A misspelt name + the names that exist → the one that was meant. Pure.
 */

/** Letters to insert, remove or change to get from one word to the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** The known name with the fewest letters to change, at most `reach`; the first of equals, null where none is near. */
export function nearest(name: string, known: readonly string[], reach: number): string | null {
  let best: string | null = null;
  let least = reach + 1;
  for (const candidate of known) {
    const letters = distance(name, candidate);
    if (letters < least) [best, least] = [candidate, letters];
  }
  return best;
}
