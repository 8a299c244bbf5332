/**
 * Cluster steps: what each kind of job is carried out by in a cluster. Training, export and the probe are Slurm jobs; the expert
 * collects in a process of the controller's own pod; evaluations run inside the controller against endpoints of their own.
 */
import { UserError } from "../../schemas/error.ts";
import type { JobKind } from "../../schemas/job.ts";
import type { Database } from "../leaderboard/index.ts";
import type { StepExecutor, StepExecutors } from "../runs/index.ts";
import { clusterCheckpoint } from "./steps/cluster-checkpoint.ts";
import type { ClusterStepTools } from "./steps/cluster-tools.ts";
import { clusterTrain } from "./steps/cluster-train.ts";
import { collect } from "./steps/collect.ts";
import { evaluate } from "./steps/evaluate.ts";
import type { Endpoints } from "./steps/measure.ts";
import { probe } from "./steps/probe.ts";
import { publish } from "./steps/publish.ts";
import { select } from "./steps/select.ts";

/** The executors. Slots are nodes that serve: what Slurm queues takes none, and one process of the expert is none either. */
export function clusterExecutors(tools: ClusterStepTools, endpoints: Endpoints, db: Database): StepExecutors {
  return {
    collect: throughOutages({ ...collect(tools), slots: 0 }),
    select: throughOutages(select(tools)),
    train: throughOutages(clusterTrain(tools)),
    checkpoint: throughOutages(clusterCheckpoint(tools)),
    probe: throughOutages(probe(tools, endpoints)),
    evaluate: throughOutages(evaluate(tools, endpoints)),
    publish: throughOutages(publish(tools, db)),
  };
}

/** Codes of UserErrors that say a service does not answer, or has no nodes yet: nobody's mistake, and over by itself. */
const OUTAGES = new Set([
  "slurm-unreachable",
  "slurm-nodes-missing",
  "object-store-unreachable",
  "kubernetes-unreachable",
]);

/** The same executor, which stays as it is while a service does not answer: a run does not fail by that. */
export function throughOutages<Kind extends JobKind>(executor: StepExecutor<Kind>): StepExecutor<Kind> {
  return {
    ...executor,
    async advance(context) {
      try {
        return await executor.advance(context);
      } catch (error) {
        if (!(error instanceof UserError) || !OUTAGES.has(error.code)) throw error;
        const isRunning = context.run.steps.some(({ id, state }) => id === context.job.id && state === "running");
        // What runs goes on meanwhile; to say that it waits would have it started a second time.
        return isRunning ? { kind: "running", progress: null } : { kind: "waiting", why: error.message };
      }
    },
  };
}
