/**
 * Numbers → text for the sentences of an estimate. No locale: the same number is the same bytes everywhere. Pure.
 */

/** 1234567.8 → "1,234,568", and with digits = 1 "1,234,567.8". */
export function number(value: number, digits = 0): string {
  const [whole = "0", fraction] = value.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** Three digits that matter: 0.0123 → "0.0123", 12.34 → "12.3", 12345 → "12,345"; no zeros at the end of a fraction. */
export function about(value: number): string {
  const size = Math.abs(value);
  const text = number(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** 0.35 → "35 %". */
export function percent(share: number): string {
  return `${about(share * 100)} %`;
}

/** 63.3 → "$63.30"; whole dollars from $1,000 on. */
export function dollars(value: number): string {
  return `$${number(value, value < 1000 ? 2 : 0)}`;
}

/** 7384 → "2.1 h", 95 → "95 s", 600 → "10 min". */
export function duration(seconds: number): string {
  if (seconds < 120) return `${about(seconds)} s`;
  if (seconds < 7200) return `${about(seconds / 60)} min`;
  return `${about(seconds / 3600)} h`;
}
