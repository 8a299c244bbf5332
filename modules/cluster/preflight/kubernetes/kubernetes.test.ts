import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { poolsOf } from "../../pools.ts";
import type { Check } from "../check.ts";
import { findings, golden, kubernetes } from "../fixture.ts";
import { accessCheck } from "./access.ts";
import { kubernetesApi, type Transport } from "./api.ts";
import { contextCheck, TESTED_MINORS, versionCheck } from "./cluster.ts";
import { nodeChecks } from "./nodes.ts";
import { type Node, quantity } from "./objects.ts";
import { CERT_MANAGER, operatorCheck, SLURM_OPERATOR } from "./operators.ts";
import { storageChecks } from "./storage.ts";
import { ingressChecks, namespaceCheck, networkPolicyCheck, runtimeClassCheck } from "./surroundings.ts";

/** An API that has these objects by path, and lists by path without a query. */
function api(objects: Readonly<Record<string, unknown>>) {
  const transport: Transport = async (_method, path) => {
    const body = objects[path.split("?")[0] ?? ""];
    return body === undefined ? { status: 404, body: { message: "not found" } } : { status: 200, body };
  };
  return kubernetesApi(transport);
}
const items = (...all: unknown[]) => ({ items: all });
const first = async (check: Check | readonly Check[]) => (await findings(check))[0] ?? "";

const GPU_NODE: Node = {
  metadata: { name: "gpu-0", labels: { ...kubernetes.platform.nodes.training } },
  status: {
    allocatable: { cpu: "190", memory: "2027520000Ki", "nvidia.com/gpu": "8" },
    conditions: [{ type: "Ready", status: "True" }],
  },
};
const CPU_NODE: Node = {
  metadata: { name: "cpu-0", labels: { "uplift.dev/pool": "sandboxes" } },
  status: {
    allocatable: { cpu: "130400m", memory: "512Gi", pods: "250" },
    conditions: [{ type: "Ready", status: "True" }],
  },
};
const gpuNodes = (count: number, change: (node: Node, index: number) => Node = (node) => node) =>
  Array.from({ length: count }, (_, index) =>
    change({ ...GPU_NODE, metadata: { ...GPU_NODE.metadata, name: `gpu-${index}` } }, index),
  );
/** The plan wants four nodes. */
const pools = poolsOf(kubernetes, [golden("github-sft-rl.kubernetes")]);
const nodes = (all: Node[], target = kubernetes) =>
  findings(nodeChecks(api({ "/api/v1/nodes": items(...all) }), target, pools));
const installedPlugin = {
  ...kubernetes,
  platform: { ...kubernetes.platform, installed: { ...kubernetes.platform.installed, gpuDevicePlugin: true } },
};

describe("quantities of Kubernetes", () => {
  it("are numbers, whatever their unit", () => {
    expect(["191450m", "2Gi", "1e3", "2113461Ki", "0", "100M"].map(quantity)).toEqual([
      191.45, 2_147_483_648, 1000, 2_164_184_064, 0, 100_000_000,
    ]);
    expect(quantity("many")).toBeNaN();
  });
});

