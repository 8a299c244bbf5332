/**
 * Serving command: an endpoint's spec → the process that serves it. Pure.
 * The API key is in none of it: the process reads it from the file that UPLIFT_API_KEY_PATH names.
 */
import { join } from "node:path";
import type { EndpointSpec } from "../../schemas/endpoint.ts";

/** A process that serves a model, and how to see that it does. */
export interface ServingCommand {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Answers 200 without a key once the model answers. */
  healthUrl: string;
  /** It is broken if it is not ready after this many seconds: ten times what a quiet 2-core machine needs. */
  readySeconds: number;
}

/** The command for vLLM or for the light server; `projectDir` is the checkout with modules/serving in it. */
export function servingCommand(spec: EndpointSpec, tools: { python: string; projectDir: string }): ServingCommand {
  const { settings } = spec;
  const folder = join(tools.projectDir, "modules", "serving");
  const common = [
    ...["--model", spec.modelPath, "--served-model-name", spec.model],
    ...["--host", spec.host, "--port", String(spec.port)],
    ...["--max-model-len", String(settings.contextTokens), "--dtype", settings.dtype],
  ];
  const env = {
    UPLIFT_API_KEY_PATH: spec.apiKeyPath,
    // Two threads on busy cores are far slower than one.
    OMP_NUM_THREADS: "1",
    HF_HUB_OFFLINE: "1",
    DO_NOT_TRACK: "1",
  };
  const healthUrl = `http://${spec.host}:${spec.port}/health`;
  switch (settings.server) {
    case "light":
      return {
        command: tools.python,
        args: ["-m", "light_server", ...common],
        env: { ...env, PYTHONPATH: folder },
        healthUrl,
        readySeconds: 120,
      };
    case "vllm":
      return {
        command: tools.python,
        args: [
          join(folder, "vllm_server.py"),
          ...common,
          ...["--enable-auto-tool-choice", "--tool-call-parser", settings.toolCallParser],
          // Compiling costs minutes and gains a model of this size nothing.
          "--enforce-eager",
          // Sampling is what the request says, not what the model's generation_config.json adds to it (top_k 20 …).
          ...["--generation-config", "vllm"],
          "--disable-uvicorn-access-log",
        ],
        env: {
          ...env,
          VLLM_CPU_KVCACHE_SPACE: "1",
          VLLM_CPU_OMP_THREADS_BIND: "nobind",
          VLLM_NO_USAGE_STATS: "1",
        },
        healthUrl,
        readySeconds: 300,
      };
  }
}
