/**
 * Main: argv → one command. A UserError is printed without a stack and exits 1; anything else is a defect and shows
 * its stack.
 */
import { Command, CommanderError } from "commander";
import { UserError } from "../../schemas/error.ts";
import { RemoteError } from "./controller-client.ts";

const program = new Command("uplift")
  .description("Infrastructure as code for post-training: a typed recipe in, a number on a leaderboard out.")
  .showHelpAfterError("(uplift --help lists the commands)")
  .exitOverride();
const json = process.argv.includes("--json");
// Commander's own words on a mistake; commands inherit this.
if (json) program.configureOutput({ writeErr: () => {} });

/** What a file of commands/ registers. Loading all of them takes a second, which one command need not pay. */
const REGISTER: readonly { readonly names: readonly string[]; load(): Promise<(program: Command) => void> }[] = [
  { names: ["plan"], load: async () => (await import("./commands/plan.ts")).planCommand },
  { names: ["diff"], load: async () => (await import("./commands/diff.ts")).diffCommand },
  { names: ["explain"], load: async () => (await import("./commands/explain.ts")).explainCommand },
  { names: ["up", "preview", "destroy"], load: async () => (await import("./commands/platform.ts")).platformCommands },
  {
    names: ["train", "attach", "resume", "cancel"],
    load: async () => (await import("./commands/train.ts")).trainCommands,
  },
  {
    names: ["runs", "logs", "checkpoints", "leaderboard"],
    load: async () => (await import("./commands/runs.ts")).runCommands,
  },
  { names: ["serve", "endpoints"], load: async () => (await import("./commands/serving.ts")).servingCommands },
  { names: ["quickstart"], load: async () => (await import("./commands/quickstart.ts")).quickstartCommand },
  { names: ["preflight"], load: async () => (await import("./commands/preflight.ts")).preflightCommand },
  { names: ["migrate"], load: async () => (await import("./commands/migrate.ts")).migrateCommand },
  { names: ["controller"], load: async () => (await import("./commands/controller.ts")).controllerCommand },
];
const asked = REGISTER.find(({ names }) => names.includes(process.argv[2] ?? ""));
for (const { load } of asked ? [asked] : REGISTER) (await load())(program);

try {
  await program.parseAsync();
} catch (error) {
  // 130 is set where somebody interrupted it.
  process.exitCode = error instanceof CommanderError ? error.exitCode : (process.exitCode ?? 1);
  if (!(error instanceof CommanderError)) report(error);
  else if (json && error.exitCode !== 0) report(misused(error));
}

/** What commander says of a command line that it cannot read; to people it has said it. */
function misused({ message }: CommanderError): UserError {
  const command = asked ? `uplift ${process.argv[2]}` : "uplift";
  // "error: unknown option '--taget'\n(Did you mean --target?)"; without a command there is help, and no such words.
  const words = message.startsWith("error: ") ? message.slice("error: ".length).replaceAll("\n", " ") : "";
  return new UserError({
    ...{ code: "command-line-invalid", path: command, asked: "the command line is read" },
    found: words.replace(/\.$/, "") || "it names no command",
    allowed: `what \`${command} --help\` lists`,
    todo: "correct it",
  });
}

/** A mistake goes to scripts as JSON on stdout, to people as text on stderr. */
function report(error: unknown): void {
  if (error instanceof UserError || error instanceof RemoteError) {
    const issues = error instanceof UserError ? error.issues : [{ code: error.code, message: error.message }];
    if (json) process.stdout.write(`${JSON.stringify({ error: { issues } })}\n`);
    else process.stderr.write(`${error.message}\n`);
  } else process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
}
