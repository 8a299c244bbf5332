import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import type { Deployment } from "kubernetes-types/apps/v1.js";
import type { CronJob } from "kubernetes-types/batch/v1.js";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.js";
import { describe, expect, it } from "vitest";
import { shortDigest } from "../../schemas/digest.ts";
import type { ClusterEndpointSpec } from "../../schemas/endpoint.ts";
import type { Manifest } from "../../schemas/manifest.ts";
import { MODELS, modelFolder } from "../../schemas/model.ts";
import { Plan } from "../../schemas/plan.ts";
import { instanceOf, type PlatformTarget, Target } from "../../schemas/target.ts";
import p5en from "../../stacks/targets/aws-p5en.ts";
import kubernetes from "../../stacks/targets/kubernetes.ts";
import { endpointManifests } from "./cluster-endpoint.ts";
import { expirySchedule } from "./cluster-expiry.ts";
import { readyDeadlineSeconds, type Surroundings } from "./cluster-server.ts";
import { weightsManifests } from "./cluster-weights.ts";
import { vllmFlags } from "./vllm-flags.ts";

const golden = (name: string) =>
  Plan.parse(JSON.parse(readFileSync(join(import.meta.dirname, `../../test/golden/${name}.plan.json`), "utf8")));
const payload = (name: string) => readFileSync(join(import.meta.dirname, "payload", name), "utf8");
const DIGEST = "sha256:1f2e3d4c5b6a0000000000000000000000000000000000000000000000000000";
const IMAGE = `docker.io/vllm/vllm-openai@sha256:${"a".repeat(64)}`;

const own = Target.parse(kubernetes) as PlatformTarget & { kind: "kubernetes" };
const aws = Target.parse(p5en) as PlatformTarget;
/** Without nodes of its own, serving shares those of training. */
const ofOwn: Surroundings = { target: own, pool: { kind: "training", instance: instanceOf(own) } };
const ofAws: Surroundings = { target: aws, pool: { kind: "serving", instance: instanceOf(aws) } };

/** The base model of a golden plan. */
function specOf(plan: Plan, fields: Partial<ClusterEndpointSpec> = {}): ClusterEndpointSpec {
  const { layout } = plan.layouts.find(({ stage }) => stage === "serving") ?? {};
  if (layout?.kind !== "serving" || plan.target.kind === "local") throw new Error("a cluster plan was expected");
  return {
    name: `serving-${shortDigest(DIGEST)}`,
    ...{ checkpoint: DIGEST, identity: { kind: "unmarked" }, model: `${plan.name}-base` },
    modelPath: modelFolder(plan.target.storage.mountPath, plan.baseModel.name, null),
    ...{ source: { kind: "shared" }, maker: "stack" },
    ...{ facts: plan.baseModel.name, settings: plan.serving, layout, image: IMAGE },
    ...{ purpose: "uplift serve", expiresAt: "2026-01-01T08:00:30.000Z", ...fields },
  };
}

const of = <T>(manifests: readonly Manifest[], kind: string) => manifests.find((one) => one.kind === kind) as T;
const server = (spec: ClusterEndpointSpec, around: Surroundings) =>
  of<Required<Deployment>>(endpointManifests(spec, around), "Deployment");
const podOf = (spec: ClusterEndpointSpec, around: Surroundings) => {
  const pod = server(spec, around).spec.template.spec;
  const [container] = pod?.containers ?? [];
  if (!pod || !container) throw new Error("no pod");
  return { pod, container };
};

