/**
 * Main: argv → one command. A UserError is printed without a stack and exits 1; anything else is a defect and shows
 * its stack.
 */
import { Command, CommanderError } from "commander";
import { UserError } from "../../schemas/error.ts";
import { controllerCommand } from "./commands/controller.ts";
import { diffCommand } from "./commands/diff.ts";
import { explainCommand } from "./commands/explain.ts";
import { planCommand } from "./commands/plan.ts";
import { platformCommands } from "./commands/platform.ts";
import { quickstartCommand } from "./commands/quickstart.ts";
import { runCommands } from "./commands/runs.ts";
import { servingCommands } from "./commands/serving.ts";
import { trainCommands } from "./commands/train.ts";
import { RemoteError } from "./controller-client.ts";

const program = new Command("uplift")
  .description("Infrastructure as code for post-training: a typed recipe in, a number on a leaderboard out.")
  .showHelpAfterError("(uplift --help lists the commands)")
  .exitOverride();

planCommand(program);
diffCommand(program);
explainCommand(program);
platformCommands(program);
trainCommands(program);
runCommands(program);
servingCommands(program);
quickstartCommand(program);
controllerCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = error instanceof CommanderError ? error.exitCode : 1;
  if (!(error instanceof CommanderError)) report(error, process.argv.includes("--json"));
}

/** A mistake goes to scripts as JSON on stdout, to people as text on stderr. */
function report(error: unknown, json: boolean): void {
  if (error instanceof UserError || error instanceof RemoteError) {
    const issues = error instanceof UserError ? error.issues : [{ code: error.code, message: error.message }];
    if (json) process.stdout.write(`${JSON.stringify({ error: { issues } })}\n`);
    else process.stderr.write(`${error.message}\n`);
  } else process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
}
