/**
 * Cluster steps: what each kind of job is carried out by in a cluster. Training, export and the probe are Slurm jobs; the expert
 * collects in a process of the controller's own pod; evaluations run inside the controller against endpoints of their own.
 */
import type { JobKind } from "../../schemas/job.ts";
import type { Database } from "../leaderboard/index.ts";
import type { StepExecutor, StepExecutors } from "../runs/index.ts";
import { clusterCheckpoint } from "./steps/cluster-checkpoint.ts";
import type { ClusterStepTools } from "./steps/cluster-tools.ts";
import { clusterTrain } from "./steps/cluster-train.ts";
import { collect } from "./steps/collect.ts";
import { evaluate } from "./steps/evaluate.ts";
import type { Endpoints } from "./steps/measure.ts";
import { asItStands, isOutage } from "./steps/outages.ts";
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

/** The same executor, which stays as it is while a service or the storage does not answer: a run does not fail by that. */
export function throughOutages<Kind extends JobKind>(executor: StepExecutor<Kind>): StepExecutor<Kind> {
  return {
    ...executor,
    async advance(context) {
      try {
        return await executor.advance(context);
      } catch (error) {
        if (!isOutage(error)) throw error;
        return asItStands(context, error.message);
      }
    },
  };
}
