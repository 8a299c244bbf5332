/**
 * Earlier run: what a recipe names in `dropAlwaysSolvedBy` → one run and what its RL training solved. Looked for when
 * a plan is submitted, so that a mistake costs nothing, and again when RL's tasks are chosen. Reads the store.
 */
import { type Issue, UserError } from "../../../schemas/error.ts";
import type { ObjectStore } from "../../../schemas/object-store.ts";
import type { RunState } from "../../../schemas/run.ts";
import type { PassRate } from "../../tasks/index.ts";
import { getPassRates, rolloutRatesKey } from "./pass-rates.ts";

/** A run as far as its choice needs it. */
export interface NamedRun {
  readonly id: string;
  readonly recipe: string;
  readonly state: RunState;
}

/** What a choice of RL tasks needs of an earlier run. */
export interface EarlierRun {
  readonly run: string;
  readonly rates: readonly PassRate[];
}

/**
 * The run of this id, else the newest succeeded run of this recipe, with the pass rates of its rollouts. Throws a
 * UserError: `earlier-run-unknown`, `earlier-run-other-tasks`, or `earlier-run-no-record`.
 */
export async function earlierRun(options: {
  /** A run's id or a recipe's name. */
  readonly name: string;
  /** Runs of that id or recipe, newest first. */
  readonly runs: readonly NamedRun[];
  /** Digest of the task set to choose from. */
  readonly taskSet: string;
  readonly store: Pick<ObjectStore, "exists" | "get">;
}): Promise<EarlierRun> {
  const { name, runs, taskSet, store } = options;
  const refuse = (issue: Omit<Issue, "path" | "asked">) =>
    new UserError({
      path: "rl.tasks.dropAlwaysSolvedBy",
      asked: `the tasks that "${name}" solved at every attempt are left out`,
      ...issue,
    });
  const run = runs.find(({ id }) => id === name) ?? runs.find(({ state }) => state === "succeeded");
  if (!run)
    throw refuse({
      code: "earlier-run-unknown",
      found:
        runs.length === 0
          ? "no run and no recipe's run has this name here"
          : `of this recipe's ${runs.length} runs none succeeded (the newest, ${runs[0]?.id}, is ${runs[0]?.state})`,
      allowed: "the id of a run, or the name of a recipe with a run that succeeded",
      todo: "uplift runs lists them; train that recipe first, or leave dropAlwaysSolvedBy out",
    });
  const made = await getPassRates(store, rolloutRatesKey(run.id));
  if (made === null)
    throw refuse({
      code: "earlier-run-no-record",
      found: `${run.id} (${run.state}) has no record of what its RL rollouts solved`,
      allowed: "a run whose RL training has ended with this version of Uplift",
      todo: "wait for its RL training to end, or run its recipe again",
    });
  if (made.taskSet !== taskSet)
    throw refuse({
      code: "earlier-run-other-tasks",
      found: `${run.id} trained on the task set ${made.taskSet}, this one is ${taskSet}`,
      allowed: "a run on the same tasks: same family, version, seed and sizes",
      todo: "name a run on these tasks, or leave dropAlwaysSolvedBy out",
    });
  return { run: run.id, rates: made.rates };
}
