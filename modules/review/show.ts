/**
 * Values of a plan → the words a reviewer reads. Pure. No locale: the same plans give the same text everywhere.
 * What a recipe's author wrote may be hostile (control characters that move a terminal's cursor, pages of text), so
 * every text that comes from a plan goes through `printable`.
 */
import { canonicalJson, digestJson, shortDigest } from "../../schemas/digest.ts";

/** Longest value that is shown whole, characters. */
const LONGEST_VALUE = 240;

/** "1,280", "0.25", "1e-5". */
export function showNumber(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-3) return value.toExponential();
  const [whole = "", fraction] = String(value).split(".");
  if (whole.includes("e") || (fraction?.includes("e") ?? false)) return String(value);
  const grouped = whole.replace(/(\d)(?=(\d{3})+$)/g, "$1,");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** At most so many digits behind the point, none that say nothing: 8, 61.2. */
export function showRounded(value: number, digits = 1): string {
  return showNumber(Number(value.toFixed(digits)));
}

/** "8 GiB" of bytes. */
export function showGib(bytes: number): string {
  return `${showRounded(bytes / 2 ** 30, 2)} GiB`;
}

/** "$1,234", "$0.42"; the sign is the caller's. */
export function showDollars(dollars: number): string {
  const size = Math.abs(dollars);
  return `$${showRounded(size, size < 100 ? 2 : 0)}`;
}

/** "+$412", "-$7.5"; null where nothing to be seen changes. */
export function showDollarChange(before: number, after: number): string | null {
  const change = showDollars(after - before);
  return change === "$0" ? null : `${after > before ? "+" : "-"}${change}`;
}

/** "+33.4%"; "" where there was nothing before. */
export function showPercentChange(before: number, after: number): string {
  if (before === 0 || before === after) return "";
  return `${after > before ? "+" : "-"}${showRounded(Math.abs(after / before - 1) * 100)}%`;
}

/** "128k" for contexts of a name, else "98,304 tokens". */
export function showContext(tokens: number): string {
  return tokens >= 1024 && tokens % 1024 === 0 ? `${tokens / 1024}k` : `${showNumber(tokens)} tokens`;
}

/** Any JSON value: texts in quotes, lists and groups as JSON, long ones cut with their digest so that two differ. */
export function showValue(value: unknown): string {
  if (value === undefined) return "none";
  if (typeof value === "number") return showNumber(value);
  if (typeof value === "string" && /^sha256:[0-9a-f]{64}$/.test(value)) return value.slice(0, "sha256:".length + 12);
  const text = printable(typeof value === "string" ? JSON.stringify(value) : canonicalJson(value));
  if (text.length <= LONGEST_VALUE) return text;
  return `${text.slice(0, LONGEST_VALUE)}… (${showNumber(text.length)} characters, ${shortDigest(digestJson(value))})`;
}

/** A text on one line; control, formatting and direction characters are shown as what they are. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) =>
    character === "\n" ? "\\n" : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** "8 → 16 GiB": the unit of two quantities is said once. */
export function showArrow(before: string, after: string): string {
  const quantity = /^([\d.,]+)( [^\d]+)$/;
  const [old, now] = [quantity.exec(before), quantity.exec(after)];
  return `${old !== null && old[2] === now?.[2] ? old[1] : before} → ${after}`;
}

/** "1 task", "18 tasks". */
export function countOf(count: number, noun: string): string {
  return `${showNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** "a", "a and b", "a, b and c". */
export function andOf(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** Longest side of a line about arithmetic, characters. */
const LONGEST_SENTENCE = 300;
/** What stands before the first difference, where the beginning had to go. */
const LED_IN_BY = 80;

/** Two texts that differ, each at most 300 characters: where they are longer, from a little before they differ. */
export function showDifference(before: string, after: string): readonly [string, string] {
  if (Math.max(before.length, after.length) <= LONGEST_SENTENCE) return [before, after];
  let same = 0;
  while (same < before.length && before[same] === after[same]) same += 1;
  const from = same < LONGEST_SENTENCE / 2 ? 0 : same - LED_IN_BY;
  return [windowOf(before, from), windowOf(after, from)];
}

function windowOf(text: string, from: number): string {
  const front = from === 0 ? "" : "…";
  if (front.length + text.length - from <= LONGEST_SENTENCE) return front + wholeCharacters(text.slice(from));
  return `${front}${wholeCharacters(text.slice(from, from + LONGEST_SENTENCE - 2))}…`;
}

/** Not through the middle of a character that takes two units. */
function wholeCharacters(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
}

/** The first names of a list, and how many more there are. */
export function someOf(names: readonly string[], most: number): string {
  const shown = names.slice(0, most).map(printable).join(", ");
  return names.length <= most ? shown : `${shown} and ${showNumber(names.length - most)} more`;
}
