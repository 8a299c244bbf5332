/**
 * Select: the expert's trajectories → what SFT trains on, the tasks RL trains on, and the held-out tasks that the
 * expert solved at least once. Writes both choices beside the run.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { z } from "zod";
import type { Run } from "../../../schemas/run.ts";
import type { Trajectory } from "../../../schemas/trajectory.ts";
import type { StepExecutor } from "../../runs/index.ts";
import {
  chooseRlTasks,
  chooseSftTrajectories,
  heldOutSolvable,
  passRates,
  readTrajectories,
} from "../../tasks/index.ts";
import { trajectoriesFile } from "./collect.ts";
import { type StepTools, taskSetOf } from "./step-tools.ts";

const Selection = z.object({
  rlTasks: z.array(z.string()),
  /** Tasks to evaluate on: held-out ones, or validation ones while settings are tuned. */
  heldOut: z.array(z.string()),
  /** Held-out tasks the expert never solved: no score on them would mean anything. */
  heldOutDropped: z.array(z.string()),
  sft: z.record(z.string(), z.unknown()).nullable(),
  rl: z.record(z.string(), z.unknown()),
});
type Selection = z.infer<typeof Selection>;

/** What a run's select step chose. */
export async function selectionOf(tools: StepTools, run: Run): Promise<Selection> {
  return Selection.parse(JSON.parse(await readFile(tools.layout.selection(run.id), "utf8")));
}

/** The executor. */
export function select(tools: StepTools): StepExecutor<"select"> {
  return {
    slots: 0,
    sharedKey: () => null,
    async advance({ run, job }) {
      const taskSet = await taskSetOf(tools, run);
      const train = new Set(taskSet.splits.train);
      const all = await readTrajectories(trajectoriesFile(tools, run));
      const rates = passRates(all);
      const trainable = all.filter(({ taskId }) => train.has(taskId));
      const rl = chooseRlTasks(passRates(trainable), job.rl);
      const heldOut = heldOutSolvable(taskSet.splits[job.evaluated], rates);
      await mkdir(tools.layout.run(run.id), { recursive: true });
      let sft: Selection["sft"] = null;
      if (job.sft) {
        const { chosen, report } = chooseSftTrajectories(trainable, job.sft);
        const kept = job.sft.maxTrajectories === null ? chosen : spread(chosen, job.sft.maxTrajectories);
        await writeFile(
          tools.layout.sftTrajectories(run.id),
          kept.map((trajectory) => `${JSON.stringify(trajectory)}\n`).join(""),
        );
        sft = { ...report, trajectories: kept.length };
      }
      const selection: Selection = {
        rlTasks: rl.ids,
        heldOut: heldOut.solvable,
        heldOutDropped: heldOut.dropped,
        sft,
        rl: { ...rl.report },
      };
      await writeFile(tools.layout.selection(run.id), JSON.stringify(selection));
      return {
        kind: "succeeded",
        result: {
          rlTasks: rl.ids.length,
          heldOut: heldOut.solvable.length,
          heldOutDropped: heldOut.dropped.length,
          sftTrajectories: sft?.trajectories ?? 0,
        },
      };
    },
    cancel: async () => {},
  };
}

/** At most `limit` trajectories, one of each task before a second of any: breadth teaches more than repetition. */
function spread(trajectories: readonly Trajectory[], limit: number): Trajectory[] {
  const seen = new Map<string, number>();
  const ranked = trajectories.map((trajectory) => {
    const rank = seen.get(trajectory.taskId) ?? 0;
    seen.set(trajectory.taskId, rank + 1);
    return { trajectory, rank };
  });
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, limit)
    .map(({ trajectory }) => trajectory);
}
