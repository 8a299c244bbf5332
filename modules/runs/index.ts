/**
 * Runs: a plan and a project folder → a snapshot, a run record, started and watched processes.
 * Takes plans over HTTP; reads and writes the database it is given and the folders of its layout.
 */
export { newRun, type RunsApp, runsApp, Submission } from "./app.ts";
export type { BatchJob, BatchScheduler, BatchState } from "./batch-scheduler.ts";
export { Layout } from "./layout.ts";
export { type ProcessJob, ProcessScheduler, type ProcessState } from "./process-scheduler.ts";
export { Reconciler, type ReconcilerOptions } from "./reconciler.ts";
export { SlurmCommands } from "./slurm-commands.ts";
export { SlurmRest } from "./slurm-rest.ts";
export { SlurmScheduler } from "./slurm-scheduler.ts";
export { type PackedSnapshot, packSnapshot, storeSnapshot } from "./snapshot.ts";
export type { Ended, StepContext, StepExecutor, StepExecutors, StepStatus } from "./steps.ts";
export { type Database, migrations, RunStore } from "./store.ts";
