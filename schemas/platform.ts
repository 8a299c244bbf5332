/**
 * Platform: what a target says so that it can be stood up: account, versions, node pools beside training, storage, names, who
 * may log in, budget, pins. No part of a plan: a new budget or login changes no plan's digest.
 */
import { z } from "zod";
import { INSTANCES, Instance, type InstanceName } from "./instance.ts";
import { NAMESPACES } from "./manifest.ts";
import { THIRD_PARTY_IMAGES, type ThirdPartyImage } from "./pins.ts";
import { Pricing } from "./pricing.ts";
import { text } from "./text.ts";

const Count = z.number().int().positive();
const Name = text(/^[a-z]([a-z0-9-]*[a-z0-9])?$/, "lower-case letters, digits and hyphens");
const Email = z.email();
const Variable = text(/^[A-Z][A-Z0-9_]*$/, "a variable's name: capitals, digits and underscores, such as HF_TOKEN");
const PublicKey = text(
  /^(ssh-ed25519|ssh-rsa|ecdsa-sha2-\S+|sk-\S+) \S+/,
  "an OpenSSH public key, as a line of ~/.ssh/id_ed25519.pub",
);
const Ami = text(/^ami-[0-9a-f]+$/, "an AMI's id such as ami-0123456789abcdef0");
/** By digest, so that the same target starts the same code. */
const PinnedImage = text(
  /^[a-z0-9][^\s@]*@sha256:[0-9a-f]{64}$/,
  "an image by digest: registry/name@sha256:<64 hex digits>",
);

/** Where a secret's value comes from: never from the target file itself. */
export const SecretSource = z.discriminatedUnion("kind", [
  /** An environment variable of `uplift up`; kept encrypted in the stack's state. */
  z.strictObject({ kind: z.literal("environment"), variable: Variable }),
  /** A Secret that something else keeps in the namespace `uplift`, e.g. external-secrets. */
  z.strictObject({ kind: z.literal("existing"), name: Name, key: z.string() }),
]);
export type SecretSource = z.infer<typeof SecretSource>;

/** A person who may log in to Slurm; the same ids in controller, login and worker pods. */
export const SlurmUser = z.strictObject({
  name: text(/^[a-z_][a-z0-9_-]{0,31}$/, "a Unix login: at most 32 lower-case letters, digits, - and _"),
  uid: z.number().int().min(1000).max(60_000),
  /** OpenSSH public keys. */
  publicKeys: z.array(PublicKey).default([]),
});
export type SlurmUser = z.infer<typeof SlurmUser>;

/** How people log in to the dashboard and API. */
export const WebLogin = z.discriminatedUnion("kind", [
  /** One random token, made with the stack, in the Secret uplift/web-token. */
  z.strictObject({ kind: z.literal("token") }),
  z.strictObject({
    kind: z.literal("oidc"),
    issuer: z.url(),
    clientId: z.string(),
    clientSecret: SecretSource,
    /** E-mail domains that may enter. */
    emailDomains: z.array(z.string()).min(1),
  }),
]);
export type WebLogin = z.infer<typeof WebLogin>;

/** Ingress class of the AWS load balancer controller, which an AWS platform installs by itself for it. */
export const ALB = "alb";

/** The dashboard's public name; without it the service is reached through a port-forward only. */
export const Web = z.strictObject({
  host: text(/^[a-z0-9.-]+\.[a-z]+$/, "a host name such as uplift.example.org"),
  /** On AWS "alb" (with tls of kind "acm"), or the class of a controller that you have installed in the cluster. */
  ingressClass: z.string(),
  /** Namespace of the ingress controller's pods: only they reach the service. Default: any address, as for controllers on the node's own network. */
  ingressNamespace: Name.optional(),
  tls: z.discriminatedUnion("kind", [
    /** A kubernetes.io/tls Secret in the namespace `uplift`. */
    z.strictObject({ kind: z.literal("secret"), name: Name }),
    z.strictObject({ kind: z.literal("cert-manager"), clusterIssuer: Name }),
    /** AWS Certificate Manager, with the AWS load balancer controller. */
    z.strictObject({
      kind: z.literal("acm"),
      certificateArn: z.string().startsWith("arn:aws"),
      /** Default "internal": from the VPC and what is joined to it only. */
      scheme: z.enum(["internal", "internet-facing"]).default("internal"),
    }),
  ]),
  login: WebLogin.default({ kind: "token" }),
});
export type Web = z.infer<typeof Web>;

/**
 * A file system that all nodes mount at once (ReadWriteMany), as it exists already. Not a storage class: claims of one class in
 * the platform's three namespaces would be three different volumes.
 */
