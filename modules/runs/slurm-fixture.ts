/** For tests: a batch job with an answer to every question, and changes to it. */
import type { BatchJob } from "./batch-scheduler.ts";

export function batchJob(changes: Partial<BatchJob> = {}): BatchJob {
  return {
    key: "run-1.sft.2",
    name: "run-1.sft",
    script: "#!/usr/bin/env bash\nset -euo pipefail\necho hello\n",
    env: { RUN_DIR: "/shared/runs/run-1", NOTE: "two words" },
    workingDirectory: "/shared/runs/run-1",
    logPath: "/shared/runs/run-1/logs/sft.log",
    nodes: 2,
    gpusPerNode: 8,
    partition: "training",
    account: "research",
    walltimeSeconds: 14_430,
    signal: "B:USR1@300",
    ...changes,
  };
}
