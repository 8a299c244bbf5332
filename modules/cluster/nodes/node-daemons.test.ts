import type { DaemonSet } from "kubernetes-types/apps/v1.js";
import type { RuntimeClass } from "kubernetes-types/node/v1.js";
import type { ClusterRole } from "kubernetes-types/rbac/v1.js";
import { describe, expect, it } from "vitest";
import type { Manifest } from "../../../schemas/manifest.ts";
import type { KubernetesPlatform } from "../../../schemas/platform.ts";
import { awsTarget, kubernetesTarget, slurmArgs } from "../slurm/fixture.ts";
import { slurmManifests } from "../slurm/index.ts";
import type { NodeSet } from "../slurm/slinky-types.ts";
import { nodeDaemonManifests } from "./index.ts";

const kinds = (manifests: readonly Manifest[]) => manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);

function daemon(manifests: readonly Manifest[], name: string) {
  const found = manifests.find(({ kind, metadata }) => kind === "DaemonSet" && metadata.name === name);
  return (found as unknown as DaemonSet).spec?.template.spec;
}

function onKubernetes(installed: Partial<KubernetesPlatform["installed"]>, changes: Partial<KubernetesPlatform> = {}) {
  const nothing = {
    certManager: false,
    slurmOperator: false,
    gpuDevicePlugin: false,
    dcgm: false,
    runtimeClass: false,
  };
  return nodeDaemonManifests({ target: kubernetesTarget({ installed: { ...nothing, ...installed }, ...changes }) });
}

describe("AWS nodes get", () => {
  const manifests = nodeDaemonManifests({ target: awsTarget() });

  it("plugins, metrics, gVisor and the drain", () => {
    expect(kinds(manifests)).toEqual([
      "DaemonSet gpu-device-plugin",
      "DaemonSet efa-device-plugin",
      "DaemonSet dcgm-exporter",
      "Service dcgm-exporter",
      "NetworkPolicy dcgm-exporter",
      "ConfigMap gvisor-installer",
      "DaemonSet gvisor-installer",
      "RuntimeClass gvisor",
      "ServiceAccount node-drain",
      "ClusterRole uplift-node-drain",
      "ClusterRoleBinding uplift-node-drain",
      "Deployment node-drain",
    ]);
  });

  it("no EFA plugin where the instance has no EFA", () => {
    const instance = { ...slurmArgs(awsTarget()).pools.training.instance, efaInterfaces: 0 };
    expect(kinds(nodeDaemonManifests({ target: awsTarget({ instance }) }))).not.toContain(
      "DaemonSet efa-device-plugin",
    );
  });

  it("metrics of the one DCGM that the node-monitoring agent runs", () => {
    const exporter = daemon(manifests, "dcgm-exporter")?.containers[0];
    expect(exporter?.env).toContainEqual({ name: "DCGM_REMOTE_HOSTENGINE_INFO", value: "$(NODE_ADDRESS):5555" });
    expect(exporter?.securityContext?.capabilities).toEqual({ drop: ["ALL"] });
  });

  it("daemons on the nodes of their pools, whatever those are tainted with", () => {
    const terms = (name: string) =>
      daemon(manifests, name)?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
        ?.nodeSelectorTerms;
    const pool = (value: string) => ({
      matchExpressions: [{ key: "uplift.dev/pool", operator: "In", values: [value] }],
    });
    expect(terms("gpu-device-plugin")).toEqual([pool("training"), pool("serving")]);
    expect(terms("efa-device-plugin")).toEqual([pool("training")]);
    expect(terms("gvisor-installer")).toEqual([pool("sandboxes")]);
    expect(daemon(manifests, "gpu-device-plugin")?.tolerations).toEqual([
      { key: "uplift.dev/pool", operator: "Equal", value: "training", effect: "NoSchedule" },
      { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" },
      { key: "uplift.dev/pool", operator: "Equal", value: "serving", effect: "NoSchedule" },
    ]);
  });

  it("a drain that may list and change nodes and nothing else", () => {
    const role = manifests.find(({ kind }) => kind === "ClusterRole") as unknown as ClusterRole;
    expect(role.rules).toEqual([{ apiGroups: [""], resources: ["nodes"], verbs: ["list", "patch"] }]);
  });

  it("no Kata, which needs bare metal", () => {
    const target = awsTarget();
    const sandboxes = { ...target.platform.sandboxes, runtimeClass: "kata" as const };
    const kata = { ...target, platform: { ...target.platform, sandboxes } };
    expect(() => nodeDaemonManifests({ target: kata })).toThrow(
      expect.objectContaining({ code: "runtime-class-unavailable" }),
    );
  });
});

describe("Nodes of one's own get", () => {
  it("what they do not have yet", () => {
    expect(kinds(onKubernetes({}))).toEqual([
      "DaemonSet gpu-device-plugin",
      "DaemonSet dcgm-exporter",
      "Service dcgm-exporter",
      "NetworkPolicy dcgm-exporter",
      "RuntimeClass gvisor",
    ]);
    expect(onKubernetes({ gpuDevicePlugin: true, dcgm: true, runtimeClass: true })).toEqual([]);
  });

  it("their own DCGM with the exporter, which may read counters of profiling", () => {
    const exporter = daemon(onKubernetes({}), "dcgm-exporter")?.containers[0];
    expect(exporter?.env?.map(({ name }) => name)).not.toContain("DCGM_REMOTE_HOSTENGINE_INFO");
    expect(exporter?.securityContext?.capabilities).toEqual({ drop: ["ALL"], add: ["SYS_ADMIN"] });
  });

  it("daemons everywhere where a pool has no labels", () => {
    const { nodes } = (kubernetesTarget() as { platform: KubernetesPlatform }).platform;
    const manifests = onKubernetes({}, { nodes: { ...nodes, training: {} } });
    expect(daemon(manifests, "gpu-device-plugin")?.affinity).toBeUndefined();
  });

  it("the RuntimeClass of the target with the handler that containerd knows", () => {
    const sandboxes = { ...kubernetesTarget().platform.sandboxes, runtimeClass: "kata" as const };
    const [kata] = onKubernetes({ gpuDevicePlugin: true, dcgm: true }, { sandboxes }) as unknown as RuntimeClass[];
    expect(kata?.handler).toBe("kata");
    expect(kata?.scheduling?.nodeSelector).toEqual({ "uplift.dev/pool": "sandboxes" });
  });
});

it.each([
  ["AWS", awsTarget()],
  ["a cluster of one's own", kubernetesTarget()],
])("On %s jobs are written down where the exporter looks for them, and not where nobody does", (_, target) => {
  const hostPaths = (pod: { volumes?: { hostPath?: { path: string } }[] } | undefined) =>
    (pod?.volumes ?? []).flatMap(({ hostPath }) => (hostPath ? [hostPath.path] : []));
  const worker = (manifests: readonly Manifest[]) =>
    (manifests.find(({ kind }) => kind === "NodeSet") as unknown as NodeSet).spec.template?.spec;
  const exporter = daemon(nodeDaemonManifests({ target }), "dcgm-exporter");
  const [mapping] = hostPaths(worker(slurmManifests(slurmArgs(target))));
  expect(mapping).toBe("/var/lib/dcgm-exporter/job-mapping");
  expect(hostPaths(exporter)).toContain(mapping);
  const without = kubernetesTarget({
    installed: { certManager: false, slurmOperator: false, gpuDevicePlugin: false, dcgm: true, runtimeClass: true },
  });
  expect(hostPaths(worker(slurmManifests(slurmArgs(without))))).toEqual([]);
});
