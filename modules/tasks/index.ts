/**
 * tasks: a family, a seed and sizes → a task set; a task set and an environment → trajectories; trajectories → what to train and measure on.
 * Takes task-set requests, trajectories; returns task sets, trajectories, choices with reports.
 * Reads the families' folders and the files it is told to; reaches only the environment service it is given.
 */
export { type CollectReport, type CollectRequest, collectTrajectories } from "./collect.ts";
export { type DatasetUse, splitDataset, summariseDataset, type UsedDataset, useDataset } from "./dataset.ts";
export {
  checkDataset,
  datasetDigest,
  type ExpectedDataset,
  parseDatasetIndex,
  passRateKey,
  passRateModels,
} from "./dataset-index.ts";
export { type EnvironmentClient, InfrastructureError } from "./environment-client.ts";
export { actExpert, EXPERT_VERSION, expertSkill } from "./expert.ts";
export {
  FAMILIES,
  FAMILY_FILES,
  type FamilyEntry,
  familyDigest,
  familyEntry,
  type LoadedFamily,
  loadFamily,
} from "./families.ts";
export {
  chooseRlTasks,
  chooseSftTrajectories,
  heldOutSolvable,
  leaveOutAlwaysSolved,
  type PassRate,
  passRates,
  type RlReport,
  ratesOf,
  type SftReport,
  type SftRule,
} from "./filter.ts";
export { connectHttpEnvironment, type HttpEnvironment, type HttpEnvironmentOptions } from "./http-environment.ts";
export { NEAR_COPY_THRESHOLD, nearCopyGroups } from "./near-copies.ts";
export { type SplitSizes, splitTasks } from "./split.ts";
export { buildTaskSet, checkTaskSet, readTaskSet, type TaskSetRequest, taskSetDigest } from "./task-set.ts";
export { openTrajectoryAppender, readTrajectories, type TrajectoryAppender } from "./trajectory-file.ts";
