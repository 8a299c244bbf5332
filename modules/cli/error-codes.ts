/**
 * Error codes: docs/errors.md → what each code means and what to do. The page is the one place where codes are
 * documented; a test compares it with the source. Pure: takes the page's text.
 */

/** One row of the page. A code of two sections is two rows: what to do differs. */
export interface ErrorCode {
  readonly section: string;
  /** As it stands there; capital letters stand for a value: "endpoint-STATUS". */
  readonly code: string;
  /** Status over HTTP; null where the code is not met there. */
  readonly status: number | null;
  /** Nobody's mistake: whoever meets it tries again. */
  readonly infrastructure: boolean;
  readonly when: string;
  readonly todo: string;
}

/** The page's rows, in its order. Tables are found by their column names, whatever else they have and in what order. */
export function parseErrorPage(markdown: string): ErrorCode[] {
  const codes: ErrorCode[] = [];
  let section = "";
  let columns: string[] = [];
  for (const line of markdown.split("\n")) {
    const heading = /^#{2,}\s+(.*?)\s*$/.exec(line)?.[1];
    if (heading !== undefined) section = plainText(heading);
    if (!line.trimStart().startsWith("|")) {
      columns = [];
      continue;
    }
    const cells = cellsOf(line);
    if (columns.length === 0) columns = cells.map((cell) => cell.toLowerCase());
    else if (!cells.every((cell) => /^:?-+:?$/.test(cell))) {
      const row = rowOf(section, columns, cells);
      if (row !== null) codes.push(row);
    }
  }
  return codes;
}

/** Rows of a code; a row with a value in it ("endpoint-STATUS") is found by what it stands for ("endpoint-502"). */
export function findCode(codes: readonly ErrorCode[], asked: string): ErrorCode[] {
  const exact = codes.filter(({ code }) => code === asked);
  if (exact.length > 0) return exact;
  return codes.filter(({ code }) => /[A-Z]/.test(code) && patternOf(code).test(asked));
}

function patternOf(code: string): RegExp {
  const parts = code.split(/[A-Z]+/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[a-z0-9-]+")}$`);
}

function rowOf(section: string, columns: readonly string[], cells: readonly string[]): ErrorCode | null {
  const cell = (name: string) => cells[columns.indexOf(name)] ?? "";
  const code = /^`([^`]+)`/.exec(cell("code"))?.[1];
  if (code === undefined) return null;
  const status = /\d{3}/.exec(cell("status"))?.[0];
  return {
    section,
    code,
    status: status === undefined ? null : Number(status),
    infrastructure: cell("status").includes("↻"),
    when: plainText(cell("when")),
    todo: plainText(cell("what to do")),
  };
}

function cellsOf(line: string): string[] {
  // "\|" is a bar inside a cell.
  return line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** Without links and emphasis; code keeps its backticks. */
function plainText(markdown: string): string {
  return markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replace(/\*\*([^*]+)\*\*/g, "$1");
}