export const SharedVolume = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("nfs"),
    server: z.string().min(1),
    path: z.string().startsWith("/"),
    mountOptions: z.array(z.string()).default([]),
  }),
  /** Mounted by the nodes' own systems (Lustre, WEKA, GPFS…): a folder inside the mount, so that a node without it has no such folder. */
  z.strictObject({ kind: z.literal("node-path"), path: z.string().startsWith("/") }),
  /** A volume of a CSI driver, as `kubectl get pv NAME -o jsonpath={.spec.csi}` shows it. */
  z.strictObject({
    kind: z.literal("csi"),
    driver: z.string().min(1),
    attributes: z.record(z.string(), z.string()).default({}),
    /**
     * Handles by namespace, no two alike: Kubernetes takes volumes of one driver and handle for one volume of a node. Default:
     * uplift-shared-NAMESPACE, for drivers that find the volume by its attributes.
     */
    volumeHandles: z
      .strictObject({ uplift: z.string(), slurm: z.string(), "uplift-serving": z.string() })
      .refine((handles) => new Set(Object.values(handles)).size === 3, "three different handles")
      .optional(),
    /** Secret of the driver's node plugin, where it needs one (CephFS). */
    nodeSecret: z.strictObject({ name: Name, namespace: Name }).optional(),
    mountOptions: z.array(z.string()).default([]),
  }),
]);
export type SharedVolume = z.infer<typeof SharedVolume>;

const instance = z.union([z.enum(Object.keys(INSTANCES) as [InstanceName, ...InstanceName[]]), Instance]);
const Labels = z.record(z.string(), z.string());

/** Where charts are had from: a mirror (oci://…), or a folder that has a folder of each. Default: their own registries. */
const charts = { certManager: z.string().optional(), slurmOperator: z.string().optional() };

/** Everything both kinds of cluster have. */
const common = {
  /** Nodes that serve models. Default: as many as the plans evaluate at once, of the training kind, on demand. */
  serving: z
    .strictObject({ instance: instance.optional(), maxNodes: Count.default(2), pricing: Pricing.optional() })
    .prefault({}),
  /** CPU nodes of sandboxes, made when they are needed. */
  sandboxes: z
    .strictObject({
      minNodes: z.number().int().nonnegative().default(1),
      /** Default 10: of the default instance as many as one of the shipped recipes wants, which run 128 sandboxes at once. */
      maxNodes: Count.default(10),
      /** RuntimeClass that puts a kernel between a sandbox and its node; the sandboxes are refused without one. */
      runtimeClass: z.enum(["gvisor", "kata"]).default("gvisor"),
      /** Of one sandbox. */
      milliCpus: Count.default(1000),
      memoryMib: Count.default(2048),
      /** At once, in the whole cluster: the namespace's quota. Default 256. */
      maxSandboxes: Count.default(256),
    })
    .prefault({}),
  web: Web.optional(),
  /** Who may log in to Slurm; `uplift` (uid 990), which submits runs, is always there. */
  users: z.array(SlurmUser).default([]),
  /** Images of Uplift's own services, by digest. Built by tools/images/build.sh, which prints them. */
  images: z.strictObject({ platform: PinnedImage, sandbox: PinnedImage }),
  /** Digests over the tags of schemas/pins.ts; preflight prints what each tag is today. */
  pins: z
    .partialRecord(z.enum(Object.keys(THIRD_PARTY_IMAGES) as [ThirdPartyImage, ...ThirdPartyImage[]]), PinnedImage)
    .default({}),
  /** Secrets of jobs by their environment variable: WANDB_API_KEY, HF_TOKEN, EXPERT_API_KEY. */
  jobSecrets: z.record(Variable, SecretSource).default({}),
  /** ServiceMonitors and a dashboard; for them the Prometheus operator's kinds must exist. Default false. */
  prometheus: z.boolean().default(false),
  /** Folder of this machine for locks, the plans it was made for, and the state; relative to the project. Default .uplift/clusters/NAME. */
  home: z.string().optional(),
  /** Where Pulumi keeps the stack's state: s3://…, gs://…, https://…. Default: in `home`. */
  stateUrl: z.string().optional(),
  /** What encrypts the state's secrets: awskms://…, gcpkms://…. Default: a passphrase, made once beside the state of this machine. */
  secretsProvider: z.string().optional(),
  /** Raise it by one and `up` makes new Slurm keys and a new web token (docs/day-two.md). */
  keyGeneration: Count.default(1),
};