describe("an endpoint of a 128k plan on a cluster of one's own", () => {
  const spec = specOf(golden("github-sft-rl.kubernetes"));
  const name = "serving-1f2e3d4c5b6a";
  const labels = {
    "app.kubernetes.io/name": name,
    "app.kubernetes.io/part-of": "uplift",
    "app.kubernetes.io/component": "endpoint",
    "uplift.dev/endpoint": name,
  };
  const security = {
    ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
  };
  const health = { path: "/health", port: "http" };

  it("is this Deployment", () => {
    expect(server(spec, ofOwn)).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: {
        ...{ name, namespace: "uplift-serving", labels },
        annotations: {
          "uplift.dev/expires-at": "2026-01-01T08:00:30.000Z",
          "uplift.dev/checkpoint": DIGEST,
          "uplift.dev/purpose": "uplift serve",
          "uplift.dev/maker": "stack",
          "uplift.dev/spec": expect.stringContaining('"model":"github-sft-rl-base"'),
        },
      },
      spec: {
        ...{ replicas: 1, strategy: { type: "Recreate" }, revisionHistoryLimit: 1, progressDeadlineSeconds: 1560 },
        selector: { matchLabels: { "app.kubernetes.io/name": name } },
        template: {
          metadata: { labels, annotations: { "uplift.dev/checkpoint": DIGEST } },
          spec: {
            nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3" },
            tolerations: [
              { key: "uplift.dev/pool", operator: "Equal", value: "training", effect: "NoSchedule" },
              { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" },
            ],
            affinity: {
              podAntiAffinity: {
                requiredDuringSchedulingIgnoredDuringExecution: [
                  {
                    labelSelector: { matchLabels: { "app.kubernetes.io/component": "endpoint" } },
                    topologyKey: "kubernetes.io/hostname",
                  },
                ],
              },
            },
            ...{ automountServiceAccountToken: false, enableServiceLinks: false, terminationGracePeriodSeconds: 60 },
            securityContext: {
              ...{ runAsNonRoot: true, runAsUser: 2000, runAsGroup: 0, seccompProfile: { type: "RuntimeDefault" } },
            },
            initContainers: [
              {
                ...{ name: "check-model", image: IMAGE, command: ["python3", "-c", payload("check_model.py")] },
                args: ["--folder", "/shared/models/Qwen--Qwen3.8-27B"],
                resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { cpu: "1", memory: "512Mi" } },
                ...{ securityContext: security, terminationMessagePolicy: "FallbackToLogsOnError" },
                volumeMounts: [{ name: "shared", mountPath: "/shared", readOnly: true }],
              },
            ],
            containers: [
              {
                ...{ name: "vllm", image: IMAGE, command: ["vllm", "serve"] },
                args: [
                  ...["/shared/models/Qwen--Qwen3.8-27B", "--served-model-name", "github-sft-rl-base"],
                  ...["--host", "0.0.0.0", "--port", "8000", "--max-model-len", "131072", "--dtype", "bfloat16"],
                  ...["--tensor-parallel-size", "4", "--data-parallel-size", "2", "--gpu-memory-utilization", "0.92"],
                  ...["--kv-cache-dtype", "auto", "--enable-chunked-prefill", "--max-num-batched-tokens", "8192"],
                  ...["--max-num-seqs", "104", "--no-enable-prefix-caching", "--language-model-only"],
                  ...["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3"],
                  ...["--generation-config", "vllm", "--seed", "0", "--disable-uvicorn-access-log"],
                ],
                env: [
                  { name: "VLLM_API_KEY", valueFrom: { secretKeyRef: { name, key: "api-key" } } },
                  { name: "HF_HUB_OFFLINE", value: "1" },
                  { name: "TRANSFORMERS_OFFLINE", value: "1" },
                  { name: "VLLM_NO_USAGE_STATS", value: "1" },
                  { name: "DO_NOT_TRACK", value: "1" },
                  { name: "HOME", value: "/home/vllm" },
                  { name: "USER", value: "vllm" },
                ],
                ports: [{ name: "http", containerPort: 8000 }],
                startupProbe: { httpGet: health, periodSeconds: 10, failureThreshold: 66, timeoutSeconds: 5 },
                readinessProbe: { httpGet: health, periodSeconds: 10, failureThreshold: 3, timeoutSeconds: 5 },
                livenessProbe: { httpGet: health, periodSeconds: 20, failureThreshold: 6, timeoutSeconds: 10 },
                resources: {
                  requests: { cpu: "95000m", memory: "990000Mi", "nvidia.com/gpu": "8" },
                  limits: { cpu: "171000m", memory: "1782000Mi", "nvidia.com/gpu": "8" },
                },
                ...{ securityContext: security, terminationMessagePolicy: "FallbackToLogsOnError" },
                volumeMounts: [
                  { name: "shared", mountPath: "/shared", readOnly: true },
                  { name: "shm", mountPath: "/dev/shm" },
                  { name: "home", mountPath: "/home/vllm" },
                  { name: "tmp", mountPath: "/tmp" },
                ],
              },
            ],
            volumes: [
              { name: "shared", persistentVolumeClaim: { claimName: "shared", readOnly: true } },
              { name: "shm", emptyDir: { medium: "Memory", sizeLimit: "32Gi" } },
              { name: "home", emptyDir: { sizeLimit: "64Gi" } },
              { name: "tmp", emptyDir: { sizeLimit: "16Gi" } },
            ],
          },
        },
      },
    });
  });

  it("is reached by the namespaces of evaluation and jobs alone, and reaches nobody", () => {
    const [, service, policy, ...others] = endpointManifests(spec, ofOwn);
    expect(service).toMatchObject({
      kind: "Service",
      metadata: { name, namespace: "uplift-serving", labels },
      spec: { type: "ClusterIP", selector: { "app.kubernetes.io/name": name }, ports: [{ name: "http", port: 8000 }] },
    });
    const from = (namespace: string) => ({
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
    });
    expect(policy).toEqual({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name, namespace: "uplift-serving", labels },
      spec: {
        podSelector: { matchLabels: { "app.kubernetes.io/name": name } },
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ from: [from("uplift"), from("slurm")], ports: [{ protocol: "TCP", port: 8000 }] }],
        egress: [],
      },
    });
    expect(others.map(({ kind }) => kind)).toEqual([
      ...["ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "CronJob"],
    ]);
  });

  it("is measured where the cluster has Prometheus", () => {
    const watched = { ...own, platform: { ...own.platform, prometheus: true } } as PlatformTarget;
    const manifests = endpointManifests(spec, { ...ofOwn, target: watched });
    expect(of(manifests, "ServiceMonitor")).toMatchObject({
      metadata: { name, namespace: "uplift-serving", labels },
      spec: {
        selector: { matchLabels: { "app.kubernetes.io/name": name } },
        endpoints: [{ port: "http", path: "/metrics", interval: "30s" }],
      },
    });
    const { spec: policy } = of<NetworkPolicy>(manifests, "NetworkPolicy");
    expect(policy?.ingress?.[0]?.from).toContainEqual({
      ...{ namespaceSelector: {}, podSelector: { matchLabels: { "app.kubernetes.io/name": "prometheus" } } },
    });
  });
});

