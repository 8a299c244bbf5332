/**
 * Takes: a target with a platform, plans, clients that only read. Returns: findings on quotas, capacity, versions, images,
 * secrets. Apart from modules/cluster/index.ts, because the clients of AWS and Kubernetes take a second to load.
 */
export { connectClients } from "./clients.ts";
export { NO_PLANS } from "./local.ts";
export { passes, preflight, reportOf } from "./preflight.ts";
export { renderPreflight } from "./text.ts";
