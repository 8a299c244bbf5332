/**
 * What memory arithmetic cannot derive: overheads as named numbers with their sources. They hold for every model and
 * GPU alike and are checked, all together, against the layouts that are known to run or not (evidence.test.ts); none is
 * tuned for one row. GiB are 2^30 bytes. Pure.
 */

/** A gibibyte. */
export const GIB = 2 ** 30;

/**
 * Share of a GPU that training may fill. The rest is what the driver keeps (an "80 GB" H100 reports 79.1–79.6 GiB free of
 * 80) and what the allocator loses between blocks over a long run.
 */
export const TRAINING_SHARE = 0.95;

/** CUDA context and NCCL buffers of one process: "~3 GiB" in NVIDIA's post-training sizing guide for Nemotron 3 Nano. */
export const FRAMEWORK_GIB = 3;

/** First-step peaks: cuBLAS workspaces, Triton autotuning (Automodel has a `prewarm` section because of them). */
export const FIRST_STEP_GIB = 2;

/**
 * What a colocated vLLM still holds while it sleeps. Reported: 4.1 GiB after the first sleep (RL#2619), 2.4 to 7.4 GiB at
 * tensor parallel 2 (RL#223). A leak that grew to 25 GiB (RL#2619) is a defect to watch for, not to plan for.
 */
export const SLEEPING_VLLM_GIB = 7.5;

/**
 * What a vLLM engine needs inside gpu_memory_utilization beside weights and KV cache: activations of one batch, sampler,
 * NCCL. infrastructure.md E1 derives 4–10 GiB a GPU from measured KV pools on RTX 5090 and uses 5–10 for its table.
 */
export const VLLM_OVERHEAD_GIB = 6.5;

/** CUDA graphs are captured outside gpu_memory_utilization (infrastructure.md E1), so this much stays free beside it. */
export const GRAPH_CAPTURE_GIB = 2.5;

/** vLLM's default in newer source; set explicitly because older releases differ. */
export const SERVING_UTILIZATION = 0.92;

/** gpu_memory_utilization of generation on nodes of its own: NVIDIA's long-context recipes use 0.75–0.85. */
export const DEDICATED_UTILIZATION = 0.8;

/** The same beside training: NVIDIA's colocated recipes use 0.6–0.7. */
export const COLOCATED_UTILIZATION = 0.7;

/** Least utilisation asked for beside training; where less is free, the layout does not fit. */
export const LEAST_UTILIZATION = 0.3;

/** Room a layout needs so that arithmetic on sourced sizes counts for something; less is "unproven". */
export const ROOM = 0.15;

/** Bytes a trained parameter costs in Adam with fp32 main weights: master, first and second moment. */
export const ADAM_BYTES = 12;

/** Experts of a mixture never get equal shares of tokens; the busiest GPU is planned with this many times its share. */
export const EXPERT_IMBALANCE = 2;

/**
 * Bytes a logit costs where fp32 logits are not deferred: bf16 output, fp32 copy, softmax and gradient. At 14 the model
 * agrees with RL#903: 1.5B at 16,384 tokens a GPU runs out of memory, 8,192 runs.
 */
export const FP32_LOGIT_BYTES = 14;

/** The same with Megatron's fused cross-entropy: bf16 output, fp32 worked on in place. */
export const FUSED_LOGIT_BYTES = 6;

/** Bytes a logit of the chunk in work costs: fp32 values, softmax, gradient, and an int64 one-hot (RL model_utils.py). */
export const CHUNK_LOGIT_BYTES = 24;

/**
 * Longest sequence that is trained without packing where it may be: Megatron's mask costs half a GiB there and grows with
 * the square. NVIDIA ships unpacked Megatron recipes up to 4,096 tokens, long-context ones all pack.
 */
export const UNPACKED_TOKENS = 8192;

/**
 * Bytes a pair of positions of Megatron's causal mask: ones and their lower triangle in fp32, both on the GPU, and the
 * boolean mask made of them (get_ltor_masks_and_position_ids, megatron/training/utils/common_utils.py).
 */
export const MASK_BYTES = 9;

/** Tokens a log-probability chunk: NVIDIA's long-context recipes use 1024 and 2048. */
export const LOGPROB_CHUNK_TOKENS = 2048;

/**
 * Activations that Automodel's checkpointing keeps a layer and token, in hidden vectors: it wraps norm, mixer, norm and
 * feed-forward one by one, and each keeps its input. `output_hidden_states`, which fused linear cross-entropy needs,
 * keeps one more: the layer's output. Release 0.7.0 wraps whole layers of stock text models, which keeps less; its Qwen3-32B
 * recipe still calls 16,384 tokens a GPU a memory risk, so the larger figure is planned for all.
 */
export const AUTOMODEL_SAVED_VECTORS = 4;

/** Layers whose weights FSDP2 holds unsharded at once: the one in work and two fetched ahead in the backward pass. */
export const FSDP_GATHERED_LAYERS = 3;

/** vLLM's first start: torch.compile and autotuning, then graph capture, seconds. */
export const COMPILE_SECONDS = 240;
export const CAPTURE_SECONDS = 120;
/** Probes wait this many times the expected start: cold caches and shared storage vary. */
export const STARTUP_MARGIN = 1.5;
/** Memory of a node for the processes themselves: Ray, data loaders, Python, GiB. */
export const HOST_BASE_GIB = 64;

/** LoRA ranks that vLLM can serve as adapters (infrastructure.md E2). */
export const SERVABLE_LORA_RANKS: readonly number[] = [8, 16, 32, 64, 128, 256, 320, 512];
