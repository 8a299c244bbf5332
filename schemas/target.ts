/**
 * Target: where a plan runs. A recipe says what, a target says on what; a target swaps infrastructure, scheduler,
 * trainer and server, and stores, and nothing else. One file a target in stacks/targets/.
 */
import { z } from "zod";
import { ServerKind } from "./endpoint.ts";
import { INSTANCES, Instance, type InstanceName, instanceRow } from "./instance.ts";
import { AwsPlatform, KubernetesPlatform } from "./platform.ts";
import { Pricing } from "./pricing.ts";
import { text } from "./text.ts";

const Positive = z.number().int().positive();

export const LocalTarget = z.strictObject({
  kind: z.literal("local"),
  /** Its file's name, without the ending. */
  name: z.string(),
  /** Folder for state, stores, logs; relative to the project. Default ".uplift". */
  home: z.string().default(".uplift"),
  /** Jobs and endpoints that run at once; default one a core. */
  slots: Positive,
  /** OpenMP threads a job; 1 by default: two threads on busy cores are far slower than one (measured). */
  threads: Positive.default(1),
  /** Loopback ports. */
  controllerPort: z.number().int().min(1024).max(65535).default(7600),
  environmentsPort: z.number().int().min(1024).max(65535).default(7601),
  /** Server of endpoints; a recipe's preset is measured on this kind. */
  server: ServerKind.default("vllm"),
  /** An endpoint ends by itself after this many hours. */
  endpointHours: z.number().positive().default(2),
});
export type LocalTarget = z.infer<typeof LocalTarget>;

/** A container image; by digest, or the plan warns and nothing is started with it. What stands behind "@" is a digest or a mistake. */
const Image = text(
  /^[a-z0-9][^\s@]*(@sha256:[0-9a-f]{64})?$/,
  "an image: registry/name@sha256: and the digest's 64 hex digits, or registry/name:tag to plan with",
);

const cluster = {
  /** Its file's name, without the ending. */
  name: z.string(),
  /** GPU nodes of training: a row of schemas/instance.ts by name, or one written out. */
  instance: z.union([z.enum(Object.keys(INSTANCES) as [InstanceName, ...InstanceName[]]), Instance]),
  /** Most GPU nodes a plan may use. */
  maxNodes: Positive,
  pricing: Pricing,
  /** NeMo-RL whose configuration is rendered: the pinned release, or main at the commit nemo-keys.json was read from. */
  nemoRl: z.enum(["v0.7.0", "main"]).default("v0.7.0"),
  /** Images of the jobs, by digest. */
  images: z.strictObject({ automodel: Image, nemoRl: Image, vllm: Image }),
  storage: z.strictObject({
    /** Where shared storage is mounted on every node. */
    mountPath: z.string().startsWith("/").default("/fsx"),
    /** Sustained read of one node, GB/s: decides how long a server's probes wait for its weights. */
    readGbPerSecond: z.number().positive().default(1),
  }),
  slurm: z
    .strictObject({
      partition: z.string().default("gpu"),
      account: z.string().default("uplift"),
      /** The partition's time limit of one job, hours; longer runs go on in a further job. Default 24. */
      maxWalltimeHours: z.number().positive().default(24),
      /** RAM disk of each container for shared memory, GiB. Default 512. */
      sharedMemoryGib: Positive.default(512),
    })
    .prefault({}),
  /** The environment service as jobs reach it: plain HTTP, no path. */
  environments: z.strictObject({ host: z.string(), port: z.number().int().min(1).max(65535) }),
  /** OpenAI-compatible endpoint of the expert model; its key is a secret of the cluster. Default: none. */
  expertUrl: z.url().optional(),
  /** Weights & Biases; the key is a secret of the cluster. Default: not used. */
  wandb: z.strictObject({ entity: z.string(), project: z.string() }).optional(),
  /** An endpoint ends by itself after this many hours. Default 8. */
  endpointHours: z.number().positive().default(8),
};

/** `platform` is what standing the target up needs, and no part of a plan. */
export const KubernetesTarget = z.strictObject({
  kind: z.literal("kubernetes"),
  /** Context of the kubeconfig; the current one is never used by itself. */
  kubeContext: text(/\S/, "the name of a context, as `kubectl config get-contexts` shows it"),
  ...cluster,
  platform: KubernetesPlatform.optional(),
});

export const AwsTarget = z.strictObject({
  kind: z.literal("aws"),
  region: z.string(),
  /** Zones; GPU nodes lie in the first. */
  zones: z.array(z.string()).min(1),
  ...cluster,
  platform: AwsPlatform.optional(),
});

/** A target with GPU nodes and Slurm. */
export const ClusterTarget = z.discriminatedUnion("kind", [KubernetesTarget, AwsTarget]);
export type ClusterTarget = z.infer<typeof ClusterTarget>;

export const Target = z.discriminatedUnion("kind", [LocalTarget, KubernetesTarget, AwsTarget]);
export type Target = z.infer<typeof Target>;

/** A cluster target that can be stood up. */
export type PlatformTarget =
  | (z.infer<typeof KubernetesTarget> & { platform: KubernetesPlatform })
  | (z.infer<typeof AwsTarget> & { platform: AwsPlatform });

/** A target as plans hold it: without what only standing it up needs. */
export const PlannedTarget = z.discriminatedUnion("kind", [
  LocalTarget,
  KubernetesTarget.omit({ platform: true }),
  AwsTarget.omit({ platform: true }),
]);
export type PlannedTarget = z.infer<typeof PlannedTarget>;

/** The same target as plans hold it. */
export function planned(target: Target): PlannedTarget {
  if (target.kind === "local") return target;
  const { platform: _platform, ...rest } = target;
  return rest;
}

/** The row of a target's GPU nodes. */
export function instanceOf({ instance }: ClusterTarget): Instance {
  return instanceRow(instance);
}

/** What target files write. They are checked when they are used, so that every mistake has its field. */
export function localTarget(target: Omit<z.input<typeof LocalTarget>, "kind">): z.input<typeof Target> {
  return { kind: "local", ...target };
}

/** Nodes of a Kubernetes cluster you have. */
export function kubernetesTarget(target: Omit<z.input<typeof KubernetesTarget>, "kind">): z.input<typeof Target> {
  return { kind: "kubernetes", ...target };
}

/** Nodes of AWS. */
export function awsTarget(target: Omit<z.input<typeof AwsTarget>, "kind">): z.input<typeof Target> {
  return { kind: "aws", ...target };
}
