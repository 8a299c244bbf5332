/**
 * Manifest: one Kubernetes object as data. Modules make them, pure and whole; stacks apply them with Pulumi, tests check them
 * against Kubernetes' own schemas. Values that are known only while a stack is applied stand in them as late("name").
 */

/** The least every object has; builders type the rest with `kubernetes-types` or the generated Slinky types. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

/** A Secret's entry by name; its value is in no manifest. */
export interface SecretKey {
  readonly name: string;
  readonly key: string;
}

const LATE = /⟦([a-z0-9-]+)⟧/g;

/** A value the stack learns while it is applied (an address, an id), to be put inside any text of a manifest. */
export function late(name: string): string {
  return `⟦${name}⟧`;
}

/** A text in parts, the odd ones being names of late values: what the stack joins. */
export function lateParts(text: string): string[] {
  return text.split(LATE);
}

/** Labels of everything Uplift makes: what `destroy` must leave none of. */
export const OURS = { "app.kubernetes.io/part-of": "uplift" } as const;

/** Labels of one component's objects and, by `name`, what its selectors match. */
export function labels(name: string): Record<string, string> {
  return { "app.kubernetes.io/name": name, ...OURS };
}

/** Namespaces, one a trust boundary. */
export const NAMESPACES = {
  /** Controller, leaderboard, environment service, their database. */
  platform: "uplift",
  /** Sandboxes only. */
  sandboxes: "uplift-sandboxes",
  /** Model servers. */
  serving: "uplift-serving",
  /** Slurm's daemons and workers. */
  slurm: "slurm",
  /** Device plugins, GPU metrics: pods with access to nodes. */
  system: "uplift-system",
  slurmOperator: "slinky",
  certManager: "cert-manager",
} as const;

/** Claim of the shared storage in each namespace that mounts it; its folders: modules/cluster/storage/shared-folders.ts. */
export const SHARED_CLAIM = "shared";

/** User and group of runs and of Uplift's services, the same in every pod: who owns what lies on the shared storage. */
export const UPLIFT_UID = 990;

/** Rights of a container: none. Its pod or itself says the seccomp profile. */
export const NO_RIGHTS = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

/** Prometheus in whichever namespace, by the label that its operator gives its pods: a peer of network policies. */
export const PROMETHEUS_PEER = {
  namespaceSelector: {},
  podSelector: { matchLabels: { "app.kubernetes.io/name": "prometheus" } },
};

/** Annotation of an object that may take longer to be ready than the 10 minutes Pulumi waits by itself. */
export function readyWithin(seconds: number): Record<string, string> {
  return { "pulumi.com/timeoutSeconds": String(seconds) };
}

/** Annotation of a sandbox's pod: its attempt's id. */
export const ATTEMPT = "uplift.dev/attempt";
/** What stands there in the sandboxes that a service tries at its start. No attempt can be called this. */
export const NO_ATTEMPT = "(probe)";

/** Annotation of a pod that has a container running as root, or with more rights than that: why it can't do without. */
export const ROOT_BECAUSE = "uplift.dev/root-because";