describe("an endpoint of a 256k plan on AWS", () => {
  const spec = specOf(golden("unreal-256k-rl.aws-p5en"));

  it("is the same but for the context, half the sequences, the pool and the mount", () => {
    const { pod, container } = podOf(spec, ofAws);
    expect(pod.nodeSelector).toEqual({ "uplift.dev/pool": "serving" });
    expect(pod.tolerations?.[0]).toMatchObject({ key: "uplift.dev/pool", value: "serving" });
    expect(container.args).toEqual(
      vllmFlags(spec.settings, spec.layout, {
        ...{ path: "/fsx/models/Qwen--Qwen3.8-27B", servedName: "unreal-256k-rl-base" },
        facts: MODELS["Qwen/Qwen3.8-27B"],
      }),
    );
    const flag = (name: string) => container.args?.[container.args.indexOf(name) + 1];
    expect([flag("--max-model-len"), flag("--max-num-seqs")]).toEqual(["262144", "108"]);
    expect(container.args).not.toContain("--hf-overrides");
    expect(container.resources?.requests).toEqual({ cpu: "95725m", memory: "968666Mi", "nvidia.com/gpu": "8" });
    expect(container.volumeMounts?.[0]).toEqual({ name: "shared", mountPath: "/fsx", readOnly: true });
    expect(JSON.stringify(pod)).not.toContain("vpc.amazonaws.com/efa");
  });
});

