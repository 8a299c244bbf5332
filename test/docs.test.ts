/**
 * The documentation against the code: error codes, links, command lines, examples. Reads files, builds the command line's
 * program in this process; starts nothing.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { Command } from "commander";
import ts from "typescript";
import { beforeAll, describe, expect, it } from "vitest";
import { ServiceError, type ServiceErrorCode } from "../modules/environments/service-error.ts";

const PROJECT_DIR = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(PROJECT_DIR, path), "utf8");
const PAGES = ["README.md", ...readdirSync(join(PROJECT_DIR, "docs")).map((name) => `docs/${name}`)].filter((path) =>
  path.endsWith(".md"),
);

/** Stands for a value in a code: `endpoint-${status}` in the source, `endpoint-STATUS` on the page. */
const VALUE = "*";
const matches = (pattern: string, code: string) => {
  const [before = "", after = ""] = pattern.split(VALUE);
  return code.length > before.length + after.length && code.startsWith(before) && code.endsWith(after);
};

describe("error codes", () => {
  const inSource = codesInSource();
  const onPage = codesOnPage();

  it("of the source are all in docs/errors.md", () => {
    const documented = onPage.map(({ code }) => code);
    const missing = [...inSource].filter(([code]) => {
      return !documented.some((known) => known === code || (code.includes(VALUE) && matches(code, known)));
    });
    expect(missing).toEqual([]);
    expect(inSource.size).toBeGreaterThan(80);
  });

  it("of docs/errors.md are all in the source", () => {
    const known = [...inSource.keys()];
    const unknown = onPage.filter(
      ({ code }) => !known.some((one) => one === code || (one.includes(VALUE) && matches(one, code))),
    );
    expect(unknown).toEqual([]);
  });

  it("stand once in their section, and have a remedy", () => {
    const places = onPage.map(({ section, code }) => `${section}: ${code}`);
    expect(places.filter((place, index) => places.indexOf(place) !== index)).toEqual([]);
    expect(onPage.filter(({ when, todo }) => when === "" || todo === "")).toEqual([]);
  });

  it("of the environment service have its statuses, and are marked as infrastructure where they are", () => {
    const served = onPage.filter(({ section, status }) => section === "Environments" && status !== "–");
    const expected = served.map(({ code }) => {
      const { status, infrastructure } = new ServiceError(code as ServiceErrorCode, "");
      return [code, `${status}${infrastructure ? " ↻" : ""}`];
    });
    expect(served.map(({ code, status }) => [code, status])).toEqual(expected);
    expect(served.length).toBeGreaterThan(15);
  });
});

describe("links", () => {
  it.each(PAGES)("of %s lead to files and headings that are there", (page) => {
    const broken = [...read(page).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
      if (/^[a-z]+:/.test(target)) return [];
      const [path = "", anchor] = target.split("#");
      const file = path === "" ? page : join(dirname(page), path);
      if (!existsSync(join(PROJECT_DIR, file))) return [`${target}: no such file`];
      if (anchor === undefined || headings(file).includes(anchor)) return [];
      return [`${target}: no such heading`];
    });
    expect(broken).toEqual([]);
  });
});

