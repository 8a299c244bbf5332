/**
 * Preflight against a real Kubernetes API (tools/engines.sh), entered by a kubeconfig as a user's is.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { parse, stringify } from "yaml";
import { golden, kubernetes, NOW } from "../modules/cluster/preflight/fixture.ts";
import { connectClients, preflight } from "../modules/cluster/preflight/index.ts";
import type { PreflightReport } from "../schemas/finding.ts";
import { findKubernetesEngines, type KubernetesApi, startKubernetesApi } from "./support/kubernetes-api.ts";

const plan = golden("github-sft-rl.kubernetes");

/** Everything preflight finds, with registries out of reach: they are not what is tested here. */
async function look(target: typeof kubernetes): Promise<PreflightReport> {
  const provider = async () => ({ version: "1.0.0", path: "/plugins/provider", download: "" });
  const clients = connectClients(target, {
    ...{ env: process.env, now: NOW, kept: new Set<string>(), pulumi: async () => "/bin/pulumi", provider },
  });
  const registries = { digestOf: async () => null, isAt: async () => true, close: () => {} };
  try {
    return await preflight(target, [plan], { ...clients, registries });
  } finally {
    clients.close();
  }
}

const of = ({ findings }: PreflightReport, check: string) =>
  findings.filter((one) => one.check === check).map(({ status, subject, found }) => `${status} ${subject}: ${found}`);

const engines = await findKubernetesEngines();
const skipped = "missing" in engines ? ` (skipped: ${engines.missing.replaceAll("\n", " ")})` : "";

