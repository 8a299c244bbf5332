/**
 * Slinky's real admission webhook in front of a real Kubernetes API, and the real Pulumi making and destroying a whole platform
 * through it: charts, then what they look after. The webhook answers late, then is away for a while, as webhooks are. Played are
 * pods (support/fake-kubelet.ts) and what leads from the chart to the webhook (support/slurm-webhook.ts); the operator is
 * slurm-operator.test.ts's. Needs what tools/setup.sh and tools/engines.sh make.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Secret } from "kubernetes-types/core/v1.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { platformTarget, poolsOf } from "../modules/cluster/index.ts";
import { expiredToken } from "../modules/cluster/slurm/index.ts";
import type { Token } from "../modules/cluster/slurm/slinky-types.ts";
import type { Manifest } from "../schemas/manifest.ts";
import { Plan } from "../schemas/plan.ts";
import { ClusterTarget } from "../schemas/target.ts";
import { ClusterEngine } from "../stacks/cluster-engine.ts";
import { clusterParts } from "../stacks/cluster-parts.ts";
import type { StackProgress } from "../stacks/engine-events.ts";
import awsP5 from "../stacks/targets/aws-p5.ts";
import awsP5en from "../stacks/targets/aws-p5en.ts";
import awsP6b200 from "../stacks/targets/aws-p6-b200.ts";
import kubernetes from "../stacks/targets/kubernetes.ts";
import { startFakeKubelet } from "./support/fake-kubelet.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { copySlinkyCharts, writeCertManagerKinds } from "./support/slinky-charts.ts";
import { type SlurmWebhook, slurmWebhook } from "./support/slurm-webhook.ts";

const SLINKY = "/apis/slinky.slurm.net/v1beta1";
const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/slurm-operator-webhook";
const SOON = { timeout: 60_000 };
const KINDS = ["Accounting", "Controller", "LoginSet", "NodeSet", "RestApi", "Token"];
const TARGETS = [kubernetes, awsP5, awsP5en, awsP6b200].map((target) => [target.name, target] as const);
const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";
const plan = Plan.parse(
  JSON.parse(await readFile(join(import.meta.dirname, "golden/github-sft-rl.kubernetes.plan.json"), "utf8")),
);

/** What is Slinky's of a platform, and the ConfigMaps that a Controller names. */
function slinkyOf(target: ClusterTarget) {
  const platform = platformTarget(target);
  const { slurm } = clusterParts(platform, poolsOf(platform, [plan]));
  return {
    resources: slurm.filter(({ apiVersion }) => apiVersion.startsWith("slinky.")),
    configMaps: slurm.filter(({ kind }) => kind === "ConfigMap"),
  };
}

const placeOf = (manifest: Manifest) => `${collectionOf(manifest)}/${manifest.metadata.name}`;

function collectionOf({ apiVersion, kind, metadata: { namespace } }: Manifest): string {
  const base = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  return `${base}/namespaces/${namespace}/${kind.toLowerCase().replace(/y$/, "ie")}s`;
}

