/**
 * Options and output that every command shares.
 */
import type { Command } from "commander";

/** Adds --target and --json. */
export function withTarget(command: Command): Command {
  return command
    .option("-t, --target <name>", "target: a name in stacks/targets, or a path", "local")
    .option("--json", "print JSON for scripts", false);
}

/** What withTarget gives. */
export interface TargetOptions {
  readonly target: string;
  readonly json: boolean;
}

/** Adds an example to a command's help. */
export function example(command: Command, ...lines: string[]): Command {
  const text = lines.map((line) => `  $ uplift ${line}`).join("\n");
  return command.addHelpText("after", `\n${lines.length === 1 ? "Example" : "Examples"}:\n${text}`);
}

/** One JSON value as a line. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** One line for a person. */
export function print(line = ""): void {
  process.stdout.write(`${line}\n`);
}
