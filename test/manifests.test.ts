/**
 * Every Kubernetes object that modules make, for every target and setting that changes one: valid by the schemas of Kubernetes
 * and Slinky, unknown fields refused; taken by a real API server; its pods within our rules.
 */
import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endpointSpecOf } from "../modules/cli/cluster-endpoint-spec.ts";
import { metricsText } from "../modules/cli/cluster-metrics.ts";
import { controllerCommand } from "../modules/cli/commands/controller.ts";
import { migrateCommand } from "../modules/cli/commands/migrate.ts";
import { poolsOf } from "../modules/cluster/index.ts";
import { namespaceManifests } from "../modules/cluster/namespaces.ts";
import { METRICS } from "../modules/cluster/observability/metrics.ts";
import { Metrics } from "../modules/environments/metrics.ts";
import { endpointManifests } from "../modules/serving/index.ts";
import type { Manifest } from "../schemas/manifest.ts";
import { Plan } from "../schemas/plan.ts";
import { Web } from "../schemas/platform.ts";
import { type PlatformTarget, Target } from "../schemas/target.ts";
import { clusterParts } from "../stacks/cluster-parts.ts";
import awsP5 from "../stacks/targets/aws-p5.ts";
import awsP5en from "../stacks/targets/aws-p5en.ts";
import awsP6b200 from "../stacks/targets/aws-p6-b200.ts";
import ownCluster from "../stacks/targets/kubernetes.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { KubernetesSchemas } from "./support/kubernetes-schemas.ts";
import * as policies from "./support/pod-policies.ts";

/** All parts of a platform, as its stack applies them, and two endpoints on it: of weights on the shared storage, and in a bucket. */
function manifestsOf(target: PlatformTarget): Manifest[] {
  const plan = planFor(target);
  const pools = poolsOf(target, [plan]);
  const pool = pools.serving ?? pools.training;
  const asked = { reference: "base", planFile: "plan.json", path: undefined, hours: 8, purpose: "uplift serve" };
  const fetched = { reference: "rl-40", from: "s3://uplift-checkpoints/shared/runs/run-1/checkpoints/rl-40" };
  const endpoints = [{}, fetched].map((more) => endpointSpecOf({ ...asked, ...more, plan, target, pool }, NOW));
  return [
    ...Object.values(clusterParts(target, pools)).flat(),
    ...endpoints.flatMap((endpoint) => endpointManifests(endpoint, { target, pool })),
  ];
}

const NOW = new Date("2026-12-01T00:00:00Z");

/** The golden plan of a target, with an image that may be served. */
function planFor({ name }: PlatformTarget): Plan {
  const golden = new URL(`golden/github-sft-rl.${name}.plan.json`, import.meta.url);
  const plan = JSON.parse(readFileSync(golden, "utf8"));
  plan.target.images.vllm = `docker.io/vllm/vllm-openai@sha256:${"a".repeat(64)}`;
  return Plan.parse(plan);
}

/** Keys of the Secrets that the stack makes (stacks/cluster-secrets.ts), by namespace and name. */
const SECRETS = {
  "uplift/database": ["url", "password"],
  "uplift/web-token": ["token"],
  "uplift/oauth": ["client-secret", "cookie-secret"],
  "uplift/objects": ["access-key-id", "secret-access-key"],
  "uplift/slurm-token-1": ["token"],
  "slurm/slurm-auth-slurm": ["slurm.key"],
  "slurm/slurm-auth-jwt": ["jwt.key"],
  "slurm/accounting-database": ["password", "root-password"],
  "slurm/job-secrets": [],
  "uplift-serving/objects": ["access-key-id", "secret-access-key"],
  "uplift-serving/*": ["api-key"],
};

type Own = PlatformTarget & { kind: "kubernetes" };
const own = Target.parse(ownCluster) as Own;
const clouds = [awsP5, awsP5en, awsP6b200].map((target) => Target.parse(target) as PlatformTarget);

