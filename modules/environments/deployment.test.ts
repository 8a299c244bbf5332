/** The objects of the service and its sandboxes' namespace, as values. */
import type { StatefulSet } from "kubernetes-types/apps/v1.js";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.js";
import type { PolicyRule, Role, RoleBinding } from "kubernetes-types/rbac/v1.js";
import { describe, expect, it } from "vitest";
import type { Manifest } from "../../schemas/manifest.ts";
import { type PlatformTarget, Target } from "../../schemas/target.ts";
import { environmentManifests, podSettings } from "./deployment.ts";
import { PodSettings } from "./pod-manifest.ts";

const digest = (letter: string) => `registry.example.org/uplift/x@sha256:${letter.repeat(64)}`;
const images = { platform: digest("a"), sandbox: digest("b") };
const common = {
  ...{ name: "site", instance: "p5en.48xlarge", maxNodes: 1, pricing: { kind: "owned", dollarsPerNodeHour: 0 } },
  images: { automodel: "a", nemoRl: "b", vllm: "c" },
  storage: {},
  environments: { host: "environments.uplift.svc.cluster.local", port: 9601 },
};
const secret = { kind: "environment", variable: "KEY" };

function kubernetes(platform: object = {}): PlatformTarget {
  const objects = { endpoint: "https://s3.example.org", bucket: "b", accessKeyId: secret, secretAccessKey: secret };
  const shared = { kind: "nfs", server: "nfs.example.org", path: "/shared" };
  return Target.parse({
    ...{ kind: "kubernetes", kubeContext: "c", ...common },
    platform: {
      nodes: { training: { gpu: "h100" }, sandboxes: { pool: "cpu" }, platform: { pool: "services" } },
      storage: { shared, blockClass: "standard", objects },
      ...{ images, ...platform },
    },
  }) as PlatformTarget;
}

function aws(platform: object = {}): PlatformTarget {
  return Target.parse({
    ...{ kind: "aws", region: "us-east-1", zones: ["us-east-1a"], ...common, pricing: { kind: "on-demand" } },
    platform: {
      ...{ accountId: "111122223333", amis: { gpu: "ami-1", cpu: "ami-2" }, images },
      ...{ budget: { monthlyDollars: 1, emails: ["a@example.org"] }, ...platform },
    },
  }) as PlatformTarget;
}

function find<T>(manifests: readonly Manifest[], kind: string, name: string): T {
  const found = manifests.filter(({ kind: of, metadata }) => of === kind && metadata.name === name);
  expect(found, `${kind} ${name}`).toHaveLength(1);
  return found[0] as T;
}

const made = environmentManifests({ target: kubernetes(), blockClass: "standard" });

/** "may create, get pods" */
function sentence({ apiGroups, resources, verbs, ...rest }: PolicyRule): string {
  expect(rest).toEqual({});
  expect(apiGroups).toEqual([""]);
  return `may ${verbs.join(", ")} ${resources?.join(", ")}`;
}

