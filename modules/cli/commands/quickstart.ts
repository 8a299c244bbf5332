/**
 * uplift quickstart: both quickstart recipes from nothing to the leaderboard, with one command.
 */
import type { Command } from "commander";
import { renderLeaderboard } from "../../leaderboard/index.ts";
import { loadLocalTarget } from "../project.ts";
import { vllmIsMissing } from "../vllm.ts";
import { example, print, type TargetOptions, withTarget } from "./options.ts";
import { followToTheEnd, onPlatform, planAll, submit } from "./train.ts";

/** The two recipes whose rows stand beside the base model's. */
const RECIPES = ["recipes/quickstart-sft-rl.ts", "recipes/quickstart-rl.ts"];

/** Registers the command. */
export function quickstartCommand(program: Command): void {
  const command = program
    .command("quickstart")
    .description("train the small model with both recipes and print the leaderboard (about ten minutes on 2 cores)");
  withTarget(command).action(async (options: TargetOptions) => {
    const server = (await vllmIsMissing()) ? "light" : undefined;
    if (server && !options.json) print("vLLM can't be installed on this machine: the light server measures instead.");
    // The model and its two recipes are of a size for one machine.
    await loadLocalTarget(options.target);
    const planned = await planAll(RECIPES, options.target, { server });
    await onPlatform(options, async (connection) => {
      const runs = [];
      for (const one of planned) runs.push(await submit(connection, one, { again: false, json: options.json }));
      await followToTheEnd(
        connection,
        runs.map(({ id }) => id),
        options.json,
      );
      const board = await connection.client.leaderboard();
      if (options.json) return print(JSON.stringify({ event: "leaderboard", leaderboard: board }));
      print();
      print(renderLeaderboard(board).trimEnd());
      print();
      print(`Dashboard, with every attempt's trace: ${connection.dashboard}`);
      print("The platform stays up; `npx uplift destroy` ends it.");
    });
  });
  example(command, "quickstart");
}
