/**
 * uplift runs | logs | checkpoints | leaderboard: what has run and what came of it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { shortDigest } from "../../../schemas/digest.ts";
import { UserError } from "../../../schemas/error.ts";
import type { Run } from "../../../schemas/run.ts";
import { renderLeaderboard } from "../../leaderboard/index.ts";
import type { ControllerClient } from "../controller-client.ts";
import { describe, hasEnded } from "../follow.ts";
import { connected } from "../remote-session.ts";
import { example, print, printJson, type TargetOptions, withTarget } from "./options.ts";

/** Registers the four commands. */
export function runCommands(program: Command): void {
  const runs = program.command("runs [run]").description("list runs, or show the steps of one");
  withTarget(runs).action((id: string | undefined, { target, json }: TargetOptions) =>
    connected(target, ({ client }) => (id ? showRun(client, id, json) : listRuns(client, json))),
  );
  example(runs, "runs", "runs quickstart-rl-20260102-150405-1a2b --json", "runs --target aws-p5en");

  const logs = program
    .command("logs <run> [step]")
    .description("print a step's log; without a step, that of the step that failed, runs, or ended last")
    .option("-f, --follow", "go on until the run ends", false);
  withTarget(logs).action((id: string, step: string | undefined, options: TargetOptions & { follow: boolean }) =>
    connected(options.target, ({ client }) => printLog(client, id, step, options)),
  );
  example(logs, "logs quickstart-rl-20260102-150405-1a2b rl --follow");

  const checkpoints = program.command("checkpoints [run]").description("list checkpoints with digest and lineage");
  withTarget(checkpoints).action((id: string | undefined, { target, json }: TargetOptions) =>
    connected(target, ({ client }) => listCheckpoints(client, id, json)),
  );
  example(checkpoints, "checkpoints", "checkpoints quickstart-rl-20260102-150405-1a2b");

  const leaderboard = program.command("leaderboard").description("print the leaderboard");
  withTarget(leaderboard).action(({ target, json }: TargetOptions) =>
    connected(target, async ({ client, dashboard }) => {
      const board = await client.leaderboard();
      if (json) return printJson(board);
      print(renderLeaderboard(board).trimEnd());
      print(`\nWith traces: ${dashboard}`);
    }),
  );
  example(leaderboard, "leaderboard", "leaderboard --json | jq '.boards[0].rows[0].score'");
}

async function listRuns(client: ControllerClient, json: boolean): Promise<void> {
  const list = await client.runs(0, 50);
  if (json) return printJson(list);
  if (list.total === 0) print("No runs yet. Start one: uplift train recipes/quickstart-rl.ts");
  for (const run of list.runs) print(`${run.id.padEnd(48)} ${run.state.padEnd(11)} ${run.createdAt.slice(0, 19)}`);
  if (list.total > list.runs.length) print(`… and ${list.total - list.runs.length} older ones`);
}

async function printLog(
  client: ControllerClient,
  id: string,
  step: string | undefined,
  { follow, json }: { readonly follow: boolean; readonly json: boolean },
): Promise<void> {
  const stepId = step ?? interesting(await client.run(id));
  let offset = 0;
  for (;;) {
    const ended = hasEnded(await client.run(id));
    for (;;) {
      const { text, next } = await client.log(id, stepId, offset);
      if (next === offset) break;
      if (json) printJson({ step: stepId, offset, text });
      else process.stdout.write(text);
      offset = next;
    }
    if (!follow || ended) break;
    await sleep(1000);
  }
  if (offset === 0 && !json) print(`${stepId} has written no log`);
}

async function listCheckpoints(client: ControllerClient, id: string | undefined, json: boolean): Promise<void> {
  const all = await client.checkpoints();
  const of = id ? await client.run(id) : null;
  const used = of ? new Set(of.steps.map(({ result }) => result?.checkpoint)) : null;
  const listed = all.filter(({ digest }) => used === null || used.has(digest));
  if (json) return printJson(listed);
  if (listed.length === 0) print("No checkpoints yet.");
  for (const { digest, name, stage, step, parent, files } of listed) {
    const size = files.reduce((sum, { bytes }) => sum + bytes, 0) / 2 ** 20;
    const from = parent === null ? "base model" : `from ${shortDigest(parent)}`;
    print(
      `${shortDigest(digest)}  ${name.padEnd(36)} ${stage} ${String(step).padStart(4)}  ${size.toFixed(1)} MiB  ${from}`,
    );
  }
}

async function showRun(client: ControllerClient, id: string, json: boolean): Promise<void> {
  const run = await client.run(id);
  if (json) return printJson(run);

  print(`${run.id}  ${run.state}`);
  const { commit, uncommitted, digest } = run.snapshot;
  print(`plan ${shortDigest(run.plan.digest)}, code ${shortDigest(digest)}, commit ${commit ?? "none"}`);
  if (uncommitted) print(`uncommitted: ${uncommitted.files.join(", ")}`);
  for (const step of run.steps) print(`  ${step.id.padEnd(20)} ${describe(step)}`);
  if (run.error) print(run.error);
}

function interesting(run: Run): string {
  const failed = run.steps.find(({ state }) => state === "failed");
  const running = run.steps.find(({ state }) => state === "running");
  const ended = [...run.steps]
    .filter(({ endedAt }) => endedAt)
    .sort((a, b) => ((a.endedAt ?? "") < (b.endedAt ?? "") ? 1 : -1))[0];
  const step = failed ?? running ?? ended;
  if (step) return step.id;
  throw new UserError({
    code: "nothing-started",
    path: run.id,
    asked: "the log of a step",
    found: "no step of this run has started",
    allowed: "a run with a started step",
    todo: "wait a little",
  });
}
