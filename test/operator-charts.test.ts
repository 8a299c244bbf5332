/**
 * Slinky's real charts, installed with the stack's namespaces and values by the real Pulumi, its Kubernetes provider and their
 * Helm, on a real Kubernetes API. Pods are played by support/fake-kubelet.ts, so the webhook answers nothing: what it does is
 * slurm-webhook.test.ts's. Needs what tools/setup.sh and tools/engines.sh make.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Release } from "@pulumi/kubernetes/helm/v3/release.js";
import { Provider } from "@pulumi/kubernetes/provider.js";
import type { PulumiFn } from "@pulumi/pulumi/automation/index.js";
import type { Deployment } from "kubernetes-types/apps/v1.js";
import type { Pod } from "kubernetes-types/core/v1.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { ManifestGroup } from "../modules/cluster/apply/component.ts";
import { platformTarget } from "../modules/cluster/index.ts";
import { namespaceManifests } from "../modules/cluster/namespaces.ts";
import { operatorCharts } from "../modules/cluster/slurm/index.ts";
import { ClusterTarget } from "../schemas/target.ts";
import { StackRunner } from "../stacks/stack-runner.ts";
import kubernetes from "../stacks/targets/kubernetes.ts";
import { startFakeKubelet } from "./support/fake-kubelet.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";
import { copySlinkyCharts, writeCertManagerKinds } from "./support/slinky-charts.ts";

const ROOT = resolve(import.meta.dirname, "..");
const NAME = "charts";
const NAMESPACE = "/namespaces/slinky";
const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

/** A stack of a test's own. */
class Charts extends StackRunner {
  static async open(home: string): Promise<Charts> {
    const cache = process.env.UPLIFT_CACHE ?? join(homedir(), ".cache", "uplift");
    const charts = new Charts({ root: ROOT, home, cache, path: process.env.PATH ?? "" });
    await charts.makeFolders();
    return charts;
  }
  async up(program: PulumiFn) {
    const { changes } = await this.change(NAME, { program }, (stack, collector) => this.upWith(stack, collector));
    return changes;
  }
  end() {
    return this.destroy(NAME, false);
  }
}