describe("nodes", () => {
  const label = "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3";

  it("with a pool's labels that are as the target says are fine", async () => {
    expect(await nodes([...gpuNodes(5), CPU_NODE], installedPlugin)).toEqual([
      `ok training nodes (${label}): 5 nodes, 5 as the target says`,
      "ok nodes for model servers: 5 nodes with the training labels, of which Slurm's workers take 4",
      "ok sandboxes nodes (uplift.dev/pool=sandboxes): 1 node",
      "ok room for sandboxes: 1 node holds 130 of 1000m CPU and 2048 MiB each, if nothing else runs there",
      "ok platform nodes (all): 6 nodes",
    ]);
  });

  it("that Slurm's workers take all of leave none for a model server, where serving has none of its own", async () => {
    const warned = (lines: string[]) => lines.filter((line) => line.startsWith("warning"));
    expect(warned(await nodes([...gpuNodes(4), CPU_NODE], installedPlugin))).toEqual([
      "warning nodes for model servers: 4 nodes with the training labels, of which Slurm's workers take 4 | one more than the workers, or nodes of their own (platform.nodes.serving) | add a training node, or give some nodes labels of their own and write them as platform.nodes.serving: else every model server waits without end",
    ]);
    const serving = { "uplift.dev/pool": "serving" };
    const own = {
      ...kubernetes,
      platform: { ...kubernetes.platform, nodes: { ...kubernetes.platform.nodes, serving } },
    };
    const lines = await findings(
      nodeChecks(
        api({ "/api/v1/nodes": items(...gpuNodes(4)) }),
        own,
        poolsOf(own, [golden("github-sft-rl.kubernetes")]),
      ),
    );
    expect(lines.join("\n")).not.toContain("nodes for model servers");
  });

  it("for sandboxes hold as many as fit by processors, memory and pods; fewer than the plans run at once wait", async () => {
    const room = async (allocatable: Record<string, string>) =>
      (await nodes([{ ...CPU_NODE, status: { ...CPU_NODE.status, allocatable } }])).find((line) =>
        line.includes("room for sandboxes"),
      );
    expect(await room({ cpu: "16", memory: "512Gi" })).toBe(
      "warning room for sandboxes: 1 node holds 15 of 1000m CPU and 2048 MiB each, if nothing else runs there | 128 at once | add sandbox nodes (or an autoscaler), or make sandboxes smaller (platform.sandboxes); until then 113 attempts wait",
    );
    expect(await room({ cpu: "256", memory: "41Gi" })).toContain("1 node holds 20 of");
    // As many pods as a kubelet takes by itself, less those of the cluster's own.
    expect(await room({ cpu: "256", memory: "1Ti" })).toContain("1 node holds 100 of");
    expect(await room({ cpu: "1", memory: "2Gi" })).toMatch(/^error room for sandboxes: 1 node holds 0 of/);
  });

  it("that are fewer than the plans want are an error, as are none for sandboxes", async () => {
    const lines = await nodes(gpuNodes(3), installedPlugin);
    expect(lines[0]).toBe(
      `error training nodes (${label}): 3 nodes, 3 as the target says | 4 with 8 GPUs, 190000m CPU and 1980000 MiB allocatable | add nodes, label them (kubectl label node NODE ${label}), or correct platform.nodes.training`,
    );
    expect(lines[1]).toMatch(/^error sandboxes nodes .*: 0 nodes \| at least one/);
  });

  it("with fewer GPUs, less memory or CPU than planned are named", async () => {
    const less = (node: Node, index: number): Node =>
      index === 0
        ? {
            ...node,
            status: { ...node.status, allocatable: { cpu: "189500m", memory: "1900Gi", "nvidia.com/gpu": "7" } },
          }
        : node;
    const lines = await nodes([...gpuNodes(5, less), CPU_NODE], installedPlugin);
    expect(lines.slice(0, 2).map((line) => line.split(" | ")[0])).toEqual([
      `ok training nodes (${label}): 5 nodes, 4 as the target says`,
      `warning training nodes (${label}): gpu-0: 7 GPUs, 189500m CPU, 1945600 MiB`,
    ]);
  });

  it("without a device plugin have GPUs that nobody knows yet, where the platform brings the plugin", async () => {
    const bare = (node: Node): Node => ({
      ...node,
      status: { ...node.status, allocatable: { cpu: "190", memory: "2027520000Ki" } },
    });
    expect((await nodes([...gpuNodes(4, bare), CPU_NODE])).slice(0, 2).map((line) => line.split(" | ")[0])).toEqual([
      `ok training nodes (${label}): 4 nodes, 4 as the target says`,
      `later training nodes (${label}): gpu-0, gpu-1, gpu-2, gpu-3 without a GPU device plugin`,
    ]);
    const [line] = await nodes([...gpuNodes(4, bare), CPU_NODE], installedPlugin);
    expect(line).toMatch(/^error .* 4 nodes, 0 as the target says/);
  });

  it("that are cordoned, not ready or tainted do not count", async () => {
    const out = (node: Node, index: number): Node => {
      if (index === 0) return { ...node, spec: { unschedulable: true } };
      if (index === 1)
        return { ...node, status: { ...node.status, conditions: [{ type: "Ready", status: "Unknown" }] } };
      const taints = [
        [{ key: "team", value: "other", effect: "NoSchedule" }],
        [{ key: "nvidia.com/gpu", effect: "NoSchedule" }],
        [{ key: "uplift.dev/pool", value: "training", effect: "NoSchedule" }],
      ][index - 2];
      return { ...node, spec: { taints } };
    };
    const lines = await nodes([...gpuNodes(5, out), CPU_NODE], installedPlugin);
    expect(lines.slice(0, 3).map((line) => line.split(" | ")[0])).toEqual([
      `error training nodes (${label}): 2 nodes, 2 as the target says`,
      `warning training nodes (${label}): gpu-0, gpu-1 not ready or cordoned`,
      `warning training nodes (${label}): gpu-2 tainted with team=other:NoSchedule`,
    ]);
  });
});