describe("an endpoint whose weights lie in a bucket", () => {
  const source = { kind: "objects", bucket: "b", prefix: "shared/runs/run-1/checkpoints/rl-40", gib: 69 } as const;
  const fields = { source, modelPath: "/weights", identity: { kind: "name", checkpoint: "rl-40" } } as const;
  const spec = specOf(golden("github-sft-rl.kubernetes"), fields);
  const ofCloud = specOf(golden("github-sft-rl.aws-p5en"), fields);
  const args = [
    ...["--bucket", "b", "--prefix", source.prefix, "--region", "us-east-1", "--folder", "/weights"],
    ...["--most-gib", "69"],
  ];

  it("fetches them to its node's disk before they are looked at, and has no shared storage", () => {
    const { pod, container } = podOf(spec, ofOwn);
    const [fetch, look, ...others] = pod.initContainers ?? [];
    expect(others).toEqual([]);
    expect(fetch).toMatchObject({
      ...{ name: "fetch-weights", image: own.platform.images.platform },
      command: ["node", "--import", "tsx", "modules/serving/fetch-weights/main.ts"],
      args: [...args, "--endpoint", "https://s3.example.org"],
      env: [
        { name: "AWS_ACCESS_KEY_ID", valueFrom: { secretKeyRef: { name: "objects", key: "access-key-id" } } },
        { name: "AWS_SECRET_ACCESS_KEY", valueFrom: { secretKeyRef: { name: "objects", key: "secret-access-key" } } },
      ],
      resources: { requests: { "ephemeral-storage": "69Gi" } },
      volumeMounts: [
        { name: "weights", mountPath: "/weights" },
        { name: "tmp", mountPath: "/tmp" },
      ],
    });
    expect(look).toMatchObject({ args: ["--folder", "/weights", "--checkpoint", "rl-40"] });
    for (const one of [look, container])
      expect(one?.volumeMounts?.[0]).toEqual({ name: "weights", mountPath: "/weights", readOnly: true });
    expect(container.args?.[0]).toBe("/weights");
    expect(pod.volumes?.[0]).toEqual({ name: "weights", emptyDir: { sizeLimit: "69Gi" } });
    expect(pod.volumes?.map(({ name }) => name)).not.toContain("shared");
    expect(pod.serviceAccountName).toBeUndefined();
  });

  it("has on AWS the identity of the account that the platform makes for it, and no key", () => {
    const { pod } = podOf(ofCloud, ofAws);
    expect(pod.initContainers?.[0]).toMatchObject({ args, env: [] });
    const [account, ...others] = weightsManifests(aws);
    expect(account).toMatchObject({
      kind: "ServiceAccount",
      metadata: { name: "weights", namespace: "uplift-serving" },
    });
    expect(others).toEqual([]);
    expect(weightsManifests(own)).toEqual([]);
    expect(pod).toMatchObject({ serviceAccountName: "weights", automountServiceAccountToken: false });
  });

  it("reaches names, the bucket's port and what gives it its identity, and nothing else", () => {
    const egress = (one: ClusterEndpointSpec, around: Surroundings) =>
      of<NetworkPolicy>(endpointManifests(one, around), "NetworkPolicy").spec?.egress;
    const dns = {
      ports: [
        { protocol: "UDP", port: 53 },
        { protocol: "TCP", port: 53 },
      ],
    };
    expect(egress(spec, ofOwn)).toEqual([dns, { ports: [{ protocol: "TCP", port: 443 }] }]);
    expect(egress(ofCloud, ofAws)).toEqual([
      ...[dns, { ports: [{ protocol: "TCP", port: 443 }] }],
      { to: [{ ipBlock: { cidr: "169.254.170.23/32" } }], ports: [{ protocol: "TCP", port: 80 }] },
    ]);
    const { storage } = own.platform;
    const of9000 = { ...storage, objects: { ...storage.objects, endpoint: "http://minio.example.org:9000" } };
    const inside = { ...own, platform: { ...own.platform, storage: of9000 } };
    expect(egress(spec, { ...ofOwn, target: inside })?.[1]).toEqual({ ports: [{ protocol: "TCP", port: 9000 }] });
  });

  it("has as long as a slow fetch takes", () => {
    expect(readyDeadlineSeconds(spec) - readyDeadlineSeconds({ ...spec, source: { kind: "shared" } })).toBe(371);
  });
});

