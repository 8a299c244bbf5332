/**
 * Did you mean: a misspelt name and the names there are → the one that was probably meant. Pure.
 */

/** The name that was probably meant: the same but for case and dashes, begun alike, or a few letters off. */
export function nearest(written: string, names: readonly string[]): string | undefined {
  const plain = (name: string): string => name.toLowerCase().replace(/[-_\s]/g, "");
  const own = plain(written);
  const ranked = names
    .map((name) => {
      const other = plain(name);
      const begunAlike = Math.min(own.length, other.length) >= 4 && (own.startsWith(other) || other.startsWith(own));
      return { name, distance: begunAlike ? Math.min(1, distance(own, other)) : distance(own, other) };
    })
    .sort((a, b) => a.distance - b.distance);
  const [best] = ranked;
  return best && best.distance <= Math.floor(Math.max(own.length, 3) / 3) ? best.name : undefined;
}

/** Letters to insert, remove, replace or swap with their neighbour. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const change = (last[column - 1] as number) + (a[row - 1] === b[column - 1] ? 0 : 1);
      let best = Math.min(change, (last[column] as number) + 1, (next[column - 1] as number) + 1);
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1])
        best = Math.min(best, (before[column - 2] as number) + 1);
      next.push(best);
    }
    before = last;
    last = next;
  }
  return last[b.length] as number;
}
