/**
 * Checkpoint: a full Hugging Face model in the object store, with the digest of its files and where it came from.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { Message, Tool } from "./message.ts";

export const Stage = z.enum(["base", "sft", "rl"]);
export type Stage = z.infer<typeof Stage>;

export const CheckpointFile = z.object({ path: z.string(), bytes: z.number().int().nonnegative(), sha256: z.string() });
export type CheckpointFile = z.infer<typeof CheckpointFile>;

/** What a cluster's checkpoint job writes last, once it has hashed and verified a model: the file MODEL_MANIFEST. */
export const ModelManifest = z.object({
  schemaVersion: z.literal(1),
  /** The checkpoint job's id. */
  checkpoint: z.string(),
  files: z.array(CheckpointFile).min(1),
});
export type ModelManifest = z.infer<typeof ModelManifest>;

/** Name of a model's manifest, in its folder or right below its prefix. */
export const MODEL_MANIFEST = "uplift-manifest.json";

export const Checkpoint = z.object({
  schemaVersion: z.literal(1),
  /** Digest of `files` (paths, sizes, hashes): the same weights, tokenizer and rendering have the same digest anywhere. */
  digest: Digest,
  /** What a person calls it: "quickstart-base", "quickstart-rl step 24". */
  name: z.string(),
  stage: Stage,
  /** Optimiser step it was saved after; 0 for a base model. */
  step: z.number().int().nonnegative(),
  /** Run that trained it; null for a base model. */
  runId: z.string().nullable(),
  /** Checkpoint its training started from; null for a base model. */
  parent: Digest.nullable(),
  /** The base model at the root of its lineage (its own digest for a base model). */
  base: Digest,
  files: z.array(CheckpointFile).min(1),
  /** Object-store prefix under which the files lie. */
  prefix: z.string(),
  createdAt: z.iso.datetime(),
});
export type Checkpoint = z.infer<typeof Checkpoint>;

/**
 * How the trainer renders conversations into tokens: `rendering-probe.json` beside the weights. The same weights
 * behind a server that renders otherwise scored 0.00 instead of 0.62.
 */
export const RenderingProbe = z.object({
  cases: z
    .array(z.object({ messages: z.array(Message), tools: z.array(Tool), tokenIds: z.array(z.number().int()).min(1) }))
    .min(1),
});
export type RenderingProbe = z.infer<typeof RenderingProbe>;
