/**
 * uplift controller: the long-lived process that `uplift up` starts. Not for hands.
 */
import type { Command } from "commander";
import { z } from "zod";
import { runController } from "../controller.ts";

const Options = z.object({
  home: z.string(),
  port: z.coerce.number().int(),
  environmentsUrl: z.string(),
  python: z.string(),
  slots: z.coerce.number().int().positive(),
  threads: z.coerce.number().int().positive(),
  endpointHours: z.coerce.number().positive(),
});

/** Registers the command, hidden from help. */
export function controllerCommand(program: Command): void {
  program
    .command("controller", { hidden: true })
    .description("run the controller; uplift up starts it")
    .requiredOption("--home <folder>")
    .requiredOption("--port <n>")
    .requiredOption("--environments-url <url>")
    .requiredOption("--python <path>")
    .requiredOption("--slots <n>")
    .requiredOption("--threads <n>")
    .requiredOption("--endpoint-hours <n>")
    .action((options: unknown) => runController(Options.parse(options)));
}
