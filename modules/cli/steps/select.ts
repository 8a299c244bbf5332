/**
 * Select: trajectories and pass rates → what SFT trains on, the tasks RL trains on, and the held-out tasks that the
 * expert solved at least once. Writes the choices beside the run.
 */
import { mkdir, writeFile } from "node:fs/promises";
import type { Job } from "../../../schemas/job.ts";
import type { Run } from "../../../schemas/run.ts";
import type { TaskSet } from "../../../schemas/task.ts";
import type { Trajectory } from "../../../schemas/trajectory.ts";
import type { StepContext, StepExecutor } from "../../runs/index.ts";
import {
  chooseRlTasks,
  chooseSftTrajectories,
  heldOutSolvable,
  leaveOutAlwaysSolved,
  type PassRate,
  passRates,
  readTrajectories,
} from "../../tasks/index.ts";
import { trajectoriesFile } from "./collect.ts";
import { type EarlierRun, earlierRun } from "./earlier-run.ts";
import { getPassRates } from "./pass-rates.ts";
import { type Selection, selectionOf, writeSelection } from "./selection.ts";
import { type StepTools, taskSetOf } from "./step-tools.ts";

type SelectJob = Extract<Job, { kind: "select" }>;
type SftRule = NonNullable<SelectJob["sft"]>;
type RlRule = NonNullable<SelectJob["rl"]>;

/** The executor. */
export function select(tools: StepTools): StepExecutor<"select"> {
  return {
    slots: 0,
    sharedKey: () => null,
    async advance(context) {
      const { run, job } = context;
      const taskSet = await taskSetOf(tools, run);
      const ofExpert =
        job.evaluated !== null || job.rl?.of === "expert" ? await readTrajectories(trajectoriesFile(tools, run)) : [];
      const made = { taskSet, ofExpert, onTraining: onTraining(ofExpert, taskSet) };
      const chosen = job.evaluated === null ? null : await chooseByExpert(tools, run, job, made);
      const rl = job.rl ? await chooseForRl(tools, context, job.rl, made) : null;
      await writeSelection(tools, run, {
        ...(chosen ?? (await selectionOf(tools, run))),
        rlTasks: rl?.ids ?? null,
        rl: rl?.report ?? null,
      });
      return { kind: "succeeded", result: { ...(rl && rlResult(rl)), ...(chosen && expertResult(chosen)) } };
    },
    cancel: async () => "gone",
  };
}

/** What is chosen from. */
interface Material {
  readonly taskSet: TaskSet;
  /** The expert's trajectories, where they are needed; and those on training tasks. */
  readonly ofExpert: readonly Trajectory[];
  readonly onTraining: readonly Trajectory[];
}

/** What the expert's trajectories decide beside RL's tasks. */
type ExpertChoice = Pick<Selection, "heldOut" | "heldOutDropped" | "sft">;

async function chooseByExpert(tools: StepTools, run: Run, job: SelectJob, made: Material): Promise<ExpertChoice> {
  const asked = job.evaluated === null ? [] : made.taskSet.splits[job.evaluated];
  const heldOut = heldOutSolvable(asked, passRates(made.ofExpert));
  const sft = job.sft && (await chooseForSft(tools, run, job.sft, made.onTraining));
  return { heldOut: heldOut.solvable, heldOutDropped: heldOut.dropped, sft };
}

async function chooseForSft(tools: StepTools, run: Run, rule: SftRule, trajectories: readonly Trajectory[]) {
  const { chosen, report } = chooseSftTrajectories(trajectories, rule);
  const kept = rule.maxTrajectories === null ? chosen : spread(chosen, rule.maxTrajectories);
  await mkdir(tools.layout.run(run.id), { recursive: true });
  await writeFile(
    tools.layout.sftTrajectories(run.id),
    kept.map((trajectory) => `${JSON.stringify(trajectory)}\n`).join(""),
  );
  return { ...report, trajectories: kept.length };
}

/** Tasks for RL, why the others are none, and the run whose always-solved ones were left out. */
interface RlChoice {
  readonly ids: string[];
  readonly report: Record<string, unknown>;
  readonly earlier: EarlierRun | null;
  readonly alwaysSolved: number;
}

async function chooseForRl(
  tools: StepTools,
  context: StepContext<"select">,
  rule: RlRule,
  made: Material,
): Promise<RlChoice> {
  const { run } = context;
  const { ids, report } = chooseRlTasks(await ratesFor(tools, context, rule, made), rule);
  const name = rule.dropAlwaysSolvedBy;
  if (name === null) return { ids, report: { ...report }, earlier: null, alwaysSolved: 0 };
  // Its own earlier runs may be meant, never itself.
  const runs = (await tools.runsNamed(name)).filter(({ id }) => id !== run.id);
  const earlier = await earlierRun({ name, runs, taskSet: run.plan.taskSet.digest, store: tools.store });
  const { kept, dropped } = leaveOutAlwaysSolved(ids, earlier, run.plan.recipe.rl.promptsPerStep);
  return {
    ids: kept,
    report: { ...report, chosen: kept.length, alwaysSolved: dropped.length, alwaysSolvedBy: earlier.run },
    earlier,
    alwaysSolved: dropped.length,
  };
}

/** The pass rates that the rule names: the expert's, or those that a probe of this run has measured. */
async function ratesFor(
  tools: StepTools,
  { run, resultOf }: StepContext<"select">,
  { of }: RlRule,
  made: Material,
): Promise<PassRate[]> {
  if (of === "expert") return passRates(made.onTraining);
  if (!run.plan.jobs.some(({ id, kind }) => id === of && kind === "probe"))
    throw new Error(`${run.id} is to choose RL tasks by the pass rates of ${of}, which is no probe of it`);
  const key = String(resultOf(of).passRates);
  const probed = await getPassRates(tools.store, key);
  if (probed === null) throw new Error(`the pass rates of ${of} are not in the store (${key})`);
  return probed.rates;
}

function onTraining(trajectories: readonly Trajectory[], taskSet: TaskSet): Trajectory[] {
  const train = new Set(taskSet.splits.train);
  return trajectories.filter(({ taskId }) => train.has(taskId));
}

function expertResult({ heldOut, heldOutDropped, sft }: ExpertChoice): Record<string, unknown> {
  return {
    heldOut: heldOut.length,
    heldOutDropped: heldOutDropped.length,
    sftTrajectories: sft?.trajectories ?? 0,
  };
}

function rlResult({ ids, earlier, alwaysSolved }: RlChoice): Record<string, unknown> {
  return { rlTasks: ids.length, ...(earlier && { alwaysSolved, alwaysSolvedBy: earlier.run }) };
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