describe("the service's account", () => {
  it("may make, see and end pods and run commands in them, in the sandboxes' namespace, and nothing else anywhere", () => {
    const roles = made.filter(({ kind }) => /Role$/.test(kind)) as (Role & Manifest)[];
    expect(roles.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`)).toEqual([
      "Role uplift-sandboxes/environments",
    ]);
    expect(roles[0]?.rules?.map(sentence)).toEqual([
      "may create, get, list, watch, delete pods",
      "may create, get pods/exec",
    ]);
    const bindings = made.filter(({ kind }) => /RoleBinding$/.test(kind)) as (RoleBinding & Manifest)[];
    expect(bindings).toHaveLength(1);
    expect(bindings[0]).toMatchObject({
      kind: "RoleBinding",
      metadata: { namespace: "uplift-sandboxes" },
      roleRef: { kind: "Role", name: "environments" },
      subjects: [{ kind: "ServiceAccount", name: "environments", namespace: "uplift" }],
    });
  });
});

describe("the sandboxes' namespace", () => {
  it("lets nothing in and nothing out, not even to DNS", () => {
    expect(find<NetworkPolicy>(made, "NetworkPolicy", "deny-all")).toMatchObject({
      metadata: { namespace: "uplift-sandboxes" },
      spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] },
    });
    const policies = made.filter(
      ({ metadata, kind }) => kind === "NetworkPolicy" && metadata.namespace === "uplift-sandboxes",
    );
    expect(policies).toHaveLength(1);
    expect(Object.keys((policies[0] as Manifest & NetworkPolicy).spec ?? {})).toEqual(["podSelector", "policyTypes"]);
  });

  it("holds as many sandboxes as the target says, of the size it says, and nothing but pods", () => {
    const target = kubernetes({ sandboxes: { maxSandboxes: 10, milliCpus: 500, memoryMib: 1024 } });
    const manifests = environmentManifests({ target, blockClass: "standard" });
    expect(find<{ spec: unknown }>(manifests, "ResourceQuota", "sandboxes").spec).toEqual({
      hard: {
        pods: "10",
        ...{ "requests.cpu": "7500m", "requests.memory": "12800Mi", "requests.ephemeral-storage": "1280Mi" },
        ...{ "limits.cpu": "7500m", "limits.memory": "12800Mi", "limits.ephemeral-storage": "1280Mi" },
        ...{ services: "0", persistentvolumeclaims: "0", secrets: "0", replicationcontrollers: "0" },
        ...{ "count/deployments.apps": "0", "count/statefulsets.apps": "0", "count/jobs.batch": "0" },
      },
    });
    const size = { cpu: "500m", memory: "1024Mi", "ephemeral-storage": "128Mi" };
    expect(find<{ spec: unknown }>(manifests, "LimitRange", "sandboxes").spec).toEqual({
      limits: [{ type: "Container", max: size, default: size, defaultRequest: size }],
    });
  });

  it("never has a sandbox evicted by the upkeep of nodes", () => {
    expect(find<{ spec: unknown }>(made, "PodDisruptionBudget", "sandboxes").spec).toEqual({
      minAvailable: 257,
      selector: { matchLabels: { "app.kubernetes.io/name": "sandbox", "app.kubernetes.io/part-of": "uplift" } },
    });
  });
});

describe("the service", () => {
  it("is where the target says that jobs find it", () => {
    expect(find<{ spec: unknown; metadata: unknown }>(made, "Service", "environments")).toMatchObject({
      metadata: { namespace: "uplift" },
      spec: {
        ports: [
          { name: "http", port: 9601 },
          { name: "metrics", port: 9602 },
        ],
      },
    });
  });

  it("is reached by jobs and the platform only, and reaches DNS and the Kubernetes API only", () => {
    const of = (target: PlatformTarget, rest = {}) =>
      find<NetworkPolicy>(
        environmentManifests({ target, blockClass: "standard", ...rest }),
        "NetworkPolicy",
        "environments",
      ).spec;
    const api = [443, 6443].map((port) => ({ protocol: "TCP", port }));
    const dns = ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 }));
    const namespace = (name: string) => ({
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": name } },
    });
    const block = (cidr: string) => ({ ipBlock: { cidr } });
    expect(of(aws())).toEqual({
      podSelector: { matchLabels: { "app.kubernetes.io/name": "environments" } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [{ from: [namespace("slurm"), namespace("uplift")], ports: [{ protocol: "TCP", port: 9601 }] }],
      egress: [
        { to: [namespace("kube-system"), block("169.254.20.10/32")], ports: dns },
        { to: [block("10.64.0.0/16"), block("10.100.0.0/16"), block("172.20.0.0/16")], ports: api },
      ],
    });
    expect(of(kubernetes())?.egress?.[1]).toEqual({ to: [block("0.0.0.0/0")], ports: api });
    expect(of(kubernetes(), { apiCidrs: ["10.0.0.1/32"] })?.egress?.[1]?.to).toEqual([block("10.0.0.1/32")]);
    const scraped = of(kubernetes({ prometheus: true }))?.ingress;
    expect(scraped).toHaveLength(2);
    expect(scraped?.[1]?.ports).toEqual([{ protocol: "TCP", port: 9602 }]);
  });

  it("runs once, keeps grades and task sets on a volume, and lets attempts end before it does", () => {
    const { spec } = find<StatefulSet>(made, "StatefulSet", "environments");
    const pod = spec?.template.spec;
    expect(spec?.replicas).toBe(1);
    expect(pod?.volumes?.[0]).toEqual({ name: "data", persistentVolumeClaim: { claimName: "environments-data" } });
    const [container] = pod?.containers ?? [];
    const word = (name: string) => container?.args?.[container.args.indexOf(name) + 1];
    expect(container?.command).toEqual(["node", "--import", "tsx", "modules/environments/main.ts"]);
    expect(word("--data")).toBe(container?.volumeMounts?.[0]?.mountPath);
    expect(word("--drain-seconds")).toBe("900");
    expect(pod?.terminationGracePeriodSeconds).toBeGreaterThan(900);
    expect(word("--max-attempts")).toBe("256");
    expect(word("--sandbox")).toBe("kubernetes");
    expect(PodSettings.parse(JSON.parse(word("--pods") ?? ""))).toEqual(podSettings(kubernetes()));
    expect(find(made, "PersistentVolumeClaim", "environments-data")).toMatchObject({
      spec: { storageClassName: "standard" },
    });
  });

  it("has its account's token mounted, as the only pod that may, and no right beyond it", () => {
    const { spec } = find<StatefulSet>(made, "StatefulSet", "environments");
    const pod = spec?.template.spec;
    expect(pod).toMatchObject({
      ...{ serviceAccountName: "environments", automountServiceAccountToken: true, enableServiceLinks: false },
      nodeSelector: { pool: "services" },
      securityContext: { runAsNonRoot: true, runAsUser: 990, fsGroup: 990, seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(pod?.containers[0]?.securityContext).toEqual({
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
    });
    expect(find(made, "ServiceAccount", "environments")).toMatchObject({ automountServiceAccountToken: false });
  });
});

describe("sandboxes", () => {
  it("run on the nodes of their pool, in the runtime class and the image of the target", () => {
    const toleration = { key: "uplift.dev/pool", operator: "Equal", value: "sandboxes", effect: "NoSchedule" };
    expect(podSettings(kubernetes({ sandboxes: { runtimeClass: "kata" } }))).toEqual({
      ...{ namespace: "uplift-sandboxes", image: images.sandbox, runtimeClass: "kata", service: "environments" },
      ...{
        nodeSelector: { pool: "cpu" },
        tolerations: [toleration],
        milliCpus: 1000,
        memoryMib: 2048,
        startSeconds: 300,
      },
    });
    expect(podSettings(aws())).toMatchObject({
      ...{ runtimeClass: "gvisor", nodeSelector: { "uplift.dev/pool": "sandboxes" }, tolerations: [toleration] },
    });
  });
});

it("every object carries Uplift's label, and every name is one that Kubernetes takes", () => {
  for (const target of [kubernetes(), aws({ prometheus: true })]) {
    for (const { metadata } of environmentManifests({ target, blockClass: "standard" })) {
      expect(metadata.labels?.["app.kubernetes.io/part-of"]).toBe("uplift");
      expect(metadata.name).toMatch(/^[a-z][a-z0-9-]{0,62}$/);
      expect(["uplift", "uplift-sandboxes"]).toContain(metadata.namespace);
    }
  }
});