describe.skipIf("missing" in engines)(`preflight of a cluster${skipped}`, () => {
  let api: KubernetesApi;
  let folder = "";
  const target = () => ({ ...kubernetes, kubeContext: api.context });
  const post = async (path: string, body: object) => {
    const { status, body: said } = await api.request("POST", path, body);
    expect(status, JSON.stringify(said)).toBe(201);
  };

  beforeAll(async () => {
    api = await startKubernetesApi();
    folder = await mkdtemp(join(tmpdir(), "uplift-preflight-"));
  });
  afterAll(async () => {
    await api?.stop();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    vi.stubEnv("KUBECONFIG", api.kubeconfig);
    return () => vi.unstubAllEnvs();
  });

  it("that is empty names everything it lacks", async () => {
    const report = await look(target());
    expect(of(report, "context")).toEqual([`ok context ${api.context}: there`]);
    expect(of(report, "version")[0]).toMatch(/^ok Kubernetes API: v1\.\d+\.\d+$/);
    expect(of(report, "access")).toEqual(["ok rights of the context's user: all allowed"]);
    expect(of(report, "namespaces")).toEqual(["ok namespaces: free"]);
    expect(of(report, "nodes").map((line) => line.replace(/ \(.*\)/, ""))).toEqual([
      "error training nodes: 0 nodes, 0 as the target says",
      "error sandboxes nodes: 0 nodes",
      "error platform nodes: 0 nodes",
    ]);
    expect(of(report, "storage-class")).toEqual(["error storage class standard: there is no such class"]);
    expect(of(report, "operator")).toEqual(["ok cert-manager: not there", "ok slurm-operator: not there"]);
    expect(of(report, "runtime-class")).toEqual(["error RuntimeClass gvisor: there is no such class"]);
    expect(of(report, "network-policy")[0]).toMatch(/^unchecked/);
  });

  it("that has what a platform needs passes, and a namespace of somebody else does not", async () => {
    if ("missing" in engines) throw new Error(engines.missing);
    const labels = [
      ...Array.from({ length: 4 }, () => kubernetes.platform.nodes.training),
      kubernetes.platform.nodes.sandboxes,
    ];
    for (const [index, label] of labels.entries()) {
      await post("/api/v1/nodes", { metadata: { name: `node-${index}`, labels: label } });
      const allocatable = { cpu: "190", memory: "2027520000Ki", "nvidia.com/gpu": "8" };
      const patch = { status: { allocatable, conditions: [{ type: "Ready", status: "True" }] } };
      expect((await api.request("PATCH", `/api/v1/nodes/node-${index}/status`, patch)).status).toBe(200);
      // The API marks new nodes as not ready; a kubelet would take the mark away.
      await api.request("PATCH", `/api/v1/nodes/node-${index}`, { spec: { taints: [] } });
    }
    await post("/apis/storage.k8s.io/v1/storageclasses", {
      metadata: { name: "standard" },
      provisioner: "disk.csi.test",
    });
    await post("/apis/node.k8s.io/v1/runtimeclasses", { metadata: { name: "gvisor" }, handler: "runsc" });
    await api.applyCrds((await readdir(engines.slinkyCrds)).map((name) => join(engines.slinkyCrds, name)));
    const pod = { metadata: { labels: { app: "cilium" } }, spec: { containers: [{ name: "agent", image: "x" }] } };
    await post("/apis/apps/v1/namespaces/kube-system/daemonsets", {
      ...{ metadata: { name: "cilium" }, spec: { selector: { matchLabels: { app: "cilium" } }, template: pod } },
    });
    const { installed } = kubernetes.platform;
    const ready = {
      ...target(),
      platform: { ...kubernetes.platform, installed: { ...installed, slurmOperator: true } },
    };
    const report = await look(ready);
    expect(of(report, "nodes").map((line) => line.replace(/ \(.*\)/, ""))).toEqual([
      "ok training nodes: 4 nodes, 4 as the target says",
      "warning nodes for model servers: 4 nodes with the training labels, of which Slurm's workers take 4",
      "ok sandboxes nodes: 1 node",
      "ok platform nodes: 5 nodes",
    ]);
    expect(of(report, "operator")[1]).toBe("ok slurm-operator: all served, not by a Helm release");
    expect(of(report, "storage-class")).toEqual(["ok storage class standard: disk.csi.test"]);
    expect(of(report, "runtime-class")).toEqual(["ok RuntimeClass gvisor: handler runsc"]);
    expect(of(report, "network-policy")).toEqual(["ok network policies: Cilium"]);

    await post("/api/v1/namespaces", { metadata: { name: "slurm" } });
    expect(of(await look(ready), "namespaces")).toEqual(["error namespaces: slurm made by something else"]);
  });

  it("whose user may do little says which rights are missing, and that secrets' values stay where they are", async () => {
    await post("/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "guest" } });
    const answer = await api.request("POST", "/api/v1/namespaces/default/serviceaccounts/guest/token", { spec: {} });
    const { token } = (answer.body as { status: { token: string } }).status;
    const config = parse(await readFile(api.kubeconfig, "utf8"));
    config.users[0].user = { token };
    await writeFile(join(folder, "guest"), stringify(config));
    vi.stubEnv("KUBECONFIG", join(folder, "guest"));
    const report = await look(target());
    const access = report.findings.find(({ check }) => check === "access");
    expect(access?.status).toBe("error");
    expect(access?.found).toContain("create/patch/delete apps/statefulsets");
    expect(report.findings.find(({ check }) => check === "nodes")).toMatchObject({
      ...{ status: "unchecked", found: "the context's user may not read /api/v1/nodes" },
      todo: "allow it by RBAC: get and list of nodes",
    });
  });

  it("reads of a Secret nothing but that it is there", async () => {
    await post("/api/v1/namespaces", {
      metadata: { name: "uplift", labels: { "app.kubernetes.io/part-of": "uplift" } },
    });
    await post("/api/v1/namespaces/uplift/secrets", {
      metadata: { name: "hub" },
      stringData: { token: "planted-4711" },
    });
    const source = { kind: "existing" as const, name: "hub", key: "token" };
    const jobSecrets = { HF_TOKEN: source, EXPERT_API_KEY: { ...source, name: "gone" } };
    const report = await look({ ...target(), platform: { ...kubernetes.platform, jobSecrets } });
    expect(of(report, "secret").slice(2)).toEqual([
      "ok platform.jobSecrets.HF_TOKEN: the Secret is there; its keys are not read",
      "error platform.jobSecrets.EXPERT_API_KEY: there is no such Secret",
    ]);
    expect(JSON.stringify(report)).not.toContain("planted-4711");
    expect(JSON.stringify(report)).not.toContain(Buffer.from("planted-4711").toString("base64"));
  });
});
