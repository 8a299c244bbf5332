/**
 * Launch: a stage → how its job is started on a cluster, what is wrong with that, and the files of a plan as they lie
 * on the node. Takes parsed values, returns values and texts; reads only its own fixed texts, writes nothing.
 */

export { saveMargin } from "../time-limit.ts";
export { type BatchSize, NOT_FINISHED, REQUEUED, START_CHECK_FAILED } from "./batch-script.ts";
export { checkLaunch } from "./check-launch.ts";
export { checkpointSize } from "./checkpoint-size.ts";
export { GYM_AGENT, GYM_SERVER } from "./gym-files.ts";
export { launchOf } from "./launch-of.ts";
export { jobKey, renderFiles, type VllmFlags } from "./render-files.ts";