describe("any endpoint", () => {
  const plan = golden("github-sft-rl.aws-p5en");
  const spec = specOf(plan);

  it("lives longer, and changes its purpose, without a restart", () => {
    const before = endpointManifests(spec, ofAws);
    const after = endpointManifests({ ...spec, expiresAt: "2026-01-02T09:17:00.000Z", purpose: "evaluation" }, ofAws);
    const template = (manifests: Manifest[]) => of<Required<Deployment>>(manifests, "Deployment").spec.template;
    expect(template(after)).toEqual(template(before));
    const guard = (manifests: Manifest[]) => of<Required<CronJob>>(manifests, "CronJob").spec;
    expect(guard(before).schedule).toBe("1 * * * *");
    expect(guard(after)).toEqual({ ...guard(before), schedule: "17 * * * *" });
  });

  it("is ended by a guard that may do nothing else, on the platform's own nodes", () => {
    const manifests = endpointManifests(spec, ofAws);
    expect(of(manifests, "Role")).toMatchObject({
      metadata: { name: `${spec.name}-expiry`, namespace: "uplift-serving" },
      rules: [
        { apiGroups: ["apps"], resources: ["deployments"], resourceNames: [spec.name], verbs: ["get"] },
        { apiGroups: ["apps"], resources: ["deployments/scale"], resourceNames: [spec.name], verbs: ["patch"] },
      ],
    });
    const pod = of<Required<CronJob>>(manifests, "CronJob").spec.jobTemplate.spec?.template.spec;
    expect(pod).toMatchObject({
      ...{ serviceAccountName: `${spec.name}-expiry`, automountServiceAccountToken: true, restartPolicy: "OnFailure" },
      nodeSelector: { "uplift.dev/pool": "platform" },
      containers: [
        {
          image: aws.platform.images.platform,
          command: ["node", "--input-type=module", "--eval", payload("end-expired.mjs")],
          args: [
            ...["https://kubernetes.default.svc", "/var/run/secrets/kubernetes.io/serviceaccount/token"],
            ...["uplift-serving", spec.name],
          ],
        },
      ],
    });
  });

  it("has its model looked at as its spec says, before vLLM starts", () => {
    const argsOf = (identity: ClusterEndpointSpec["identity"]) =>
      podOf({ ...spec, identity }, ofAws).pod.initContainers?.[0]?.args?.slice(2);
    expect(argsOf({ kind: "revision", revision: "0123456789abcdef" })).toEqual(["--revision", "0123456789abcdef"]);
    expect(argsOf({ kind: "digest" })).toEqual(["--digest", DIGEST]);
    expect(argsOf({ kind: "name", checkpoint: "rl-40" })).toEqual(["--checkpoint", "rl-40"]);
    expect(argsOf({ kind: "unmarked" })).toEqual([]);
  });

  it("is refused where the pool's nodes have too few GPUs", () => {
    const small = { ...instanceOf(aws), name: "small", gpus: 4 };
    expect(() => endpointManifests(spec, { ...ofAws, pool: { kind: "serving", instance: small } })).toThrow(
      "serving-1f2e3d4c5b6a needs 8 GPUs of one node, small has 4",
    );
  });

  it("asks for the plan's GPUs, within its node; has names that Kubernetes takes, once each; waits longer than its probes", () => {
    const digests = fc.stringMatching(/^[0-9a-f]{64}$/);
    const gpus = fc.constantFrom(1, 2, 4, 8);
    const seconds = fc.integer({ min: 1, max: 20_000 });
    fc.assert(
      fc.property(digests, gpus, seconds, fc.boolean(), (hex, gpusPerNode, startupSeconds, onAws) => {
        const checkpoint = `sha256:${hex}`;
        const layout = { ...spec.layout, gpusPerNode, startupSeconds };
        const one = { ...spec, name: `serving-${shortDigest(checkpoint)}`, checkpoint, layout };
        const around = onAws ? ofAws : ofOwn;
        const manifests = endpointManifests(one, around);
        const keys = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`);
        expect(new Set(keys).size).toBe(keys.length);
        for (const { kind, metadata } of manifests) {
          // A CronJob's pods have 11 characters more.
          expect(metadata.name).toMatch(/^[a-z]([a-z0-9-]*[a-z0-9])?$/);
          expect(metadata.name.length).toBeLessThanOrEqual(kind === "CronJob" ? 52 : 63);
          expect(metadata.labels).toMatchObject({
            "app.kubernetes.io/part-of": "uplift",
            "uplift.dev/endpoint": one.name,
          });
          for (const value of Object.values(metadata.labels ?? {})) expect(value.length).toBeLessThanOrEqual(63);
        }
        const { container } = podOf(one, around);
        const { requests, limits } = container.resources ?? {};
        expect(requests?.["nvidia.com/gpu"]).toBe(String(gpusPerNode));
        expect(limits?.["nvidia.com/gpu"]).toBe(String(gpusPerNode));
        const { allocatableMemoryMib } = around.pool.instance;
        expect(Number.parseInt(String(limits?.memory), 10)).toBeLessThan(allocatableMemoryMib);
        const { periodSeconds = 0, failureThreshold = 0 } = container.startupProbe ?? {};
        expect(periodSeconds * failureThreshold).toBeGreaterThanOrEqual(startupSeconds);
        expect(readyDeadlineSeconds(one)).toBeGreaterThan(periodSeconds * failureThreshold);
        expect(endpointManifests(one, around)).toEqual(manifests);
      }),
      { numRuns: 50 },
    );
  });

  it("is looked at within a minute of its end, and every hour after", () => {
    const ends = fc.integer({ min: Date.parse("2026-01-01T00:00:00Z"), max: Date.parse("2027-01-01T00:00:00Z") });
    fc.assert(
      fc.property(ends, (end) => {
        const minute = Number(/^(\d+) \* \* \* \*$/.exec(expirySchedule(new Date(end).toISOString()))?.[1]);
        const first = Math.ceil(end / 60_000) * 60_000;
        expect(new Date(first).getUTCMinutes()).toBe(minute);
        expect(first - end).toBeLessThan(60_000);
      }),
    );
  });
});
