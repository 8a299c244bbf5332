/**
 * Grade journal: every grade ever given, one JSON line each, so that a second call gives the same one.
 * Comes in: attempt id and grade. Goes out: the grade of an id. Appends to one file; reads it once at start.
 */
import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { Grade } from "../../schemas/environment.ts";
import { UserError } from "../../schemas/error.ts";

const VERSION = 1;
const Header = z.object({ schemaVersion: z.number().int() });
const Line = z.object({ id: z.string(), grade: Grade });

/** The grades of one data folder; one service at a time may have it open. */
export class GradeJournal {
  readonly #fd: number;
  readonly #grades = new Map<string, Grade>();

  constructor(file: string) {
    mkdirSync(dirname(file), { recursive: true });
    const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
    // A line without its end is one that a kill cut short: nobody was told that grade, so it never was.
    const whole = bytes.lastIndexOf(10) + 1;
    const lines = bytes
      .toString("utf8", 0, whole)
      .split("\n")
      .filter((line) => line !== "");
    const header = lines.shift();
    if (header !== undefined) {
      const { schemaVersion } = Header.parse(JSON.parse(header));
      if (schemaVersion > VERSION) throw newerStore(file, schemaVersion);
    }
    for (const line of lines) {
      const { id, grade } = Line.parse(JSON.parse(line));
      this.#grades.set(id, grade);
    }
    this.#fd = openSync(file, "a", 0o600);
    if (whole < bytes.length) ftruncateSync(this.#fd, whole);
    if (header === undefined) writeSync(this.#fd, `${JSON.stringify({ schemaVersion: VERSION })}\n`);
  }

  /** The grade this id was given, if it was. */
  get(id: string): Grade | undefined {
    return this.#grades.get(id);
  }

  /** Written before anyone is told, in one write: a kill leaves the line whole or cut, never mixed. */
  add(id: string, grade: Grade): void {
    const line = Buffer.from(`${JSON.stringify({ id, grade })}\n`);
    let written = 0;
    while (written < line.length) written += writeSync(this.#fd, line, written);
    this.#grades.set(id, grade);
  }

  /** Closes the file. */
  close(): void {
    closeSync(this.#fd);
  }
}

function newerStore(file: string, found: number): UserError {
  return new UserError({
    code: "store-newer",
    path: file,
    asked: `grades of schema version ${VERSION} or older can be read`,
    found: `the file has version ${found}, so a newer Uplift wrote it`,
    allowed: `schema version 1 to ${VERSION}`,
    todo: "use that newer Uplift, or another data folder; nothing was changed",
  });
}