describe("the cluster", () => {
  it("has to be a context of the kubeconfig", async () => {
    const look = (name: string, names: string[], unreadable: string | null = null) =>
      first(contextCheck(name, { place: "~/.kube/config", names, unreadable }));
    expect(await look("a", ["a", "b"])).toBe("ok context a: there");
    expect(await look("c", ["a", "b"])).toMatch(/^error context c: only a, b/);
    expect(await look("c", [])).toMatch(/^error context c: it has no context at all \| .*~\/.kube\/config/);
    expect(await look("c", [], "bad YAML")).toMatch(/^error context c: it cannot be read: bad YAML/);
  });

  it("has to be of a version from 1.29 on; one that nobody has tried is a warning", async () => {
    const of = (minor: string) =>
      first(versionCheck(api({ "/version": { major: "1", minor, gitVersion: `v1.${minor}.0` } })));
    expect(await of("34")).toBe("ok Kubernetes API: v1.34.0");
    expect(await of("29+")).toMatch(/^ok/);
    expect(await of("28")).toMatch(/^error .* v1.28.0 \| 1.29 to 1.36/);
    expect(await of("37")).toMatch(/^warning/);
  });

  it("was tried up to the version whose API our tests start", () => {
    const goMod = readFileSync(new URL("../../../../tools/kubernetes-api/go.mod", import.meta.url), "utf8");
    expect(/^require k8s\.io\/kubernetes v1\.(\d+)\./m.exec(goMod)?.[1]).toBe(String(TESTED_MINORS.newest));
  });

  it("that refuses or does not answer leaves checks undone, with the right that is missing", async () => {
    const refusing = (status: number) => kubernetesApi(async () => ({ status, body: { message: "no" } }));
    const policies = (of: ReturnType<typeof kubernetesApi>) => first(networkPolicyCheck(of));
    expect(await policies(refusing(403))).toBe(
      "unchecked network policies: the context's user may not read /apis/apps/v1/daemonsets | an answer | allow it by RBAC: get and list of daemonsets",
    );
    expect(await policies(refusing(401))).toContain("does not take the credentials");
    const dead = kubernetesApi(() => Promise.reject(Object.assign(new Error("x"), { code: "ECONNREFUSED" })));
    expect(await policies(dead)).toContain("the Kubernetes API cannot be reached");
    const noLogin = kubernetesApi(() => Promise.reject(new Error("exec: aws: not found\nmore")));
    expect(await policies(noLogin)).toContain("no credentials for the cluster: exec: aws: not found");
  });

  it("lists page after page", async () => {
    const pages: Record<string, unknown> = {
      "/api/v1/nodes?limit=500": { items: [{ a: 1 }], metadata: { continue: "x/y" } },
      "/api/v1/nodes?limit=500&continue=x%2Fy": { items: [{ a: 2 }] },
    };
    const paged = kubernetesApi(async (_method, path) => ({ status: 200, body: pages[path] }));
    expect(await paged.list("/api/v1/nodes")).toEqual([{ a: 1 }, { a: 2 }]);
  });
});

