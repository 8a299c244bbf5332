/**
 * Takes: a cluster target, its pools, the shared storage's claim. Returns: Slurm as Kubernetes objects, and the charts they need first.
 * Reads the scripts of scripts/; writes nothing.
 */
export { SLURM_REST_URL } from "./names.ts";
export { type ChartInstall, operatorCharts } from "./operator-charts.ts";
export { slurmManifests } from "./slurm-manifests.ts";
export { controllerToken, expiredToken } from "./token.ts";
