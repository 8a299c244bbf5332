/**
 * Options and output that every command shares.
 */
import type { Command } from "commander";
import type { ServerKind } from "../../../schemas/endpoint.ts";
import { UserError } from "../../../schemas/error.ts";
import type { PlanOptions } from "../make-plan.ts";

/** Adds --target and --json. */
export function withTarget(command: Command): Command {
  return command
    .option("-t, --target <name>", "target: a name in stacks/targets, or a path", "local")
    .option("--json", "print JSON for scripts", false);
}

/** Adds --server and --validate: what of a plan a recipe does not say. */
export function withPlanOptions(command: Command): Command {
  return command
    .option(
      "--server <kind>",
      "vllm or light: the server that is measured on; default: the recipe's, else the target's",
    )
    .option("--validate", "evaluate on the validation tasks and publish nothing: for tuning settings", false);
}

/** What withPlanOptions gives. */
export interface PlanCommandOptions {
  readonly server?: string;
  readonly validate: boolean;
}

/** The same, parsed. */
export function planOptions({ server, validate }: PlanCommandOptions): PlanOptions {
  return { server: parseServer(server), split: validate ? "validation" : "held-out" };
}

/** A --server option. */
export function parseServer(text: string | undefined): ServerKind | undefined {
  if (text === undefined || text === "vllm" || text === "light") return text;
  throw new UserError({
    code: "option-invalid",
    path: "--server",
    asked: `the server "${text}"`,
    found: "there is no such server",
    allowed: "vllm or light",
    todo: "use one of the two",
  });
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
