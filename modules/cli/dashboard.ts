/**
 * Dashboard wiring: the controller's stores → the data the pages ask for.
 */
import type { ObjectStore } from "../../schemas/object-store.ts";
import { listCheckpoints } from "../checkpoints/index.ts";
import { type DashboardData, dashboardApp } from "../dashboard/index.ts";
import { type Database, findEvaluation, leaderboardReader, readTrace } from "../leaderboard/index.ts";
import type { Layout, RunStore } from "../runs/index.ts";
import { trl } from "../trainers/index.ts";
import { tailOf } from "./steps/step-tools.ts";

/** Lines of a log a page shows. */
const LOG_LINES = 200;

/** The pages over the controller's stores. */
export function dashboard(parts: {
  readonly runs: RunStore;
  readonly layout: Layout;
  readonly db: Database;
  readonly store: ObjectStore;
  readonly endpoints: DashboardData["endpoints"];
  /** False where the dashboard has a name of its own, and a login: see sameSite. */
  readonly local?: boolean;
}) {
  const { runs, layout, db, store, endpoints } = parts;
  const data: DashboardData = {
    leaderboard: leaderboardReader(db),
    evaluation: (id) => findEvaluation(db, id),
    async trajectory(evaluationId, task, attempt) {
      const evaluation = await findEvaluation(db, evaluationId);
      return evaluation && readTrace(store, evaluation, task, attempt);
    },
    runs: ({ offset, limit }) => runs.list(offset, limit),
    run: (id) => runs.get(id),
    async log(runId, stepId) {
      const lines = await tailOf(layout.log(runId, stepId), LOG_LINES);
      return lines.length > 0 ? lines.join("\n") : null;
    },
    async metrics(runId) {
      const run = await runs.get(runId);
      const trained = run.plan.jobs.filter((job) => job.kind === "train");
      const series = await Promise.all(
        trained.map(async ({ id }) => {
          const { metrics } = await trl.readProgress(layout.output(runId, id));
          const curve = (name: "reward" | "loss") => ({
            stepId: id,
            name,
            points: metrics.flatMap((line) => (line[name] === null ? [] : [{ step: line.step, value: line[name] }])),
          });
          return [curve("reward"), curve("loss")];
        }),
      );
      return series.flat().filter(({ points }) => points.length > 0);
    },
    endpoints,
    async checkpoints({ offset, limit }) {
      const all = await listCheckpoints(store);
      const newest = [...all].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
      return { checkpoints: newest.slice(offset, offset + limit), total: all.length };
    },
    cancelRun: (id) => runs.requestCancel(id),
  };
  return dashboardApp({ data, local: parts.local });
}