describe.skipIf("missing" in engines)(`Slinky's charts${skipped}`, () => {
  let folder: string;
  let api: KubernetesApi;
  let stopKubelet: () => Promise<void>;
  let charts: Charts;
  let before: string[];
  const kubeconfigBefore = process.env.KUBECONFIG;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uplift-charts-"));
    const certificates = join(folder, "cert-manager.yaml");
    await writeCertManagerKinds(certificates);
    api = await startKubernetesApi({ controllerManager: true, crds: [certificates] });
    stopKubelet = startFakeKubelet(api);
    process.env.KUBECONFIG = api.kubeconfig;
    await copySlinkyCharts(join(folder, "charts"));
    charts = await Charts.open(join(folder, "home"));
    before = await everything();
  }, 180_000);
  afterAll(async () => {
    if (kubeconfigBefore === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = kubeconfigBefore;
    await stopKubelet?.();
    await api?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** What stacks/cluster.ts makes first of the shipped target: namespaces, then one chart after the other. */
  function program(pins: Record<string, string> = {}): PulumiFn {
    const { platform } = ClusterTarget.parse(kubernetes);
    const place = { slurmOperator: join(folder, "charts") };
    const changed = { ...platform, pins, charts: place, installed: { certManager: true } };
    const target = platformTarget(ClusterTarget.parse({ ...kubernetes, kubeContext: api.context, platform: changed }));
    return async () => {
      const provider = new Provider("kubernetes", { context: api.context });
      const namespaces = new ManifestGroup("namespaces", { manifests: namespaceManifests(target), provider });
      const made: Release[] = [];
      for (const { name, chart, version, namespace, values } of operatorCharts({ target }))
        made.push(
          new Release(
            name,
            { ...{ name, chart, version, namespace, values }, atomic: true, timeout: 600 },
            { provider, dependsOn: [...namespaces.objects, ...made] },
          ),
        );
    };
  }

  const read = async <T>(path: string) => {
    const { status, body } = await api.request("GET", path);
    expect([path, status]).toEqual([path, 200]);
    return body as T;
  };
  const deployment = (name: string) => read<Required<Deployment>>(`/apis/apps/v1${NAMESPACE}/deployments/${name}`);
  const webhooks = () =>
    read<{ metadata: { generation: number } }>(
      "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/slurm-operator-webhook",
    );

  /** Every object, by its address, but what the API and its controllers keep for themselves. */
  async function everything(): Promise<string[]> {
    const Groups = z.object({
      groups: z.array(z.object({ preferredVersion: z.object({ groupVersion: z.string() }) })),
    });
    const { groups } = Groups.parse((await api.request("GET", "/apis")).body);
    const Kinds = z.object({ resources: z.array(z.object({ name: z.string(), verbs: z.array(z.string()) })) });
    const Items = z.object({
      items: z.array(z.object({ metadata: z.object({ name: z.string(), namespace: z.string().default("") }) })),
    });
    const found: string[] = [];
    for (const place of ["/api/v1", ...groups.map(({ preferredVersion: { groupVersion } }) => `/apis/${groupVersion}`)])
      for (const { name, verbs } of Kinds.parse((await api.request("GET", place)).body).resources) {
        if (name.includes("/") || !verbs.includes("list") || name === "events" || name === "leases") continue;
        const { items } = Items.parse((await api.request("GET", `${place}/${name}`)).body);
        found.push(...items.map(({ metadata }) => `${place}/${name} ${metadata.namespace}/${metadata.name}`));
      }
    return found.sort();
  }

  it("are installed with the stack's values, and their pods run under the level of their namespace", async () => {
    expect(await charts.up(program())).toMatchObject({ update: 0, delete: 0, replace: 0 });
    const namespace = await read<{ metadata: { labels: Record<string, string> } }>(`/api/v1${NAMESPACE}`);
    expect(namespace.metadata.labels["pod-security.kubernetes.io/enforce"]).toBe("baseline");
    expect((await deployment("slurm-operator")).status.availableReplicas).toBe(1);
    expect((await deployment("slurm-operator-webhook")).status.availableReplicas).toBe(2);
    const { items } = await read<{ items: { metadata: { name: string } }[] }>(
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    );
    expect(items.filter(({ metadata }) => metadata.name.endsWith(".slinky.slurm.net"))).toHaveLength(6);
  }, 600_000);

  it("could not have the next stricter level, which is the whole reason for that one", async () => {
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await api.request("POST", "/api/v1/namespaces", { metadata: { name: "stricter", labels } });
    const { metadata, spec } = (await deployment("slurm-operator")).spec.template as Pod;
    const pod = { metadata: { ...metadata, name: "operator" }, spec };
    const { status, body } = await api.request("POST", "/api/v1/namespaces/stricter/pods?dryRun=All", pod);
    expect(status).toBe(403);
    expect((body as { message: string }).message).toContain('violates PodSecurity "restricted:latest"');
    await api.request("DELETE", "/api/v1/namespaces/stricter");
  });

  it("keep one webhook through the loss of a node: two, apart from each other, one of them at any time", async () => {
    const { spec } = await deployment("slurm-operator-webhook");
    const term = spec.template.spec?.affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution?.[0];
    expect(term?.podAffinityTerm.topologyKey).toBe("kubernetes.io/hostname");
    const wanted = Object.entries(term?.podAffinityTerm.labelSelector?.matchLabels ?? {});
    expect(wanted).toHaveLength(1);
    expect(Object.entries(spec.template.metadata?.labels ?? {})).toEqual(expect.arrayContaining(wanted));
    const budget = await read<{ spec: { minAvailable: number }; status: { disruptionsAllowed: number } }>(
      `/apis/policy/v1${NAMESPACE}/poddisruptionbudgets/slurm-operator-webhook`,
    );
    expect([budget.spec.minAvailable, budget.status.disruptionsAllowed]).toEqual([1, 1]);
  });

  it("show no change in a second preview", async () => {
    const { same, ...rest } = (await charts.preview(NAME, program())).changes;
    expect(rest).toEqual({ create: 0, update: 0, delete: 0, replace: 0 });
    expect(same).toBeGreaterThan(8);
  }, 600_000);

  it("change what a new pin names when they are upgraded, and nothing that is random", async () => {
    const image = `registry.example.org/slurm-operator@sha256:${"f".repeat(64)}`;
    const [webhook, configuration] = [await deployment("slurm-operator-webhook"), await webhooks()];
    expect(await charts.up(program({ slurmOperator: image }))).toMatchObject({ create: 0, update: 1, delete: 0 });
    expect((await deployment("slurm-operator")).spec.template.spec?.containers[0]?.image).toBe(image);
    expect((await deployment("slurm-operator-webhook")).metadata.generation).toBe(webhook.metadata.generation);
    expect((await webhooks()).metadata.generation).toBe(configuration.metadata.generation);
  }, 600_000);

  it("leave nothing when they are destroyed", async () => {
    await charts.end();
    expect(await everything()).toEqual(before);
  }, 600_000);
});
