import { expect, it } from "vitest";
import { CHARTS } from "../../../schemas/pins.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { awsTarget, kubernetesTarget } from "./fixture.ts";
import { operatorCharts } from "./operator-charts.ts";

it("The operator comes after its kinds, and both after what gives its webhook a certificate", () => {
  expect(operatorCharts({ target: awsTarget() }).map(({ name, namespace }) => `${namespace}/${name}`)).toEqual([
    "cert-manager/cert-manager",
    "slinky/slurm-operator-crds",
    "slinky/slurm-operator",
  ]);
});

it("What the cluster has already is left alone", () => {
  const names = (installed: Record<string, boolean>) =>
    operatorCharts({ target: kubernetesTarget({ installed }) }).map(({ name }) => name);
  expect(names({ certManager: true })).toEqual(["slurm-operator-crds", "slurm-operator"]);
  expect(names({ slurmOperator: true })).toEqual(["cert-manager"]);
});

it("The operator runs on the platform's nodes, and two webhooks on two of them where there are two", () => {
  const values = (target: PlatformTarget) =>
    operatorCharts({ target }).find(({ name }) => name === "slurm-operator")?.values as Record<
      "operator" | "webhook",
      { affinity: object; replicas?: number; pdb?: object }
    >;
  const node = (key: string, value: string) => ({
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key, operator: "In", values: [value] }] }],
    },
  });
  const own = kubernetesTarget();
  const nodes = own.kind === "kubernetes" ? { ...own.platform.nodes, platform: { pool: "services" } } : undefined;
  expect(values(awsTarget()).operator.affinity).toEqual({ nodeAffinity: node("uplift.dev/pool", "platform") });
  expect(values(kubernetesTarget({ nodes })).operator.affinity).toEqual({ nodeAffinity: node("pool", "services") });
  expect(values(own).operator.affinity).toEqual({});
  const { replicas, pdb, affinity } = values(own).webhook;
  expect([replicas, pdb]).toEqual([2, { enabled: true, minAvailable: 1 }]);
  expect(Object.keys(affinity)).toEqual(["podAntiAffinity"]);
});

it("Charts come from the target's mirror in the pinned versions", () => {
  const target = kubernetesTarget({
    charts: { certManager: "oci://mirror.example.org/charts/", slurmOperator: "./charts" },
  });
  expect(operatorCharts({ target }).map(({ chart, version }) => [chart, version])).toEqual([
    ["oci://mirror.example.org/charts/cert-manager", CHARTS.certManager.version],
    ["./charts/slurm-operator-crds", "1.1.0"],
    ["./charts/slurm-operator", "1.1.0"],
  ]);
});

it("An operator's image by digest reaches the chart, which joins repository and tag with a colon", () => {
  const digest = "f".repeat(64);
  const pins = { slurmOperator: `registry.example.org/slurm-operator@sha256:${digest}` };
  const charts = operatorCharts({ target: kubernetesTarget({ pins }) });
  const values = charts.find(({ name }) => name === "slurm-operator")?.values as Record<string, { image: unknown }>;
  expect(values.operator?.image).toEqual({ repository: "registry.example.org/slurm-operator@sha256", tag: digest });
  expect(values.webhook?.image).toEqual({ repository: "ghcr.io/slinkyproject/slurm-operator-webhook", tag: "1.1.0" });
});
