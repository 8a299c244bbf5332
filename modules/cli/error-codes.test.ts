import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { explainCommand } from "./commands/explain.ts";
import { findCode, parseErrorPage } from "./error-codes.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/errors.md"), "utf8");

describe("the page of error codes", () => {
  it("is read row by row, whatever the order of columns, with links and bars in cells", () => {
    const codes = parseErrorPage(
      [
        ...[
          "# Codes",
          "| not | a table |",
          "",
          "## First *one*",
          "",
          "| what to do | code | when |",
          "| :-- | --- | --: |",
        ],
        "| see [a page](a.md) | `a-code` | `x \\| y` is wrong |",
        ...["text", "", "## Second", "| code | status | when | what to do |", "| --- | --- | --- | --- |"],
        "| `b-CODE` | 503 ↻ | **down** | again |",
      ].join("\n"),
    );
    expect(codes).toEqual([
      {
        section: "First *one*",
        code: "a-code",
        status: null,
        infrastructure: false,
        when: "`x | y` is wrong",
        todo: "see a page",
      },
      { section: "Second", code: "b-CODE", status: 503, infrastructure: true, when: "down", todo: "again" },
    ]);
  });

  it("gives every code of docs/errors.md a meaning and a remedy", () => {
    const codes = parseErrorPage(page);
    expect(codes.length).toBe(
      page
        .split("\n")
        .filter((line) => line.startsWith("| `"))
        .filter((line) => !/^\| `(GET|POST|PUT|DELETE) /.test(line)).length,
    );
    expect(codes.length).toBeGreaterThan(80);
    expect(codes.filter(({ when, todo, section }) => when === "" || todo === "" || section === "")).toEqual([]);
  });

  it("finds a code in all of its sections, and one that carries a value", () => {
    const codes = parseErrorPage(page);
    expect(findCode(codes, "attempt-unknown").map(({ section }) => section)).toEqual(["Environments", "Leaderboard"]);
    expect(findCode(codes, "endpoint-502").map(({ code }) => code)).toEqual(["endpoint-STATUS"]);
    expect(findCode(codes, "endpoint-unreachable").map(({ code }) => code)).toEqual(["endpoint-unreachable"]);
    expect(findCode(codes, "no-such-code")).toEqual([]);
  });
});

describe("uplift explain", () => {
  let printed: string;
  const write = process.stdout.write;
  beforeEach(() => {
    printed = "";
    process.stdout.write = (text) => {
      printed += text;
      return true;
    };
  });
  afterEach(() => {
    process.stdout.write = write;
  });
  const explain = async (...args: string[]) => {
    const program = new Command("uplift").exitOverride();
    explainCommand(program);
    await program.parseAsync(["node", "uplift", "explain", ...args]);
    return printed;
  };

  it("says what a code means and what to do", async () => {
    expect(await explain("report-step-not-saved")).toBe(
      "report-step-not-saved  (Recipe and plan)\n" +
        "  When   `report` names a step of which no checkpoint is saved\n" +
        "  To do  report a multiple of `saveEverySteps` or the last step\n",
    );
  });

  it("lists all codes by section, and gives them to scripts", async () => {
    expect(await explain()).toMatch(/^Recipe and plan\n {2}recipe-missing +there is no recipe file at this path\n/);
    printed = "";
    const codes = JSON.parse(await explain("--json"));
    expect(codes.length).toBe(parseErrorPage(page).length);
    expect(codes[0]).toMatchObject({ code: "recipe-missing", section: "Recipe and plan" });
  });

  it("names what comes near a code that there is not", async () => {
    await expect(explain("report-step-not-save")).rejects.toThrow(
      /report-step-not-saved, .*come near it\. To do: uplift explain report-step-not-saved\. \[error-code-unknown\]/,
    );
    await expect(explain("zzz")).rejects.toThrow(/`uplift explain` lists them all/);
  });
});
