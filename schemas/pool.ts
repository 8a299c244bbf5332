/**
 * Pool: nodes of one kind that a platform has, and which plans want them.
 */
import { z } from "zod";
import { Instance } from "./instance.ts";
import { Pricing } from "./pricing.ts";

const Count = z.number().int().nonnegative();

/** One plan's want of a pool. */
export const PoolUse = z.strictObject({
  /** The plan's name, with the first 12 digits of its digest. */
  plan: z.string(),
  /** e.g. "train rl". */
  what: z.string(),
  nodes: Count,
});
export type PoolUse = z.infer<typeof PoolUse>;

/** Nodes with GPUs: of Slurm (training), or of model servers (serving). */
export const GpuPool = z.strictObject({
  kind: z.enum(["training", "serving"]),
  /** Of pool, NodeSet and partition features; at most 20 characters. */
  name: z.string(),
  instance: Instance,
  /** Nodes it has: what the plans want together, at most the target's limit. */
  nodes: Count,
  maxNodes: Count,
  pricing: Pricing,
  neededBy: z.array(PoolUse),
});
export type GpuPool = z.infer<typeof GpuPool>;

/** Nodes without GPUs: of sandboxes, or of the platform's own services. */
export const CpuPool = z.strictObject({
  kind: z.enum(["sandboxes", "platform"]),
  name: z.string(),
  minNodes: Count,
  maxNodes: Count,
  neededBy: z.array(PoolUse),
  /** Sandboxes only: what the plans run at once, of which size, how many one node holds, and how many there may be at all. */
  pods: z
    .strictObject({
      ...{ atOnce: Count, milliCpus: Count, memoryMib: Count, most: Count },
      /** Null where the size of a node is not known. */
      perNode: Count.nullable(),
    })
    .optional(),
});
export type CpuPool = z.infer<typeof CpuPool>;

/** A platform's nodes. */
export const Pools = z.strictObject({
  training: GpuPool,
  /** Null where serving shares the training nodes. */
  serving: GpuPool.nullable(),
  sandboxes: CpuPool,
  platform: CpuPool,
});
export type Pools = z.infer<typeof Pools>;

/** Label (and taint) of a pool's nodes on AWS: uplift.dev/pool=training. */
export const POOL_LABEL = "uplift.dev/pool";
