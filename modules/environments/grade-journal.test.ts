/** Grades that outlive the service. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { GradeJournal } from "./grade-journal.ts";

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "journal-"));
  file = join(folder, "data", "grades.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true }));

const grade = { passed: true, reward: 1, reasons: ["é\n"], violations: [] };

describe("a grade journal", () => {
  it("gives after a restart what it was given before", () => {
    const one = new GradeJournal(file);
    one.add("a", grade);
    one.close();
    const two = new GradeJournal(file);
    expect(two.get("a")).toEqual(grade);
    expect(two.get("b")).toBeUndefined();
    two.close();
  });

  it("drops a line that a kill cut short, at any byte, and goes on after it", () => {
    const one = new GradeJournal(file);
    one.add("a", grade);
    const whole = readFileSync(file).length;
    one.add("b", grade);
    one.close();
    const bytes = readFileSync(file);
    for (let length = 0; length < bytes.length; length++) {
      writeFileSync(file, bytes.subarray(0, length));
      const cut = new GradeJournal(file);
      expect(cut.get("a") !== undefined, `${length} bytes`).toBe(length >= whole);
      expect(cut.get("b")).toBeUndefined();
      cut.add("c", grade);
      cut.close();
      const after = new GradeJournal(file);
      expect(after.get("c")).toEqual(grade);
      after.close();
    }
  });

  it("refuses a file of a newer version and leaves it as it is", () => {
    new GradeJournal(file).close();
    writeFileSync(file, '{"schemaVersion":2}\nwhatever\n');
    expect(() => new GradeJournal(file)).toThrow(/store-newer/);
    expect(readFileSync(file, "utf8")).toBe('{"schemaVersion":2}\nwhatever\n');
  });
});