describe("operators", () => {
  const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const crds = (names: readonly string[], version: string, annotations: Record<string, string> = {}) =>
    api(
      Object.fromEntries(
        names.map((name) => [
          `${CRDS}/${name}`,
          { metadata: { name, annotations }, spec: { versions: [{ name: version, served: true }] } },
        ]),
      ),
    );
  const release = (namespace: string) => ({
    "meta.helm.sh/release-name": "slurm-operator-crds",
    "meta.helm.sh/release-namespace": namespace,
  });

  it("that the target says are there have all kinds, at the version the platform writes", async () => {
    const all = crds(SLURM_OPERATOR.crds, "v1beta1", release("ops"));
    expect(await first(operatorCheck(all, SLURM_OPERATOR, true))).toBe(
      "ok slurm-operator: all served, by Helm release slurm-operator-crds in namespace ops",
    );
    const old = await first(operatorCheck(crds(SLURM_OPERATOR.crds, "v1alpha1"), SLURM_OPERATOR, true));
    expect(old).toMatch(/^error slurm-operator: controllers\.slinky\.slurm\.net, .* served as v1alpha1 \|/);
    expect(await first(operatorCheck(api({}), CERT_MANAGER, true))).toMatch(
      /^error cert-manager: no certificates\.cert-manager\.io, issuers\.cert-manager\.io \| .*installed\.certManager: false/,
    );
  });

  it("that the platform installs must not be somebody else's", async () => {
    expect(await first(operatorCheck(api({}), SLURM_OPERATOR, false))).toBe("ok slurm-operator: not there");
    const ours = crds(SLURM_OPERATOR.crds, "v1beta1", release("slinky"));
    expect(await first(operatorCheck(ours, SLURM_OPERATOR, false))).toMatch(/^ok .* in namespace slinky$/);
    const other = crds(SLURM_OPERATOR.crds, "v1beta1", release("ops"));
    expect(await first(operatorCheck(other, SLURM_OPERATOR, false))).toMatch(
      /^error .* in namespace ops \| .* \| set platform\.installed\.slurmOperator: true/,
    );
    expect(await first(operatorCheck(crds(CERT_MANAGER.crds, "v1"), CERT_MANAGER, false))).toMatch(
      /^warning cert-manager: its kinds are there, not by a Helm release/,
    );
  });
});

describe("storage", () => {
  const BLOCK = { "/apis/storage.k8s.io/v1/storageclasses/standard": { provisioner: "disk.csi.example" } };
  const { storage } = kubernetes.platform;
  const look = (shared: typeof storage.shared, objects: Record<string, unknown> = {}) =>
    findings(storageChecks(api({ ...BLOCK, ...objects }), { ...storage, shared }));
  const nfs = { kind: "nfs" as const, server: "10.0.0.7", path: "/export", mountOptions: [] };
  const csi = { kind: "csi" as const, driver: "weka.example", attributes: {}, mountOptions: [] };

  it("that is shared is known to work once the platform has written to it", async () => {
    expect((await look(nfs))[0]).toMatch(
      /^later shared storage 10\.0\.0\.7:\/export: .* the job shared-folders of the first `up` mounts it/,
    );
    const done = { "/apis/batch/v1/namespaces/uplift/jobs": items({ status: { succeeded: 1 } }) };
    expect(await look(nfs, done)).toEqual([
      "ok shared storage 10.0.0.7:/export: the platform has written to it",
      "ok storage class standard: disk.csi.example",
    ]);
  });

  it("of the shipped target, of a missing driver or of a missing Secret is an error", async () => {
    expect((await look(storage.shared))[0]).toMatch(/^error .*nfs\.example\.org.*: the server that the shipped target/);
    expect((await look(csi))[0]).toMatch(/^error shared storage of driver weka\.example: there is no such driver/);
    const driver = { "/apis/storage.k8s.io/v1/csidrivers/weka.example": {} };
    const withSecret = { ...csi, nodeSecret: { name: "keys", namespace: "weka" } };
    expect((await look(withSecret, driver))[0]).toMatch(/^error .*: no Secret weka\/keys/);
    expect((await look(withSecret, { ...driver, "/api/v1/namespaces/weka/secrets/keys": {} }))[0]).toMatch(/^later/);
  });

  it("of a class that is not there is an error", async () => {
    const [, block] = await findings(storageChecks(api({}), { ...storage, shared: nfs }));
    expect(block).toMatch(/^error storage class standard: there is no such class/);
  });
});

