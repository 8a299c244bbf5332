/**
 * Shell: values → words of a bash script that mean exactly these values. Pure.
 */

/** Variables of a launch's values that a script fills in on the node; every other "$" stays a dollar sign. */
const VARIABLE = /\$\{(?:RUN_DIR|MASTER_ADDR|MASTER_PORT)\}/g;
const SAFE = /^[A-Za-z0-9_@%+=:,./-]+$/;

/** One word; `${RUN_DIR}` and the like are filled in when the script runs. */
export function word(value: string): string {
  if (SAFE.test(value)) return value;
  let text = "";
  let end = 0;
  for (const match of value.matchAll(VARIABLE)) {
    text += escaped(value.slice(end, match.index)) + match[0];
    end = match.index + match[0].length;
  }
  return `"${text}${escaped(value.slice(end))}"`;
}

function escaped(text: string): string {
  return text.replace(/[\\"$`]/g, "\\$&");
}

/** An array's words, on one line if they are short. */
export function list(values: readonly string[]): string {
  const words = values.map(word);
  const line = `(${words.join(" ")})`;
  return line.length <= 100 ? line : `(\n${words.map((one) => `  ${one}\n`).join("")})`;
}

/** Slurm's time format: days-hours:minutes:seconds. */
export function slurmTime(seconds: number): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  return `${days}-${two((seconds % 86_400) / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
}
