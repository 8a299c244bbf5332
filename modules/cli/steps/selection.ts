/**
 * Selection: what a run's select steps chose, as one file beside the run. The first writes it; where RL's tasks are
 * chosen after a probe, the second fills that part in, by rename, because evaluations read the file meanwhile.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import type { Run } from "../../../schemas/run.ts";
import type { StepTools } from "./step-tools.ts";

const Selection = z.object({
  /** Null until they are chosen. */
  rlTasks: z.array(z.string()).nullable(),
  /** Tasks to evaluate on: held-out ones, or validation ones while settings are tuned. */
  heldOut: z.array(z.string()),
  /** Held-out tasks the expert never solved: no score on them would mean anything. */
  heldOutDropped: z.array(z.string()),
  sft: z.record(z.string(), z.unknown()).nullable(),
  rl: z.record(z.string(), z.unknown()).nullable(),
});
export type Selection = z.infer<typeof Selection>;

/** What a run's select steps have chosen. */
export async function selectionOf(tools: StepTools, run: Run): Promise<Selection> {
  return Selection.parse(JSON.parse(await readFile(tools.layout.selection(run.id), "utf8")));
}

/** The tasks a run's RL trains on; a defect where they are asked for before they are chosen. */
export async function rlTasksOf(tools: StepTools, run: Run): Promise<string[]> {
  const { rlTasks } = await selectionOf(tools, run);
  if (rlTasks === null) throw new Error(`${run.id} has not chosen its RL tasks yet`);
  return rlTasks;
}

/** Writes a run's selection, whole or not at all. */
export async function writeSelection(tools: StepTools, run: Run, selection: Selection): Promise<void> {
  const path = tools.layout.selection(run.id);
  const unfinished = `${path}.${process.pid}`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(unfinished, JSON.stringify(selection));
  await rename(unfinished, path);
}