describe("command lines", () => {
  let program: Command;
  beforeAll(async () => {
    program = await commandLine();
  });

  it.each(PAGES)("in %s name commands and options that there are", (page) => {
    const wrong = codeOf(read(page)).flatMap((line) => mistakesIn(line, program));
    expect(wrong).toEqual([]);
  });

  it("are loaded by the names that main.ts gives them, none missing", () => {
    const names = [...read("modules/cli/main.ts").matchAll(/names: \[(.+?)\]/g)].flatMap(([, list = ""]) =>
      [...list.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name),
    );
    expect(names.sort()).toEqual(program.commands.map((command) => command.name()).sort());
  });

  it("are found on the pages at all", () => {
    const found = PAGES.flatMap((page) => codeOf(read(page)).flatMap(usesIn));
    expect(found.length).toBeGreaterThan(30);
  });

  it("of every command's help end with an example, which names commands and options that there are", () => {
    const commands = allCommands(program).filter(({ hidden }) => !hidden);
    expect(commands.length).toBeGreaterThan(14);
    const without = commands.filter(({ command }) => !/\nExamples?:\n( {2}\$ uplift .+\n)+$/.test(helpOf(command)));
    expect(without.map(({ path }) => path)).toEqual([]);
    const wrong = commands.flatMap(({ command }) => {
      const examples = helpOf(command)
        .split("\n")
        .filter((line) => line.startsWith("  $ uplift "));
      return examples.flatMap((line) => mistakesIn(line, program));
    });
    expect(wrong).toEqual([]);
  });
});

/** Every code that the source gives a mistake, refusal or failure, with the file it is in. */
function codesInSource(): Map<string, string> {
  const codes = new Map<string, string>();
  for (const folder of ["schemas", "modules", "stacks"]) {
    for (const path of readdirSync(join(PROJECT_DIR, folder), { recursive: true, encoding: "utf8" })) {
      // Tests and what only tests use invent codes of their own.
      if (!/\.tsx?$/.test(path) || /\.test\.tsx?$/.test(path)) continue;
      if (/^(fixture|fake-services|test-.+)\.ts$/.test(basename(path))) continue;
      const file = join(PROJECT_DIR, folder, path);
      const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
      const visit = (node: ts.Node): void => {
        for (const code of codesAt(node)) codes.set(code, relative(PROJECT_DIR, file));
        ts.forEachChild(node, visit);
      };
      visit(source);
    }
  }
  return codes;
}

/** Functions and classes that take a code, and which of their arguments it is. */
const TAKES_CODE: Readonly<Record<string, number>> = {
  fromZod: 2,
  ServiceError: 0,
  InfrastructureFailure: 0,
  InfrastructureError: 0,
  errorBody: 0,
  // The mistakes of a YAML file: place, field, code.
  add: 2,
  refuse: 1,
  ownedOverrides: 2,
};

function codesAt(node: ts.Node): string[] {
  if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
    const position = ts.isIdentifier(node.expression) ? TAKES_CODE[node.expression.text] : undefined;
    // Other functions of the same name take other texts.
    return position === undefined ? [] : textsOf(node.arguments?.[position]).filter((text) => !text.includes(" "));
  }
  if (!ts.isObjectLiteralExpression(node)) return [];
  const members = new Map<string, ts.Expression>();
  for (const property of node.properties) {
    if (ts.isPropertyAssignment(property)) members.set(nameOf(property.name), property.initializer);
    else if (ts.isShorthandPropertyAssignment(property)) members.set(property.name.text, property.name);
  }
  // { "bad-request": [400, false], … } of the environment service.
  const values = [...members.values()];
  if (values.length > 0 && values.every((value) => ts.isArrayLiteralExpression(value) && isStatus(value.elements[0])))
    return [...members.keys()];
  // An Issue, a part of one, or the body of an HTTP error.
  const isIssue = ["todo", "found", "message", "path"].some((name) => members.has(name));
  // One of Automodel's own rules: its id is the code.
  const rule = members.has("check") ? textsOf(members.get("id")).filter((id) => id.startsWith("am-")) : [];
  return [...(isIssue ? textsOf(members.get("code")) : []), ...rule];
}

/** The texts an expression can be: a literal, a template with VALUE for what is filled in, either side of a choice. */
function textsOf(node: ts.Expression | undefined): string[] {
  if (node === undefined) return [];
  if (ts.isStringLiteralLike(node)) return [node.text];
  if (ts.isConditionalExpression(node)) return [...textsOf(node.whenTrue), ...textsOf(node.whenFalse)];
  if (!ts.isTemplateExpression(node)) return [];
  return [node.templateSpans.reduce((text, span) => `${text}${VALUE}${span.literal.text}`, node.head.text)];
}

