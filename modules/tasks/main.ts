/**
 * Main: this module's commands as a process, as a run's jobs execute them.
 *   generate  seed and sizes → a task-set file
 *   collect   task-set file and environment service → a trajectories file, resumed after a kill
 * Reads argv; writes the file it is told to. Exits 1 for a user's mistake, 75 (EX_TEMPFAIL) when the environment
 * service stays unreachable or the process was asked to stop: run again, it goes on where it was.
 */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { canonicalJson, shortDigest } from "../../schemas/digest.ts";
import { UserError } from "../../schemas/error.ts";
import { SplitName } from "../../schemas/task.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";
import { collectTrajectories } from "./collect.ts";
import { InfrastructureError } from "./environment-client.ts";
import { connectHttpEnvironment } from "./http-environment.ts";
import { buildTaskSet, readTaskSet, type TaskSetRequest, taskSetDigest } from "./task-set.ts";
import { openTrajectoryAppender, readTrajectories } from "./trajectory-file.ts";

const EXIT_TEMPORARY_FAILURE = 75;
const PROGRESS_EVERY_MILLISECONDS = 5000;

interface CollectOptions {
  taskSet: string;
  environment: string;
  out: string;
  attempts: number;
  seed: number;
  concurrency: number;
  split: SplitName[];
  tries: number;
}

function wholeNumber(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw new InvalidArgumentError("a whole number is needed.");
  return Number(text);
}

function positiveNumber(text: string): number {
  const value = wholeNumber(text);
  if (value < 1) throw new InvalidArgumentError("a whole number above 0 is needed.");
  return value;
}

function splitNames(text: string): SplitName[] {
  return text.split(",").map((name) => {
    const split = SplitName.safeParse(name.trim());
    if (!split.success)
      throw new InvalidArgumentError(`"${name}" is no split; there are ${SplitName.options.join(", ")}.`);
    return split.data;
  });
}

async function generate({ out, ...request }: TaskSetRequest & { out: string }): Promise<void> {
  const taskSet = await buildTaskSet(request);
  await mkdir(dirname(out), { recursive: true });
  // Renamed into place, so that a reader never sees half a file.
  await writeFile(`${out}.partial`, `${canonicalJson(taskSet)}\n`);
  await rename(`${out}.partial`, out);
  const { splits, groups } = taskSet;
  console.log(
    `${taskSet.tasks.length} tasks in ${Object.keys(groups).length} near-copy groups: train ${splits.train.length}, validation ${splits.validation.length}, held-out ${splits["held-out"].length} (${shortDigest(taskSetDigest(taskSet))}) → ${out}`,
  );
}

async function collect(options: CollectOptions): Promise<void> {
  const taskSet = await readTaskSet(options.taskSet);
  const taskIds = [...new Set(options.split)].flatMap((split) => taskSet.splits[split]);
  const done = await readTrajectories(options.out, { repair: true });
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort());
  const environment = await connectHttpEnvironment({ url: options.environment, taskSet, tries: options.tries });
  const file = await openTrajectoryAppender(options.out);
  const total = taskIds.length * options.attempts;
  const wanted = new Set(taskIds);
  const counts = { passed: 0, failed: 0, infrastructure: 0 };
  let count = 0;
  const add = ({ taskId, attempt, outcome }: Trajectory): void => {
    if (!wanted.has(taskId) || attempt >= options.attempts) return;
    counts[outcome.kind] += 1;
    count += 1;
  };
  for (const trajectory of done) add(trajectory);
  const report = (): void =>
    console.log(
      `${count}/${total} attempts: ${counts.passed} passed, ${counts.failed} failed, ${counts.infrastructure} infrastructure failures`,
    );
  let lastReport = 0;
  try {
    const { remaining } = await collectTrajectories({
      taskSet,
      taskIds,
      attempts: options.attempts,
      seed: options.seed,
      concurrency: options.concurrency,
      environment,
      done,
      signal: stop.signal,
      onTrajectory: async (trajectory) => {
        await file.append(trajectory);
        add(trajectory);
        if (Date.now() - lastReport < PROGRESS_EVERY_MILLISECONDS) return;
        lastReport = Date.now();
        report();
      },
    });
    report();
    if (remaining > 0) process.exitCode = EXIT_TEMPORARY_FAILURE;
  } finally {
    await file.close();
    await environment.close();
  }
}

const program = new Command("tasks").description("Task sets and expert trajectories.");

program
  .command("generate")
  .description("Make a task set: tasks, near-copy groups, splits.")
  .requiredOption("--out <file>", "where to write it")
  .option("--family <name>", "the task family", "repo-chores")
  .option("--seed <number>", "the same seed gives the same bytes", wholeNumber, 7)
  .option("--tasks <number>", "all tasks, near copies among them", wholeNumber, 300)
  .option("--held-out <number>", "tasks to measure on", wholeNumber, 48)
  .option("--validation <number>", "tasks to tune settings on", wholeNumber, 24)
  .addHelpText("after", "\nExample:\n  npx tsx modules/tasks/main.ts generate --seed 7 --tasks 300 --out tasks.json")
  .action(generate);

program
  .command("collect")
  .description("Let the scripted expert attempt tasks; append each trajectory to a file. Goes on where it was.")
  .requiredOption("--task-set <file>", "what `generate` wrote")
  .requiredOption("--environment <url>", "the environment service")
  .requiredOption("--out <file>", "trajectories, one JSON a line")
  .option("--attempts <number>", "attempts a task", positiveNumber, 8)
  .option("--seed <number>", "the same seed gives the same trajectories", wholeNumber, 7)
  .option("--split <names>", "which tasks, e.g. train,held-out", splitNames, [...SplitName.options])
  .option("--concurrency <number>", "attempts at once", positiveNumber, 16)
  .option("--tries <number>", "tries of one request while the service does not answer", positiveNumber, 8)
  .addHelpText(
    "after",
    "\nExample:\n  npx tsx modules/tasks/main.ts collect --task-set tasks.json --environment http://127.0.0.1:7010 --out trajectories.jsonl",
  )
  .action(collect);

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof UserError) {
    console.error(error.message);
    process.exitCode = 1;
  } else if (error instanceof InfrastructureError) {
    console.error(`${error.message} [${error.code}]. Run the same command again: it goes on where it was.`);
    process.exitCode = EXIT_TEMPORARY_FAILURE;
  } else {
    throw error;
  }
}