const oidc = {
  ...{ kind: "oidc", issuer: "https://login.example.org", clientId: "uplift", emailDomains: ["example.org"] },
  clientSecret: { kind: "environment", variable: "OIDC_SECRET" },
} as const;
const site = { host: "uplift.example.org", ingressClass: "nginx" };
const certificate = { kind: "acm", certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/1" } as const;
const csi = { kind: "csi", driver: "nfs.csi.k8s.io", attributes: { server: "s", share: "/x" } } as const;
const url = { kind: "url", url: { kind: "environment", variable: "DATABASE_URL" } } as const;

/** Every setting that changes an object, each with one target. */
const SETTINGS: Readonly<Record<string, object>> = {
  "as shipped": {},
  "a web name with a Secret": { web: Web.parse({ ...site, tls: { kind: "secret", name: "tls" } }) },
  "a web name with cert-manager and OIDC": {
    web: Web.parse({ ...site, tls: { kind: "cert-manager", clusterIssuer: "letsencrypt" }, login: oidc }),
  },
  "a web name with AWS's certificates": { web: Web.parse({ ...site, ingressClass: "alb", tls: certificate }) },
  "a web name with AWS's certificates and OIDC": {
    web: Web.parse({ ...site, ingressClass: "alb", tls: certificate, login: oidc }),
  },
  Prometheus: { prometheus: true },
};
const OF_ONES_OWN: Readonly<Record<string, object>> = {
  "a database elsewhere": { database: url },
  "shared storage mounted by nodes": {
    storage: { ...own.platform.storage, shared: { kind: "node-path", path: "/lustre/uplift" } },
  },
  "shared storage of a CSI driver": { storage: { ...own.platform.storage, shared: csi } },
};

const withSettings = (target: PlatformTarget, settings: object) =>
  Target.parse({ ...target, platform: { ...target.platform, ...settings } }) as PlatformTarget;
const CASES = [
  ...[own, ...clouds].flatMap((target) =>
    Object.entries(SETTINGS).map(
      ([name, settings]) => [`${target.name}, ${name}`, withSettings(target, settings)] as const,
    ),
  ),
  ...Object.entries(OF_ONES_OWN).map(
    ([name, settings]) => [`${own.name}, ${name}`, withSettings(own, settings)] as const,
  ),
].map(([name, target]) => ({ name, target, manifests: manifestsOf(target) }));

const schemas = await KubernetesSchemas.load();

describe.each(CASES)("$name", ({ target, manifests }) => {
  const pods = policies.podsOf(manifests);

  it("is valid by the schemas of Kubernetes and Slinky, no field unknown", () => {
    expect(manifests.flatMap((manifest) => schemas.mistakes(manifest))).toEqual([]);
  });
  it("is the same every time", () => {
    expect(manifestsOf(structuredClone(target))).toEqual(manifests);
  });
  it("names and labels its objects so that Kubernetes takes them and destroy finds them", () => {
    expect(policies.badNames(manifests)).toEqual([]);
  });
  it("has selectors that find their pods", () => {
    expect(policies.strayingSelectors(manifests, pods)).toEqual([]);
  });
  it("runs no container as root unless it says why", () => {
    expect(policies.rootWithoutReason(pods)).toEqual([]);
  });
  it("leaves a container that is broken into nothing to go on with", () => {
    expect(policies.looseContainers(pods)).toEqual([]);
  });
  it("says of every container what it needs and where it ends", () => {
    expect(policies.withoutLimits(pods)).toEqual([]);
  });
  it("looks after every long-lived container with probes", () => {
    expect(policies.withoutProbes(pods)).toEqual([]);
  });
  it("is waited for as long as it may take", () => {
    expect(policies.givenUpEarly(manifests)).toEqual([]);
  });
  it("has every image by digest or in schemas/pins.ts", () => {
    expect(policies.unpinnedImages(pods)).toEqual([]);
  });
  it("has no value of a secret in it", () => {
    expect(policies.secretValues(manifests, pods)).toEqual([]);
  });
  it("refers to volumes and Secrets that are there", () => {
    expect(policies.danglingReferences(pods, SECRETS)).toEqual([]);
  });
  it("makes the accounts that its pods run as", () => {
    const accounts = manifests.filter(({ kind }) => kind === "ServiceAccount").map(policies.nameOf);
    for (const { namespace, spec } of pods)
      if (spec.serviceAccountName !== undefined)
        expect(accounts).toContain(`ServiceAccount ${namespace}/${spec.serviceAccountName}`);
  });
  it("gives no pod a token of Kubernetes that it does not ask for", () => {
    expect(policies.apiAccess(pods)).toEqual([]);
  });
});

describe("the checks themselves find", () => {
  const [first] = CASES;
  const copy = (): Manifest[] => structuredClone(first?.manifests ?? []);
  // biome-ignore lint/suspicious/noExplicitAny: broken on purpose
  const broken = (breakIt: (deployment: any) => void): Manifest[] => {
    const manifests = copy();
    breakIt(manifests.find(({ kind }) => kind === "Deployment"));
    return manifests;
  };
  const all = (manifests: Manifest[]) => {
    const pods = policies.podsOf(manifests);
    return [
      ...manifests.flatMap((manifest) => schemas.mistakes(manifest)),
      ...policies.badNames(manifests),
      ...policies.strayingSelectors(manifests, pods),
      ...[policies.rootWithoutReason, policies.looseContainers, policies.withoutLimits].flatMap((rule) => rule(pods)),
      ...[policies.withoutProbes, policies.unpinnedImages, policies.apiAccess].flatMap((rule) => rule(pods)),
      ...policies.secretValues(manifests, pods),
      ...policies.danglingReferences(pods, SECRETS),
      ...policies.givenUpEarly(manifests),
    ];
  };
  // biome-ignore lint/suspicious/noExplicitAny: broken on purpose
  it.each<[string, (deployment: any) => void, string]>([
    [
      "a misspelt field",
      (d) => (d.spec.replica = 1),
      'Deployment uplift/controller: /spec must NOT have additional properties "replica"',
    ],
    [
      "a text for a number",
      (d) => (d.spec.replicas = "1"),
      "Deployment uplift/controller: /spec/replicas must be integer",
    ],
    [
      "root",
      (d) => (d.spec.template.spec.securityContext.runAsUser = 0),
      "Deployment uplift/controller, controller: may run as root",
    ],
    [
      "a limit left out",
      (d) => (d.spec.template.spec.containers[0].resources.limits = {}),
      "Deployment uplift/controller, controller: has no limit of memory",
    ],
    [
      "a moving image",
      (d) => (d.spec.template.spec.containers[0].image = "x:latest"),
      "Deployment uplift/controller, controller: has the image x:latest",
    ],
    [
      "a key of a Secret that nobody makes",
      (d) => (d.spec.template.spec.volumes[0].secret.items[0].key = "uri"),
      "Deployment uplift/controller: asks for uplift/database: uri",
    ],
    [
      "a secret as text",
      (d) => d.spec.template.spec.containers[0].env.push({ name: "API_TOKEN", value: "x" }),
      "Deployment uplift/controller, controller: has the value of API_TOKEN",
    ],
    [
      "a selector gone astray",
      (d) => (d.spec.template.metadata.labels = {}),
      "Deployment uplift/controller: selects no pod",
    ],
    [
      "a probe left out",
      (d) => delete d.spec.template.spec.containers[0].livenessProbe,
      "Deployment uplift/controller, controller: has no probes",
    ],
    [
      "a start that is longer than up waits",
      (d) => (d.spec.template.spec.containers[0].startupProbe.failureThreshold = 301),
      "Deployment uplift/controller: has 602 s, and up waits 600 s",
    ],
    ["a name too long", (d) => (d.metadata.name = "x".repeat(64)), `Deployment uplift/${"x".repeat(64)}: is no name`],
  ])("%s", (_what, breakIt, sentence) => {
    expect(all(copy())).toEqual([]);
    expect(all(broken(breakIt))).toContain(sentence);
  });
});

it("the command lines of our own containers are ones that the CLI knows", async () => {
  const containers = CASES.flatMap(({ manifests }) =>
    policies.podsOf(manifests).flatMap(({ spec }) => spec.containers),
  );
  const ours = containers.filter(({ command }) => command?.at(-1) === "modules/cli/main.ts");
  expect(new Set(ours.map(({ args }) => args?.[0]))).toEqual(new Set(["controller", "migrate"]));
  for (const { args } of ours) {
    const program = new Command().exitOverride().configureOutput({ writeErr: () => {} });
    controllerCommand(program);
    migrateCommand(program);
    const run: string[] = [];
    for (const command of program.commands) command.exitOverride().action(() => void run.push(command.name()));
    await program.parseAsync(args ?? [], { from: "user" });
    expect(run).toEqual([args?.[0]]);
  }
});

it("every metric of ours that dashboard and alerts ask for is one that our services write", async () => {
  const environments = new Metrics();
  environments.sandboxStarted("attempt", 1);
  const text = [
    environments.render({ attempts: 1, places: 2 }),
    await metricsText({
      runs: async () => ({ runs: {}, waitingSteps: 0 }),
      leaderboard: async () => ({ boards: [], models: [] }) as never,
      endpoints: async () => [],
      environmentsUp: async () => true,
      pruned: { ended: 0, failures: 0 },
    }),
  ].join("\n");
  const written = new Set([...text.matchAll(/^(?:# TYPE )?([a-z_]+)/gm)].map(([, name]) => name));
  expect(Object.values(METRICS).filter((name) => name.startsWith("uplift_") && !written.has(name))).toEqual([]);
});

const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

describe.skipIf("missing" in engines)(`a real API server${skipped}`, () => {
  let api: KubernetesApi;
  beforeAll(async () => {
    if ("missing" in engines) throw new Error(engines.missing);
    const crds = (await readdir(engines.slinkyCrds)).map((file) => join(engines.slinkyCrds, file));
    api = await startKubernetesApi({ crds });
    for (const namespace of namespaceManifests(own)) await api.request("POST", "/api/v1/namespaces", namespace);
  });
  afterAll(() => api.stop());

  it.each(CASES)(
    "takes every object, and every pod in the security level of its namespace: $name",
    async ({ manifests }) => {
      const refused: string[] = [];
      const post = async (what: string, path: string, body: object) => {
        const { status, body: answer } = await api.request("POST", `${path}?dryRun=All&fieldValidation=Strict`, body);
        if (status !== 201) refused.push(`${what}: ${status} ${(answer as { message?: string }).message}`);
      };
      for (const manifest of manifests) {
        // The Prometheus operator's kinds are not here; a namespace is there already.
        if (manifest.apiVersion.startsWith("monitoring.") || manifest.kind === "Namespace") continue;
        await post(policies.nameOf(manifest), collectionOf(manifest), manifest);
      }
      for (const { of, namespace, metadata, spec } of policies.podsOf(manifests))
        await post(`pod of ${of}`, `/api/v1/namespaces/${namespace}/pods`, {
          ...{ apiVersion: "v1", kind: "Pod", metadata: { ...metadata, generateName: "pod-" } },
          spec: { ...spec, restartPolicy: spec.restartPolicy ?? "Always" },
        });
      expect(refused).toEqual([]);
    },
  );
});

/** Where objects of a kind are made. */
function collectionOf({ apiVersion, kind, metadata: { namespace } }: Manifest): string {
  const base = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const plural = kind
    .toLowerCase()
    .replace(/y$/, "ie")
    .replace(/(s|sh|ch|x)$/, "$1e");
  return `${base}${namespace === undefined ? "" : `/namespaces/${namespace}`}/${plural}s`;
}