function nameOf(name: ts.PropertyName): string {
  return ts.isIdentifier(name) || ts.isStringLiteralLike(name) ? name.text : name.getText();
}

function isStatus(node: ts.Expression | undefined): boolean {
  return node !== undefined && ts.isNumericLiteral(node) && /^[45]\d\d$/.test(node.text);
}

/** The rows of docs/errors.md. */
function codesOnPage() {
  let section = "";
  return read("docs/errors.md")
    .split("\n")
    .flatMap((line) => {
      if (line.startsWith("## ")) section = line.slice(3);
      if (!line.startsWith("| `")) return [];
      const [name = "", status = "", when = "", todo = ""] = line
        .slice(2)
        .split(/(?<!\\) \| ?/)
        .map((cell) => cell.trim());
      return [{ section, code: name.replaceAll("`", "").replace(/[A-Z]+/, VALUE), status, when, todo }];
    });
}

/** The anchors of a page's headings, as GitHub makes them. */
function headings(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** The code of a page, line by line: fenced and indented blocks, and what stands between backticks. */
function codeOf(markdown: string): string[] {
  let fenced = false;
  return markdown.split("\n").flatMap((line) => {
    if (line.trimStart().startsWith("```")) fenced = !fenced;
    else if (fenced || line.startsWith("    ")) return [line];
    return [...line.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
  });
}

/** What follows `uplift` on a line: words up to a comment, a pipe, or the next command. */
function usesIn(line: string): string[][] {
  return [...line.matchAll(/(?<![\w./-])uplift ([a-z-].*?)(?=#|\||;|&&|\buplift |$)/g)].map(([, words = ""]) =>
    words.trim().split(/\s+/),
  );
}

function mistakesIn(line: string, program: Command): string[] {
  return usesIn(line).flatMap((words) => {
    const [name, second] = words;
    let command = name === "--help" ? program : program.commands.find((one) => one.name() === name);
    if (!command) return [`${line.trim()}: there is no command ${name}`];
    const path = [name];
    const inner = command.commands.find((one) => one.name() === second);
    if (inner) {
      command = inner;
      path.push(second);
    }
    // `uplift endpoints --json` is `uplift endpoints list --json`.
    const byDefault = inner ? undefined : command.commands.find((one) => one.name() === "list");
    const flags = [command, byDefault].flatMap((one) => one?.options ?? []).flatMap(({ long, short }) => [long, short]);
    return words
      .filter((word) => /^--?[a-z]/.test(word))
      .map((word) => word.replace(/[=,.)].*$/, ""))
      .filter((flag) => flag !== "--help" && !flags.includes(flag))
      .map((flag) => `${line.trim()}: uplift ${path.join(" ")} has no option ${flag}`);
  });
}

/** The program that modules/cli/main.ts builds, without running it: every command file's register functions. */
async function commandLine(): Promise<Command> {
  const program = new Command("uplift");
  const main = read("modules/cli/main.ts");
  for (const [, file = "", register = ""] of main.matchAll(/import\("\.\/commands\/(.+?)"\)\)\.(\w+)/g)) {
    const module: Record<string, (program: Command) => void> = await import(`../modules/cli/commands/${file}`);
    module[register]?.(program);
  }
  return program;
}

function allCommands(program: Command): { path: string; command: Command; hidden: boolean }[] {
  const walk = (command: Command, path: string[]): { path: string; command: Command; hidden: boolean }[] =>
    command.commands.flatMap((inner) => {
      const own = [...path, inner.name()];
      const hidden = !command.createHelp().visibleCommands(command).includes(inner);
      return [{ path: own.join(" "), command: inner, hidden }, ...walk(inner, own)];
    });
  return walk(program, []);
}

/** What `--help` prints. */
function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({
    writeOut: (part) => {
      text += part;
    },
  });
  command.outputHelp();
  return text;
}
