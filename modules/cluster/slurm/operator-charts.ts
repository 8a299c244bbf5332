/**
 * Operator charts: what is installed before any object of Slurm: cert-manager, Slinky's kinds, Slinky's operator. Pure.
 * In this order, and removed in the opposite one: the operator's webhook gets its certificate from cert-manager. No value is
 * random, so a second preview shows no change.
 *
 * The whole cluster leans on the webhook (failurePolicy Fail): while none of its pods answers, no object of Slurm can be changed,
 * and no pod of any namespace but kube-system and the operator's own gets a node, for it sees every pods/binding. Hence two
 * of them, on two nodes where there are two, and a disruption budget. The operator itself may be away: what runs goes on.
 *
 * Without the Prometheus operator's kinds every look of 1.1.0 at the Controller ends in an error: its last step deletes a
 * ServiceMonitor that nobody asked for, and takes no "no such kind" for an answer. Service, slurm.conf and StatefulSet come
 * before that step, the status after it, so Slurm works (test/slurm-operator.test.ts); the log has a line a retry.
 */
import type { PodAntiAffinity } from "kubernetes-types/core/v1.js";
import { NAMESPACES } from "../../../schemas/manifest.ts";
import { CHARTS } from "../../../schemas/pins.ts";
import { placement } from "../../../schemas/placement.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { poolAffinity } from "../nodes/daemon-set.ts";
import { image } from "./containers.ts";

/** A Helm release as data. */
export interface ChartInstall {
  readonly name: string;
  readonly namespace: string;
  /** oci://…, or a folder. */
  readonly chart: string;
  readonly version: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Charts in the order in which they are installed; without those the cluster has already. */
export function operatorCharts({ target }: { readonly target: PlatformTarget }): ChartInstall[] {
  const installed = target.kind === "aws" ? { certManager: false, slurmOperator: false } : target.platform.installed;
  return [
    ...(installed.certManager ? [] : [certManager(target)]),
    ...(installed.slurmOperator ? [] : [slurmOperatorCrds(target), slurmOperator(target)]),
  ];
}

function certManager(target: PlatformTarget): ChartInstall {
  const { nodeSelector, tolerations } = placement(target, "platform");
  const pods = { nodeSelector, tolerations };
  return {
    name: "cert-manager",
    namespace: NAMESPACES.certManager,
    ...chart(target, "certManager", "cert-manager"),
    values: {
      // Ours to take away: a cluster that has cert-manager says so in its target.
      crds: { enabled: true, keep: false },
      // By default its locks lie in kube-system and stay there.
      global: { leaderElection: { namespace: NAMESPACES.certManager } },
      ...pods,
      webhook: pods,
      cainjector: pods,
      // Its job waits until certificates can be made: what comes after needs them.
      startupapicheck: pods,
    },
  };
}

function slurmOperatorCrds(target: PlatformTarget): ChartInstall {
  return {
    name: "slurm-operator-crds",
    namespace: NAMESPACES.slurmOperator,
    ...chart(target, "slurmOperatorCrds", "slurm-operator-crds"),
    values: {},
  };
}

function slurmOperator(target: PlatformTarget): ChartInstall {
  const name = "slurm-operator";
  const { tolerations } = placement(target, "platform");
  // The chart has no nodeSelector.
  const nodeAffinity = poolAffinity(target, ["platform"]);
  const nodes = nodeAffinity ? { nodeAffinity } : {};
  const pods = { tolerations, resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "512Mi" } } };
  return {
    name,
    namespace: NAMESPACES.slurmOperator,
    ...chart(target, "slurmOperator", name),
    values: {
      crds: { enabled: false },
      operator: { ...pods, affinity: nodes, image: imageValues(image(target, "slurmOperator")) },
      webhook: {
        ...pods,
        replicas: 2,
        pdb: { enabled: true, minAvailable: 1 },
        affinity: { ...nodes, podAntiAffinity: apart(`${name}-webhook`) },
        image: imageValues(image(target, "slurmOperatorWebhook")),
      },
      // Without it the chart makes a certificate anew at every rendering.
      certManager: { enabled: true },
    },
  };
}

/** Another node where there is one: required, the second pod of a cluster with one platform node would wait for ever. */
function apart(name: string): PodAntiAffinity {
  const podAffinityTerm = {
    labelSelector: { matchLabels: { "app.kubernetes.io/name": name } },
    topologyKey: "kubernetes.io/hostname",
  };
  return { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm }] };
}

/** The chart's own place, or the target's mirror or folder of charts. */
function chart(
  target: PlatformTarget,
  key: "certManager" | "slurmOperator" | "slurmOperatorCrds",
  name: string,
): Pick<ChartInstall, "chart" | "version"> {
  const { certManager, slurmOperator } = target.platform.charts;
  const mirror = key === "certManager" ? certManager : slurmOperator;
  const { chart: own, version } = CHARTS[key];
  return { chart: mirror === undefined ? own : inMirror(mirror, name), version };
}

/** A chart's place in a mirror or a folder of charts. */
export function inMirror(mirror: string, name: string): string {
  return `${mirror.replace(/\/$/, "")}/${name}`;
}

/** "name:tag" and "name@sha256:…" alike: the chart joins the two with a colon. */
function imageValues(image: string): { repository: string; tag: string } {
  const colon = image.lastIndexOf(":");
  return { repository: image.slice(0, colon), tag: image.slice(colon + 1) };
}
