/**
 * Endpoint: one model served at an OpenAI-compatible URL for a limited time. Each is its own small Pulumi stack, so
 * that it can be listed, previewed and destroyed, and cannot be forgotten; on a cluster the controller makes others, for what
 * it measures, as objects of Kubernetes alone.
 */
import { z } from "zod";
import { Digest } from "./digest.ts";
import { ServingLayout } from "./layout.ts";
import { Rope } from "./rope.ts";
import { text } from "./text.ts";

/** vLLM, or the light server (transformers, one process) where vLLM can't be installed or its start is too slow. */
export const ServerKind = z.enum(["vllm", "light"]);
export type ServerKind = z.infer<typeof ServerKind>;

/** What decides, with the server's own code and version, what an endpoint answers; part of every comparability key. */
export const ServingSettings = z.strictObject({
  server: ServerKind,
  /** Longest prompt + answer, tokens. */
  contextTokens: z.number().int().positive(),
  dtype: z.enum(["float32", "bfloat16"]),
  toolCallParser: z.enum(["hermes", "qwen3_coder", "kimi_k2"]),
  /** Splits thinking from the answer; left out for models that do not think. */
  reasoningParser: z.enum(["qwen3", "kimi_k2"]).optional(),
  /** Left out where the context is the model's own. */
  rope: Rope.optional(),
  /** Left out for the dtype of the weights. */
  kvCacheDtype: z.enum(["auto", "fp8"]).optional(),
});
export type ServingSettings = z.infer<typeof ServingSettings>;

/** What a serving stack is made from. */
export const EndpointSpec = z.strictObject({
  /** Stack name: serving-<first 12 hex digits of the checkpoint's digest>. */
  name: text(/^serving-[0-9a-f]{12}$/, "serving- and the first 12 hex digits of a digest"),
  checkpoint: Digest,
  /** Name clients send as `model`. */
  model: z.string(),
  /** Folder with the full model on this machine. */
  modelPath: z.string(),
  settings: ServingSettings,
  host: z.string(),
  port: z.number().int(),
  /** File (mode 600) that holds the API key; the key itself is in no state, log or process list. */
  apiKeyPath: z.string(),
  /** Why it exists: "evaluation run-…", "uplift serve". */
  purpose: z.string(),
  expiresAt: z.iso.datetime(),
});
export type EndpointSpec = z.infer<typeof EndpointSpec>;

/** How a folder on shared storage shows that it holds the model meant; the pod looks before vLLM starts. */
export const ModelIdentity = z.discriminatedUnion("kind", [
  /** A base model: its file uplift-revision names this commit. */
  z.strictObject({ kind: z.literal("revision"), revision: z.string() }),
  /** A checkpoint by content: the files that uplift-manifest.json lists have the digest `checkpoint`. */
  z.strictObject({ kind: z.literal("digest") }),
  /** A checkpoint of a run by name, "rl-40": uplift-manifest.json is of it. Its content's digest is not known here. */
  z.strictObject({ kind: z.literal("name"), checkpoint: z.string() }),
  /** Nothing is pinned: only that a model is there. */
  z.strictObject({ kind: z.literal("unmarked") }),
]);
export type ModelIdentity = z.infer<typeof ModelIdentity>;

/** Where a pod has its weights from. */
export const WeightsSource = z.discriminatedUnion("kind", [
  /** The shared storage, which every node mounts. */
  z.strictObject({ kind: z.literal("shared") }),
  /** A bucket: the pod fetches them to its node's own disk before it starts. */
  z.strictObject({
    kind: z.literal("objects"),
    bucket: z.string(),
    /** Of the model's files, without a slash at either end; uplift-manifest.json lies right below it. */
    prefix: z.string(),
    /** Room kept for them on the node, GiB. */
    gib: z.number().int().positive(),
  }),
]);
export type WeightsSource = z.infer<typeof WeightsSource>;

/** What an endpoint on a cluster is made from: one Deployment of one pod on one node, and what guards it. */
export const ClusterEndpointSpec = z.strictObject({
  /** serving-<first 12 hex digits of the checkpoint's digest>; of the evaluation's id for one that the controller makes. */
  name: EndpointSpec.shape.name,
  /** Of the model's files; of what names it (plan, name, folder) where the files are not here. */
  checkpoint: Digest,
  identity: ModelIdentity,
  /** Name clients send as `model`. */
  model: z.string(),
  /** Folder of the full model, as its pod sees it: on the shared storage, or where it is fetched to. */
  modelPath: z.string().startsWith("/"),
  source: WeightsSource.default({ kind: "shared" }),
  /** Row of schemas/model.ts that its weights are of; null for a model without one. */
  facts: z.string().nullable(),
  settings: ServingSettings,
  layout: ServingLayout,
  image: z.string(),
  /** Who ends it: a stack (uplift serve), or the controller, which made it for an evaluation and has no stacks. */
  maker: z.enum(["stack", "controller"]).default("stack"),
  purpose: z.string(),
  expiresAt: z.iso.datetime(),
});
export type ClusterEndpointSpec = z.infer<typeof ClusterEndpointSpec>;

/** An endpoint of a cluster as it is now. */
export const ClusterEndpoint = ClusterEndpointSpec.extend({
  /** Inside the cluster: http://serving-….uplift-serving.svc.cluster.local:8000/v1 */
  url: z.string(),
  /** Secret and key that hold the API key. */
  apiKey: z.strictObject({ namespace: z.string(), name: z.string(), key: z.string() }),
  state: z.enum(["starting", "ready", "expired", "failed"]),
});
export type ClusterEndpoint = z.infer<typeof ClusterEndpoint>;

export const Endpoint = EndpointSpec.extend({
  /** e.g. http://127.0.0.1:8123/v1 */
  url: z.string(),
  state: z.enum(["starting", "ready", "stopped"]),
});
export type Endpoint = z.infer<typeof Endpoint>;
