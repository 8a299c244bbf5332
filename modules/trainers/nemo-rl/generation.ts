/**
 * Stage → policy.generation: vLLM behind HTTP, as the Gym driver needs it. Pure.
 */
import type { RlLayout } from "../../../schemas/layout.ts";
import type { Model } from "../../../schemas/model.ts";
import type { Recipe } from "../../../schemas/recipe.ts";
import { type Dialect, PORTS } from "./dialect.ts";

/**
 * How vLLM reads tool calls and thinking out of answers, and how it renders history. Every prompt of an attempt must
 * begin with all tokens before it, so thinking of earlier turns has to stay: Qwen3.8's template keeps it of itself,
 * Qwen3.6's where preserve_thinking is set, Qwen3's up to the last user message, and our attempts have only one.
 * The release hands default_chat_template_kwargs to the server but not to its renderer; main hands them to both.
 */
function servingChat(model: Model): Record<string, unknown> {
  return {
    enable_auto_tools: true,
    ...(model.toolCallParser === null ? {} : { tool_parser: model.toolCallParser }),
    ...(model.reasoningParser === null ? {} : { reasoning_parser: model.reasoningParser }),
    ...(model.family === "qwen3.5" ? { default_chat_template_kwargs: { preserve_thinking: true } } : {}),
  };
}

/** policy.generation of a stage. */
export function generationConfig(options: {
  readonly rl: Recipe["rl"];
  readonly model: Model;
  readonly layout: RlLayout;
  readonly contextTokens: number;
  readonly dialect: Dialect;
}): Record<string, unknown> {
  const { rl, model, layout, contextTokens, dialect } = options;
  const { generation, generationNodes } = layout;
  const dedicated = generationNodes > 0;
  const isFp8 = generation.kvCacheDtype === "fp8";
  const [low, high] = PORTS[dialect].generation;
  return {
    backend: "vllm",
    port_range_low: low,
    port_range_high: high,
    max_new_tokens: rl.maxTokensPerTurn,
    temperature: rl.temperature,
    top_p: 1,
    top_k: null,
    // The release samples validation like training and has no keys for it.
    ...(dialect === "main" ? { val_temperature: rl.temperature, val_top_p: 1, val_top_k: null } : {}),
    stop_token_ids: null,
    stop_strings: null,
    vllm_cfg: {
      async_engine: true,
      expose_http_server: true,
      http_server_serving_chat_kwargs: servingChat(model),
      // An fp8 cache is refused without fp8 weights.
      precision: isFp8 ? "fp8" : "bfloat16",
      kv_cache_dtype: generation.kvCacheDtype,
      tensor_parallel_size: generation.tensorParallel,
      pipeline_parallel_size: 1,
      expert_parallel_size: 1,
      gpu_memory_utilization: generation.gpuMemoryUtilization,
      max_model_len: contextTokens,
      // Each turn's prompt repeats the turns before it.
      enable_prefix_caching: true,
      enforce_eager: false,
      skip_tokenizer_init: false,
      use_tqdm: false,
      use_deep_gemm: false,
      num_first_layers_in_bf16: 0,
      num_last_layers_in_bf16: 0,
      enable_vllm_metrics_logger: true,
      vllm_metrics_logger_interval: 0.5,
      ...(dialect === "main" ? { logprobs_mode: "processed_logprobs" } : {}),
    },
    vllm_kwargs: {},
    colocated: {
      enabled: !dedicated,
      // Whole nodes: gpus_per_node has to be the cluster's.
      resources: {
        gpus_per_node: dedicated ? layout.gpusPerNode : null,
        num_nodes: dedicated ? generationNodes : null,
      },
    },
  };
}
