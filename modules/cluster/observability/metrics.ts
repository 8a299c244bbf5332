/**
 * Metrics: every name that our dashboard and alerts ask Prometheus for, by what exports it. Expressions are built from this
 * table, so that a name is written once, and checked once against its source.
 */

/** dcgm-exporter 4.5.3, etc/default-counters.csv. */
const DCGM = {
  gpuUtilization: "DCGM_FI_DEV_GPU_UTIL",
  tensorActive: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
  gpuMemoryUsed: "DCGM_FI_DEV_FB_USED",
  gpuMemoryFree: "DCGM_FI_DEV_FB_FREE",
  gpuPower: "DCGM_FI_DEV_POWER_USAGE",
  gpuTemperature: "DCGM_FI_DEV_GPU_TEMP",
  gpuXid: "DCGM_FI_DEV_XID_ERRORS",
  gpuRowRemapFailure: "DCGM_FI_DEV_ROW_REMAP_FAILURE",
} as const;

/** Slurm 25.11, src/plugins/metrics/openmetrics: names that its first releases have too (GPUs of nodes and partitions came later). */
const SLURM = {
  nodesAllocated: "slurm_nodes_alloc",
  nodesIdle: "slurm_nodes_idle",
  nodesDown: "slurm_nodes_down",
  nodesDrained: "slurm_nodes_drain",
  jobsRunning: "slurm_jobs_running",
  jobsPending: "slurm_jobs_pending",
  partitionJobsPending: "slurm_partition_jobs_pending",
} as const;

/** vLLM 0.25, vllm/v1/metrics/loggers.py; its counters get _total from the client library. */
const VLLM = {
  requestsRunning: "vllm:num_requests_running",
  requestsWaiting: "vllm:num_requests_waiting",
  kvCacheUsed: "vllm:kv_cache_usage_perc",
  preemptions: "vllm:num_preemptions_total",
  promptTokens: "vllm:prompt_tokens_total",
  generatedTokens: "vllm:generation_tokens_total",
  firstToken: "vllm:time_to_first_token_seconds_bucket",
} as const;

/** The environment service, modules/environments/metrics.ts. */
const ENVIRONMENTS = {
  attemptsLive: "uplift_environments_attempts_live",
  attemptsPlaces: "uplift_environments_attempts_places",
  attemptsEnded: "uplift_environments_attempts_ended_total",
  environmentFailures: "uplift_environments_infrastructure_failures_total",
  sandboxStart: "uplift_environments_sandbox_start_seconds_bucket",
} as const;

/** The controller, modules/cli/cluster-metrics.ts. */
const CONTROLLER = {
  runs: "uplift_runs",
  stepsWaiting: "uplift_steps_waiting",
  endpoints: "uplift_endpoints",
  endpointEndFailures: "uplift_endpoint_end_failures_total",
} as const;

/** Prometheus' own of each thing it reads. */
const PROMETHEUS = { up: "up" } as const;

export const METRICS = { ...DCGM, ...SLURM, ...VLLM, ...ENVIRONMENTS, ...CONTROLLER, ...PROMETHEUS } as const;