describe.skipIf("missing" in engines)(`Slinky's webhook${skipped}`, { timeout: 900_000 }, () => {
  let folder: string;
  let api: KubernetesApi;
  let stopKubelet: () => Promise<void>;
  let webhook: SlurmWebhook;
  let engine: ClusterEngine;
  const progress: StackProgress[] = [];
  const kubeconfigBefore = process.env.KUBECONFIG;

  beforeAll(async () => {
    if ("missing" in engines) throw new Error(engines.missing);
    folder = await mkdtemp(join(tmpdir(), "uplift-webhook-"));
    const certificates = join(folder, "cert-manager.yaml");
    await writeCertManagerKinds(certificates);
    await copySlinkyCharts(join(folder, "charts"));
    api = await startKubernetesApi({ controllerManager: true, crds: [certificates] });
    stopKubelet = startFakeKubelet(api);
    webhook = await slurmWebhook(engines.slurmOperatorWebhook, api);
    process.env.KUBECONFIG = api.kubeconfig;
    engine = await engineOf({});
  }, 180_000);
  afterAll(async () => {
    if (kubeconfigBefore === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = kubeconfigBefore;
    await stopKubelet?.();
    await webhook?.remove();
    await api?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** The shipped target on this API, with the charts of this folder. */
  function engineOf(changes: { keyGeneration?: number }): Promise<ClusterEngine> {
    const { platform } = ClusterTarget.parse(kubernetes);
    const around = { installed: { certManager: true }, charts: { slurmOperator: join(folder, "charts") } };
    const target = { ...kubernetes, kubeContext: api.context, platform: { ...platform, ...around, ...changes } };
    return ClusterEngine.open(ClusterTarget.parse(target), {
      root: resolve(import.meta.dirname, ".."),
      home: join(folder, "home"),
      cache: process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift"),
      path: process.env.PATH ?? "",
      environment: { UPLIFT_S3_ACCESS_KEY_ID: "id", UPLIFT_S3_SECRET_ACCESS_KEY: "secret" },
      progress: (event) => progress.push(event),
    });
  }

  const until = async (ask: () => boolean | Promise<boolean>) => {
    while (!(await ask())) await sleep(200);
  };
  const statusOf = async (path: string) => (await api.request("GET", path)).status;
  const places = () => slinkyOf(engine.target).resources.map(placeOf);
  const place = (kind: string) =>
    places().find((one) => one.includes(`/${kind}/`)) ?? expect.fail(`there is no ${kind}`);
  /** What is said to a change that is not kept. */
  const said = async (method: "POST" | "PATCH", path: string, body: object) => {
    const answer = await api.request(method, `${path}?dryRun=All&fieldValidation=Strict`, body);
    return `${answer.status} ${(answer.body as { message?: string }).message ?? ""}`.trim();
  };

  /** Makes a pod that waits for a node; what is said when it is to get one. */
  const binding = async (namespace: string) => {
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    const restricted = { allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: { drop: ["ALL"] } };
    const securityContext = { ...restricted, seccompProfile: { type: "RuntimeDefault" } };
    const pod = { metadata: { name: "bound" }, spec: { containers: [{ name: "c", image: "i", securityContext }] } };
    expect((await api.request("POST", pods, pod)).status).toBe(201);
    const target = { kind: "Node", name: "node" };
    return () => said("POST", `${pods}/bound/binding`, { metadata: { name: "bound" }, target });
  };

  it("is waited for by `up`, which makes the platform once it answers", async () => {
    let ended = false;
    const up = engine.platformUp([plan]).finally(() => {
      ended = true;
    });
    up.catch(() => {});
    await until(() => ended || progress.some((event) => event.kind === "resource" && event.state === "failed"));
    expect(ended).toBe(false);
    await webhook.start();
    await webhook.connect();
    const { changes } = await up;
    expect([changes.delete, changes.replace]).toEqual([0, 0]);
    const late = "the admission webhook accounting-v1beta1.kb.io did not answer; trying again";
    expect(progress).toContainEqual({ kind: "repair", what: late });
    expect(places()).toHaveLength(6);
    for (const path of places()) expect([path, await statusOf(path)]).toEqual([path, 200]);
  });

  it.each(TARGETS)("takes all six kinds as they are for %s", async (name, target) => {
    const { resources, configMaps } = slinkyOf(ClusterTarget.parse(target));
    expect(resources.map(({ kind }) => kind).sort()).toEqual(KINDS);
    // A namespace of their own, since names are taken.
    const elsewhere = (manifest: Manifest): Manifest => ({
      ...manifest,
      metadata: { ...manifest.metadata, namespace: name },
    });
    await api.request("POST", "/api/v1/namespaces", { metadata: { name } });
    for (const manifest of configMaps.map(elsewhere)) await api.request("POST", collectionOf(manifest), manifest);
    // It learns of a ConfigMap a moment after it is made.
    for (const manifest of resources.map(elsewhere))
      await expect.poll(() => said("POST", collectionOf(manifest), manifest), SOON).toBe("201");
  });

  it("refuses what would break a cluster, and says what is wrong", async () => {
    const denied = (kind: string, why: string) =>
      `403 admission webhook "${kind}-v1beta1.kb.io" denied the request: ${why}`;
    const controller = place("controllers");
    expect(await said("PATCH", controller, { spec: { clusterName: "other" } })).toBe(
      denied("controller", "cannot change ClusterName after deployment"),
    );
    const configFileRefs = [{ name: "not-there" }];
    expect(await said("PATCH", controller, { spec: { configFileRefs } })).toBe(
      denied("controller", 'ConfigMap "not-there" not found'),
    );
    const slurmConf = { metadata: { name: "own-slurm-conf" }, data: { "slurm.conf": "" } };
    await api.request("POST", "/api/v1/namespaces/slurm/configmaps", slurmConf);
    const ownSlurmConf = { spec: { configFileRefs: [{ name: "own-slurm-conf" }] } };
    await expect
      .poll(() => said("PATCH", controller, ownSlurmConf), SOON)
      .toBe(denied("controller", "the configFile is reserved for slurm-operator use: slurm.conf"));
    const jwtKeyRef = { name: "other" };
    for (const kind of ["accounting", "token"] as const)
      expect(await said("PATCH", place(`${kind}s`), { spec: { jwtKeyRef } })).toBe(
        denied(kind, "the value of JwtKeyRef or JwtHs256KeyRef cannot be modified after deployment"),
      );
  });

  it("takes a token's place that comes with new keys; one that the operator has renewed is left alone by `up`", async () => {
    const secret = (name: string) => `/api/v1/namespaces/uplift/secrets/${name}`;
    const tokenIn = async (name: string) => {
      const { data } = (await api.request("GET", secret(name))).body as Secret;
      return Buffer.from(data?.token ?? "", "base64").toString();
    };
    // As the operator does it.
    await api.request("PATCH", secret("slurm-token-1"), { data: null, stringData: { token: "renewed" } });
    const { same, ...changes } = (await engine.platformPreview([plan])).changes;
    expect(changes).toEqual({ create: 0, update: 0, delete: 0, replace: 0 });
    await engine.platformUp([plan]);
    expect(await tokenIn("slurm-token-1")).toBe("renewed");

    engine = await engineOf({ keyGeneration: 2 });
    await engine.platformUp([plan]);
    expect(await statusOf(secret("slurm-token-1"))).toBe(404);
    const { data } = (await api.request("GET", "/api/v1/namespaces/slurm/secrets/slurm-auth-jwt")).body as Secret;
    const key = Buffer.from(data?.["jwt.key"] ?? "", "base64").toString();
    expect(await tokenIn("slurm-token-2")).toBe(expiredToken(key));
    const { spec } = (await api.request("GET", place("tokens"))).body as Token;
    expect(spec.secretRef).toEqual({ name: "slurm-token-2", key: "token" });
  });

  it("while it is away has changes refused at once; what is deleted waits for its finalizer, and goes when it is back", async () => {
    await webhook.stop();
    const restApi = place("restapis");
    expect(await said("PATCH", restApi, { spec: { replicas: 2 } })).toMatch(
      /^500 Internal error occurred: failed calling webhook "restapi-v1beta1.kb.io": .* connection refused$/,
    );
    expect(await statusOf(restApi)).toBe(200);
    // Nor does any pod get a node, but in kube-system and beside the webhook itself.
    const [uplift, slinky] = [await binding("uplift"), await binding("slinky")];
    expect([await uplift(), await slinky()]).toEqual([expect.stringMatching(/^500 .*podsbinding-v1\.kb\.io/), "201"]);
    // As Pulumi deletes. The finalizer is Kubernetes' own, and its end is a change, which the webhook is asked about.
    await api.request("DELETE", restApi, { propagationPolicy: "Foreground" });
    await sleep(3_000);
    const { body } = await api.request("GET", restApi);
    expect(body).toMatchObject({ metadata: { finalizers: ["foregroundDeletion"] } });
    await webhook.start();
    await until(async () => (await statusOf(restApi)) === 404);
    expect(await uplift()).toBe("201");
    await engine.platformUp([plan]);
    expect(await statusOf(restApi)).toBe(200);
  });

  it("goes after all that it looks after when the platform is destroyed, so nothing waits for it", async () => {
    progress.length = 0;
    const { kept } = await engine.platformDestroy({ deleteResults: true });
    expect(kept).toEqual([]);
    const turn = (name: string, state: "started" | "done") =>
      progress.findIndex(
        (event) =>
          event.kind === "resource" && event.operation === "delete" && event.name === name && event.state === state,
      );
    const operator = turn("slurm-operator", "started");
    expect(operator).toBeGreaterThan(0);
    for (const { kind, metadata } of slinkyOf(engine.target).resources) {
      const gone = turn(`${kind} ${metadata.namespace}/${metadata.name}`, "done");
      expect([kind, gone >= 0 && gone < operator]).toEqual([kind, true]);
    }
    expect(await statusOf(CONFIGURATION)).toBe(404);
    expect(await statusOf(SLINKY)).toBe(404);
    expect(await statusOf("/api/v1/namespaces/slurm")).toBe(404);
  });
});
