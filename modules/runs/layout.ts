/**
 * Layout: the one place that knows where each file of a run lies under the target's home. Pure path arithmetic.
 */
import { join } from "node:path";
import { type Digest, shortDigest } from "../../schemas/digest.ts";

/** Paths under one home. */
export class Layout {
  readonly home: string;

  constructor(home: string) {
    this.home = home;
  }

  /** Everything of one run: configurations, outputs, logs. */
  run(runId: string): string {
    return join(this.home, "runs", runId);
  }

  /** A step's log: standard output and error of all its tries. */
  log(runId: string, stepId: string): string {
    return join(this.run(runId), `${stepId}.log`);
  }

  /** A step's own output folder. */
  output(runId: string, stepId: string): string {
    return join(this.run(runId), stepId);
  }

  /** The configuration file of a training step. */
  config(runId: string, stepId: string): string {
    return join(this.run(runId), `${stepId}.config.json`);
  }

  /** What the select step chose. */
  selection(runId: string): string {
    return join(this.run(runId), "selection.json");
  }

  /** The trajectories SFT trains on. */
  sftTrajectories(runId: string): string {
    return join(this.run(runId), "sft-trajectories.jsonl");
  }

  /** Records of started processes, by job key. */
  job(key: string): string {
    return join(this.home, "jobs", key);
  }

  /** A snapshot's code, unpacked. */
  code(snapshot: Digest): string {
    return join(this.home, "code", shortDigest(snapshot));
  }

  /** Expert trajectories, shared by every run that asks for the same ones. */
  collection(key: Digest): string {
    return join(this.home, "collections", shortDigest(key));
  }

  /** Attempts of an evaluation that have ended. */
  evaluationProgress(evaluationId: string): string {
    return join(this.home, "evaluations", `${evaluationId}.jsonl`);
  }

  /** File of an endpoint's API key. */
  apiKey(endpoint: string): string {
    return join(this.home, "keys", endpoint);
  }
}