describe("access", () => {
  it("is asked for each kind and verb, and what is missing is listed by kind", async () => {
    const asked: string[] = [];
    const transport: Transport = async (_method, _path, body) => {
      const { group, resource, verb } = (body as { spec: { resourceAttributes: Record<string, string> } }).spec
        .resourceAttributes;
      asked.push(`${verb} ${group}/${resource}`);
      return { status: 201, body: { status: { allowed: resource !== "clusterroles" || verb === "patch" } } };
    };
    expect(await first(accessCheck(kubernetesApi(transport)))).toMatch(
      /^error rights of the context's user: not allowed: create\/delete rbac\.authorization\.k8s\.io\/clusterroles \|/,
    );
    expect(asked).toContain("delete /namespaces");
    expect(new Set(asked).size).toBe(asked.length);
  });
});

describe("surroundings", () => {
  it("need the sandboxes' runtime class, or its handler where the platform makes the class", async () => {
    const there = api({ "/apis/node.k8s.io/v1/runtimeclasses/gvisor": { handler: "runsc" } });
    expect(await first(runtimeClassCheck(there, "gvisor", true))).toBe("ok RuntimeClass gvisor: handler runsc");
    expect(await first(runtimeClassCheck(api({}), "gvisor", true))).toMatch(/^error/);
    expect(await first(runtimeClassCheck(api({}), "gvisor", false))).toMatch(
      /^later .*: not there yet: `up` makes the class, and not the handler in containerd/,
    );
  });

  it("need an engine of network policies: an error where there is surely none, unchecked where nobody knows", async () => {
    const daemons = (...names: string[]) =>
      first(
        networkPolicyCheck(
          api({ "/apis/apps/v1/daemonsets": items(...names.map((name) => ({ metadata: { name } }))) }),
        ),
      );
    expect(await daemons("kube-proxy", "cilium")).toBe("ok network policies: Cilium");
    expect(await daemons("kube-flannel-ds")).toMatch(/^error .*kube-flannel-ds, which enforces none/);
    expect(await daemons("kube-proxy")).toMatch(/^unchecked/);
    const vpcCni = (flag: string) => ({
      metadata: { name: "aws-node" },
      spec: { template: { spec: { containers: [{ name: "aws-eks-nodeagent", args: [flag] }] } } },
    });
    const eks = (flag: string) => first(networkPolicyCheck(api({ "/apis/apps/v1/daemonsets": items(vpcCni(flag)) })));
    expect(await eks("--enable-network-policy=true")).toBe("ok network policies: the VPC CNI's agent");
    expect(await eks("--enable-network-policy=false")).toMatch(/^error .*turn network policies on in the VPC CNI/);
  });

  it("have no namespace of ours that something else made, those of installed operators left out", async () => {
    const left = { slurmOperator: true, certManager: false };
    const namespace = (name: string, labels = {}) => ({
      [`/api/v1/namespaces/${name}`]: { metadata: { name, labels } },
    });
    expect(await first(namespaceCheck(api(namespace("slinky")), left))).toBe("ok namespaces: free");
    const ours = namespace("uplift", { "app.kubernetes.io/part-of": "uplift" });
    expect(await first(namespaceCheck(api(ours), left))).toBe("ok namespaces: Uplift's own");
    expect(await first(namespaceCheck(api({ ...ours, ...namespace("slurm") }), left))).toMatch(
      /^error namespaces: slurm made by something else \| uplift, uplift-sandboxes, uplift-serving, slurm, /,
    );
  });

  it("of a public name are its ingress class and its certificate", async () => {
    const web = {
      ...{ host: "uplift.example.org", ingressClass: "nginx", login: { kind: "token" as const } },
      tls: { kind: "secret" as const, name: "web-tls" },
    };
    const lines = await findings(ingressChecks(api({ "/apis/networking.k8s.io/v1/ingressclasses/nginx": {} }), web));
    expect(lines.map((line) => line.split(" | ")[0])).toEqual([
      "ok ingress class nginx: there",
      "error Secret uplift/web-tls: not there",
    ]);
  });
});