export const KubernetesPlatform = z.strictObject({
  /** Labels that the nodes of each pool carry already. */
  nodes: z.strictObject({
    training: Labels,
    /** Default: the training nodes, which serving then shares: its pods wait while jobs hold every node. */
    serving: Labels.optional(),
    sandboxes: Labels,
    platform: Labels.default({}),
  }),
  /** What the cluster has already, and is left alone. */
  installed: z
    .strictObject({
      certManager: z.boolean().default(false),
      slurmOperator: z.boolean().default(false),
      /** Where its pods are: they reach Slurm's REST API. */
      slurmOperatorNamespace: Name.default(NAMESPACES.slurmOperator),
      gpuDevicePlugin: z.boolean().default(false),
      /** One owner of DCGM: say true where the GPU operator or another agent runs it. */
      dcgm: z.boolean().default(false),
      /** gVisor's or Kata's RuntimeClass. */
      runtimeClass: z.boolean().default(true),
    })
    .prefault({}),
  charts: z.strictObject(charts).prefault({}),
  storage: z.strictObject({
    /** Mounted at storage.mountPath of the target: models, checkpoints, runs. Its files outlive the platform. */
    shared: SharedVolume,
    /** Storage class of databases and Slurm's state (ReadWriteOnce). */
    blockClass: Name,
    /** S3 API for snapshots, checkpoints, traces, datasets. */
    objects: z.strictObject({
      endpoint: z.url(),
      region: z.string().default("us-east-1"),
      bucket: z.string(),
      accessKeyId: SecretSource,
      secretAccessKey: SecretSource,
    }),
  }),
  /** Leaderboard and runs. Default: one Postgres in the cluster, 20 GiB, dumped every night. */
  database: z
    .discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("in-cluster"), gib: Count.default(20) }),
      /** postgresql://… */
      z.strictObject({ kind: z.literal("url"), url: SecretSource }),
    ])
    .prefault({ kind: "in-cluster" }),
  ...common,
});
export type KubernetesPlatform = z.infer<typeof KubernetesPlatform>;

export const AwsPlatform = z.strictObject({
  /** `up` and preflight refuse credentials of another account. */
  accountId: text(/^\d{12}$/, "twelve digits"),
  /** Families that may be used, such as ["p5en", "m7i"], where the account's owner bounds them. Default: any. */
  instanceFamilies: z
    .array(text(/^[a-z][a-z0-9-]*$/, "an instance family such as p5en"))
    .min(1)
    .optional(),
  kubernetesVersion: text(/^1\.\d\d$/, "a minor version such as 1.34").default("1.34"),
  /** AMIs by id, never "recommended", which moves. */
  amis: z.strictObject({ gpu: Ami, cpu: Ami }),
  charts: z.strictObject({ ...charts, loadBalancerController: z.string().optional() }).prefault({}),
  vpcCidr: z.cidrv4().default("10.64.0.0/16"),
  /** Who reaches the Kubernetes API over the internet; default nobody: through a VPN or a bastion only. */
  apiCidrs: z.array(z.cidrv4()).default([]),
  /** IAM roles that administer the cluster, beside the one that makes it. */
  adminRoleArns: z.array(z.string().startsWith("arn:aws:iam::")).default([]),
  /** CPU nodes. */
  platformInstance: z.string().default("m7i.2xlarge"),
  sandboxInstance: z.string().default("m7i.4xlarge"),
  /** FSx for Lustre. 4800 GiB and 250 MB/s per TiB by default. */
  fsx: z
    .strictObject({
      /** 1200 or a multiple of 2400: what FSx can make. */
      gib: Count.default(4800),
      mbPerSecondPerTib: z.union([z.literal(125), z.literal(250), z.literal(500), z.literal(1000)]).default(250),
    })
    .prefault({}),
  database: z
    .strictObject({
      instanceClass: z.string().default("db.m7g.large"),
      gib: Count.min(20).default(50),
      backupDays: z.number().int().min(1).max(35).default(14),
      /** A standby in a second zone. */
      multiZone: z.boolean().default(false),
    })
    .prefault({}),
  /** An alarm by e-mail at 80 % and at 100 % of it, and when the forecast passes it. */
  budget: z.strictObject({ monthlyDollars: Count, emails: z.array(Email).min(1) }),
  ...common,
});
export type AwsPlatform = z.infer<typeof AwsPlatform>;

/** Every secret that a platform takes from elsewhere, each with its field. */
export function secretSources(platform: AwsPlatform | KubernetesPlatform): { field: string; source: SecretSource }[] {
  const jobs = Object.entries(platform.jobSecrets).map(([name, source]) => ({ field: `jobSecrets.${name}`, source }));
  const { login } = platform.web ?? {};
  const web = login?.kind === "oidc" ? [{ field: "web.login.clientSecret", source: login.clientSecret }] : [];
  if (!("storage" in platform)) return [...jobs, ...web];
  const { storage, database } = platform;
  return [
    { field: "storage.objects.accessKeyId", source: storage.objects.accessKeyId },
    { field: "storage.objects.secretAccessKey", source: storage.objects.secretAccessKey },
    ...(database.kind === "url" ? [{ field: "database.url", source: database.url }] : []),
    ...jobs,
    ...web,
  ];
}
