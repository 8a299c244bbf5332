/**
 * uplift explain: an error code → what it means and what to do, from docs/errors.md. Reads that page.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { UserError } from "../../../schemas/error.ts";
import { nearest } from "../did-you-mean.ts";
import { type ErrorCode, findCode, parseErrorPage } from "../error-codes.ts";
import { PROJECT_DIR } from "../project.ts";
import { example, print, printJson } from "./options.ts";

/** Registers the command. */
export function explainCommand(program: Command): void {
  const command = program
    .command("explain [code]")
    .description("say what an error code means and what to do; without a code, list them all")
    .option("--json", "print JSON for scripts", false)
    .action(async (asked: string | undefined, { json }: { json: boolean }) => {
      const codes = parseErrorPage(await readFile(join(PROJECT_DIR, "docs/errors.md"), "utf8"));
      const found = asked === undefined ? codes : findCode(codes, asked);
      if (asked !== undefined && found.length === 0) throw unknownCode(asked, codes);
      if (json) printJson(found);
      else print((asked === undefined ? listOf(found) : found.map(pageOf).join("\n\n")).trimEnd());
    });
  example(command, "explain report-step-not-saved", "explain", "explain --json | jq -r '.[].code'");
}

function pageOf({ section, code, status, infrastructure, when, todo }: ErrorCode): string {
  const lines = [`${code}  (${section})`, `  When   ${when}`, `  To do  ${todo}`];
  if (status !== null) lines.push(`  HTTP   ${status}`);
  if (infrastructure) lines.push("  The infrastructure failed: whoever meets it tries again, and it counts for nobody");
  return lines.join("\n");
}

function listOf(codes: readonly ErrorCode[]): string {
  const sections = [...new Set(codes.map(({ section }) => section))];
  const width = Math.max(...codes.map(({ code }) => code.length));
  return sections
    .map((section) => {
      const rows = codes.filter((one) => one.section === section);
      return [section, ...rows.map(({ code, when }) => `  ${code.padEnd(width)}  ${when}`)].join("\n");
    })
    .join("\n\n");
}

function unknownCode(asked: string, codes: readonly ErrorCode[]): UserError {
  const names = codes.map(({ code }) => code);
  const meant = nearest(asked, names);
  const words = asked.split("-").filter((word) => word.length > 3);
  const related = [...new Set(names.filter((name) => words.some((word) => name.includes(word))))].slice(0, 5);
  const close = meant === undefined ? related : [meant, ...related.filter((name) => name !== meant)];
  return new UserError({
    code: "error-code-unknown",
    path: asked,
    asked: "this error code is explained",
    found: "docs/errors.md has none of that name",
    allowed: close.length > 0 ? `${close.join(", ")} come near it` : "the code in brackets at the end of a message",
    todo: meant === undefined ? "`uplift explain` lists them all" : `uplift explain ${meant}`,
  });
}
