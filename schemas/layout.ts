/**
 * Layout: how a stage lies on GPUs, whether it fits in their memory, and how sure that is.
 */
import { z } from "zod";

const Count = z.number().int().positive();

/** Degrees of parallelism; their product divides the GPUs of the stage, the rest is data parallel. */
const Degrees = z.strictObject({
  tensorParallel: Count,
  contextParallel: Count,
  pipelineParallel: Count,
  /** Experts of a mixture spread over this many GPUs; 1 for dense models. */
  expertParallel: Count,
  /** GPUs / (tensor × context × pipeline). */
  dataParallel: Count,
  /** Norms and dropout split along the sequence over the tensor-parallel GPUs. */
  sequenceParallel: z.boolean(),
});
export type Degrees = z.infer<typeof Degrees>;

/** SFT with Automodel: FSDP2 over all GPUs. */
export const SftLayout = z.strictObject({
  kind: z.literal("sft"),
  nodes: Count,
  gpusPerNode: Count,
  train: Degrees,
  /** Sequences a GPU group works on at once. */
  microBatch: Count,
});
export type SftLayout = z.infer<typeof SftLayout>;

/** A vLLM engine's share of GPUs. */
const Engine = z.strictObject({
  tensorParallel: Count,
  /** Engines side by side, each with the whole model. */
  dataParallel: Count,
  gpuMemoryUtilization: z.number().gt(0).lt(1),
  kvCacheDtype: z.enum(["auto", "fp8"]),
  /** Sequences of full length that all engines of the stage hold at once. */
  concurrentSequences: z.number().int().nonnegative(),
});
export type Engine = z.infer<typeof Engine>;

/** GRPO with NeMo-RL: Megatron trains, vLLM generates. */
export const RlLayout = z.strictObject({
  kind: z.literal("rl"),
  /** Training and generation together. */
  nodes: Count,
  gpusPerNode: Count,
  /** Nodes that only generate; 0 where rollouts share the trainer's GPUs. */
  generationNodes: z.number().int().nonnegative(),
  train: Degrees,
  generation: Engine,
  /** Sequences of a micro-batch lie in one row without padding; without it Megatron builds a mask of length² on each GPU. */
  packing: z.boolean(),
  /** Sequences are padded to a multiple of this: 2 × context parallel × tensor parallel. */
  sequenceDivisor: Count,
  /** Tokens whose logits are in memory at once while log-probabilities are computed. */
  logprobChunkTokens: Count,
});
export type RlLayout = z.infer<typeof RlLayout>;

/** One endpoint: one model on one node. */
export const ServingLayout = z.strictObject({
  kind: z.literal("serving"),
  nodes: z.literal(1),
  gpusPerNode: Count,
  engine: Engine,
  /** Longest start the probes allow, seconds: weights at the storage's speed, compilation, graph capture. */
  startupSeconds: Count,
});
export type ServingLayout = z.infer<typeof ServingLayout>;

export const Layout = z.discriminatedUnion("kind", [SftLayout, RlLayout, ServingLayout]);
export type Layout = z.infer<typeof Layout>;

/** Memory of one GPU under a layout. */
export const Fit = z.strictObject({
  /** Phase of the stage that needs most, e.g. "train step", "generation". */
  phase: z.string(),
  /** What takes memory in that phase, the largest first, GiB on one GPU. `how` is the arithmetic. */
  terms: z.array(z.strictObject({ name: z.string(), gib: z.number(), how: z.string() })),
  totalGib: z.number(),
  /** What may be used of the GPU, GiB. */
  limitGib: z.number(),
  /**
   * proven: a layout that is known to run covers this one. derived: arithmetic on sourced sizes, with room to spare.
   * unproven: it fits on paper, but nothing like it is known to have run, or the room is small.
   */
  confidence: z.enum(["proven", "derived", "unproven"]),
  /** Why this layout and not a cheaper one, and why this confidence: one sentence each. */
  why: z.array(z.string()),
  /** What else there is to know of it: other phases, assumptions, what is left to watch. */
  notes: z.array(z.string()),
});
export type Fit = z.infer<typeof Fit>;

/** A stage's layout with its fit. */
export const StageLayout = z.strictObject({
  /** "sft", "rl", "serving". */
  stage: z.enum(["sft", "rl", "serving"]),
  layout: Layout,
  fit: Fit,
});
export type StageLayout = z.infer<typeof StageLayout>;
