/**
 * Data: what the pages read and the one thing they can ask for. The controller hands in functions over its stores, so
 * that pages know no database and no folder.
 */
import type { Checkpoint } from "../../schemas/checkpoint.ts";
import type { Digest } from "../../schemas/digest.ts";
import type { ClusterEndpoint, Endpoint, ServingSettings } from "../../schemas/endpoint.ts";
import type { Evaluation } from "../../schemas/evaluation.ts";
import type { Leaderboard } from "../../schemas/leaderboard.ts";
import type { Run, RunSummary } from "../../schemas/run.ts";
import type { Trajectory } from "../../schemas/trajectory.ts";

/** One curve of a training step, e.g. its reward. */
export type MetricSeries = {
  readonly stepId: string;
  /** What is drawn, e.g. "reward". */
  readonly name: string;
  readonly points: readonly { readonly step: number; readonly value: number }[];
};

/** What a page shows of an endpoint, wherever it runs; null is what nothing readable says of one on a cluster. */
export interface ShownEndpoint extends Pick<Endpoint, "name" | "url"> {
  readonly state: Endpoint["state"] | ClusterEndpoint["state"];
  readonly model: string | null;
  readonly checkpoint: Digest | null;
  readonly settings: ServingSettings | null;
  readonly expiresAt: string | null;
  readonly purpose: string | null;
}

/** A piece of a list: `offset` and `limit` count from the newest. */
export type Page = { readonly offset: number; readonly limit: number };

/**
 * Everything the pages show. A function of one thing answers null where there is no such thing, or throws a UserError,
 * whose message the page then shows.
 */
export interface DashboardData {
  leaderboard(): Promise<Leaderboard>;
  evaluation(id: string): Promise<Evaluation | null>;
  trajectory(evaluationId: string, task: string, attempt: number): Promise<Trajectory | null>;
  /** Newest first. */
  runs(page: Page): Promise<{ runs: readonly RunSummary[]; total: number }>;
  run(id: string): Promise<Run | null>;
  /** The end of a step's log; null where it has none. */
  log(runId: string, stepId: string): Promise<string | null>;
  /** Curves of a run's training steps. */
  metrics(runId: string): Promise<readonly MetricSeries[]>;
  endpoints(): Promise<readonly ShownEndpoint[]>;
  /** Newest first. */
  checkpoints(page: Page): Promise<{ checkpoints: readonly Checkpoint[]; total: number }>;
  /** Asks for the run's end. Throws UserError where it cannot be cancelled. */
  cancelRun(id: string): Promise<void>;
}
