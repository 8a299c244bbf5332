/**
 * uplift quickstart: both quickstart recipes from nothing to the leaderboard, with one command.
 */
import type { Command } from "commander";
import { renderLeaderboard } from "../../leaderboard/index.ts";
import { vllmIsMissing } from "../vllm.ts";
import { example, print, type TargetOptions, withTarget } from "./options.ts";
import { followToTheEnd, planAll, submit, upSession } from "./train.ts";

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
    const planned = await planAll(RECIPES, options.target, { server });
    const session = await upSession(options);
    const runs = [];
    for (const one of planned) runs.push(await submit(session, one, { again: false, json: options.json }));
    await followToTheEnd(
      session,
      runs.map(({ id }) => id),
      options.json,
    );
    const board = await session.client.leaderboard();
    if (options.json) return print(JSON.stringify({ event: "leaderboard", leaderboard: board }));
    print();
    print(renderLeaderboard(board).trimEnd());
    print();
    print(`Dashboard, with every attempt's trace: ${session.outputs.controllerUrl}`);
    print("The platform stays up; `npx uplift destroy` ends it.");
  });
  example(command, "quickstart");
}
