/**
 * Slurm's and the nodes' objects of every shipped target of nodes, against the schemas of Kubernetes and of Slinky's CRDs. The CRDs
 * take anything where they take a container or a pod, so those are checked as the pods that the operator makes of them.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Container, PodSpec } from "kubernetes-types/core/v1.js";
import { beforeAll, describe, expect, it } from "vitest";
import type { z } from "zod";
import { platformTarget, poolsOf } from "../modules/cluster/index.ts";
import { nodeDaemonManifests } from "../modules/cluster/nodes/index.ts";
import { slurmManifests } from "../modules/cluster/slurm/index.ts";
import type { Manifest } from "../schemas/manifest.ts";
import { KubernetesPlatform } from "../schemas/platform.ts";
import { ClusterTarget } from "../schemas/target.ts";
import awsP5 from "../stacks/targets/aws-p5.ts";
import awsP5en from "../stacks/targets/aws-p5en.ts";
import awsP6 from "../stacks/targets/aws-p6-b200.ts";
import kubernetes from "../stacks/targets/kubernetes.ts";
import { KubernetesSchemas } from "./support/kubernetes-schemas.ts";

const ROOT = join(import.meta.dirname, "..");

/** Fields of a Slinky object that hold a container. */
const CONTAINERS = ["slurmctld", "reconfigure", "logfile", "slurmd", "slurmdbd", "slurmrestd", "login", "initconf"];

function objects(input: unknown, platform: Partial<z.input<typeof KubernetesPlatform>> = {}): Manifest[] {
  const plain = platformTarget(ClusterTarget.parse(input));
  const target =
    plain.kind === "aws" ? plain : { ...plain, platform: KubernetesPlatform.parse({ ...plain.platform, ...platform }) };
  const manifests = slurmManifests({ target, pools: poolsOf(target, []), sharedClaim: "shared" });
  return [...manifests, ...nodeDaemonManifests({ target })];
}

/** The pod of a Slinky object, as far as it is ours; a Token has none. */
function pod(manifest: Manifest): Manifest | null {
  if (!manifest.apiVersion.startsWith("slinky.slurm.net/") || manifest.kind === "Token") return null;
  const { spec } = manifest as unknown as {
    spec: Record<string, unknown> & { template?: { spec?: Partial<PodSpec> } };
  };
  const containers = CONTAINERS.flatMap((field) =>
    spec[field] === undefined ? [] : [{ name: field, ...(spec[field] as Partial<Container>) }],
  );
  const { name } = manifest.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { ...spec.template?.spec, containers },
  } as Manifest;
}

let schemas: KubernetesSchemas;
beforeAll(async () => {
  schemas = await KubernetesSchemas.load();
});

const everything: Partial<z.input<typeof KubernetesPlatform>> = {
  users: [{ name: "alice", uid: 2001, publicKeys: ["ssh-ed25519 AAAA alice@laptop"] }],
  jobSecrets: { WANDB_API_KEY: { kind: "environment", variable: "WANDB_API_KEY" } },
  prometheus: true,
  installed: { gpuDevicePlugin: false, dcgm: false, runtimeClass: false },
};
const targets: [string, Manifest[]][] = [
  ["kubernetes", objects(kubernetes)],
  ["kubernetes with everything", objects(kubernetes, everything)],
  ["aws-p5", objects(awsP5)],
  ["aws-p5en", objects(awsP5en)],
  ["aws-p6-b200", objects(awsP6)],
];

describe.each(targets)("the objects of %s", (_, manifests) => {
  it("are what their kinds take, with no unknown field", () => {
    expect(manifests.flatMap((manifest) => schemas.mistakes(manifest))).toEqual([]);
  });

  it("have containers and pods that Kubernetes takes, with no unknown field", () => {
    const pods = manifests.map(pod).filter((found) => found !== null);
    expect(pods.map(({ metadata }) => metadata.name).sort()).toEqual([
      ...["slurm", "slurm", "slurm", "slurm-login", "training"],
    ]);
    expect(pods.flatMap((manifest) => schemas.mistakes(manifest))).toEqual([]);
  });

  it("mount only volumes that they have", () => {
    const own = ["slurm-logfile", "slurm-etc"];
    for (const found of manifests.map(pod).filter((each) => each !== null)) {
      const { spec } = found as unknown as { spec: PodSpec };
      const volumes = [...own, ...(spec.volumes ?? []).map(({ name }) => name)];
      for (const { name, volumeMounts } of [...spec.containers, ...(spec.initContainers ?? [])])
        for (const mount of volumeMounts ?? []) expect(volumes, `${found.metadata.name}/${name}`).toContain(mount.name);
    }
  });
});

it("A misspelt field of a Slinky object, of its container or of its pod is found", () => {
  const nodeSet = structuredClone(objects(awsP5en).find(({ kind }) => kind === "NodeSet")) as unknown as {
    spec: { gres?: string; slurmd: { resource?: unknown }; template: { spec: { nodeSelectors?: unknown } } };
  };
  nodeSet.spec.gres = "gpu:h200:8";
  nodeSet.spec.slurmd.resource = {};
  nodeSet.spec.template.spec.nodeSelectors = {};
  const manifest = nodeSet as unknown as Manifest;
  expect(schemas.mistakes(manifest)).toEqual([
    'NodeSet slurm/training: /spec must NOT have additional properties "gres"',
  ]);
  expect(schemas.mistakes(pod(manifest) as Manifest)).toEqual([
    'Pod training: /spec must NOT have additional properties "nodeSelectors"',
    'Pod training: /spec/containers/1 must NOT have additional properties "resource"',
  ]);
});

it("The committed types are those of the pinned operator's CRDs", async () => {
  const tsx = join(ROOT, "node_modules/.bin/tsx");
  await promisify(execFile)(tsx, ["tools/slinky-types.ts", "--check"], { cwd: ROOT });
});
