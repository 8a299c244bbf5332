/**
 * Node pools: the pools of a target → one EKS node group each, with everything its launch template and scaling say. Pure.
 *
 * training   fixed: as many nodes as the plans want. Slurm decides what runs; EKS replaces no node by itself, because a drain must
 *            go through Slurm first (the conditions of the node-monitoring agent are what Slurm's operator reads).
 * serving    from none to maxNodes, by the cluster autoscaler: a model server that finds no node gets one, and ten minutes after the
 *            last is gone the node goes too. In a capacity block: fixed.
 * sandboxes  from minNodes to maxNodes, by the cluster autoscaler.
 * platform   fixed.
 */
import type { GpuPool, Pools } from "../../../schemas/pool.ts";
import { POOL_LABEL } from "../../../schemas/pool.ts";
import { type Capacity, capacityOf } from "./capacity.ts";
import { maxPodsOf, type NetworkInterface, networkInterfaces } from "./interfaces.ts";
import { awsName } from "./names.ts";
import type { AwsTarget } from "./target.ts";
import { EFA_HUGE_PAGES, type NodeSettings } from "./user-data.ts";

export interface NodePool extends NodeSettings {
  readonly kind: "training" | "serving" | "sandboxes" | "platform";
  readonly instanceType: string;
  readonly imageId: string;
  /** Zones its nodes lie in. */
  readonly zones: readonly string[];
  readonly scaling: { readonly minSize: number; readonly desiredSize: number; readonly maxSize: number };
  /** The cluster autoscaler changes the desired size. */
  readonly autoscaled: boolean;
  readonly capacityType: Capacity["capacityType"];
  readonly template: Capacity["template"];
  readonly placementGroup: boolean;
  readonly start: { readonly at: string; readonly nodes: number } | null;
  /** Empty: one interface, as the type has it. */
  readonly interfaces: readonly NetworkInterface[];
  /** EKS replaces nodes that its agent finds ill. */
  readonly repaired: boolean;
  /** Its pods reach the file system and the databases: all but sandboxes. */
  readonly trusted: boolean;
  readonly rootGib: number;
}

/** Tag of groups that the cluster autoscaler may resize; its value is the cluster's name. */
export const AUTOSCALER_TAG = "uplift.dev/autoscaler";
/** The autoscaler takes a node with this label for ready only when its GPUs are there; else it would start another. */
const ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator";

/** All node pools, at a moment. */
export function nodePools(pools: Pools, target: AwsTarget, now: Date): NodePool[] {
  return [
    trainingPool(pools.training, target, now),
    ...(pools.serving ? [servingPool(pools.serving, target, now)] : []),
    sandboxPool(pools.sandboxes, target),
    platformPool(pools.platform, target),
  ];
}

function trainingPool(pool: GpuPool, target: AwsTarget, now: Date): NodePool {
  const interfaces = networkInterfaces(pool.instance);
  return {
    ...gpuPool(pool, target, now),
    interfaces,
    maxPods: maxPodsOf(interfaces),
    hugePages: interfaces.length > 0 ? EFA_HUGE_PAGES : 0,
    autoscaled: false,
    repaired: false,
  };
}

/** Without EFA: a model is served on one node, and nodes that need no neighbour are found more easily. */
function servingPool(pool: GpuPool, target: AwsTarget, now: Date): NodePool {
  const base = gpuPool(pool, target, now);
  const autoscaled = base.capacityType === "ON_DEMAND";
  return {
    ...base,
    // None at first: a group that asks for GPUs which AWS doesn't have right then fails, and takes `up` with it.
    scaling: autoscaled ? { minSize: 0, desiredSize: 0, maxSize: pool.maxNodes } : base.scaling,
    ...{ interfaces: [], placementGroup: false, hugePages: 0, autoscaled, repaired: true },
  };
}

function gpuPool(pool: GpuPool, target: AwsTarget, now: Date) {
  const { nodes, startsAt, ...capacity } = capacityOf(pool, now);
  const { labels, ...rest } = common(pool.kind, target);
  return {
    ...rest,
    ...capacity,
    kind: pool.kind,
    instanceType: pool.instance.name,
    imageId: target.platform.amis.gpu,
    // One zone: EFA doesn't cross zones, a reservation is of one, and the file system is there.
    zones: target.zones.slice(0, 1),
    // At least one, as EKS asks of the largest size, also for a target no plan was handed for.
    scaling: { minSize: 0, desiredSize: nodes, maxSize: Math.max(1, pool.maxNodes) },
    start: startsAt === null ? null : { at: startsAt, nodes: pool.nodes },
    labels: { ...labels, [ACCELERATOR_LABEL]: pool.instance.gpu },
    taints: [poolTaint(pool.kind)],
    localDisks: pool.instance.nvmeGb > 0,
    ...{ trusted: true, rootGib: 200 },
  };
}

function sandboxPool({ minNodes, maxNodes }: Pools["sandboxes"], target: AwsTarget): NodePool {
  return {
    ...cpuPool("sandboxes", target, target.platform.sandboxInstance),
    zones: target.zones,
    scaling: { minSize: minNodes, desiredSize: minNodes, maxSize: maxNodes },
    taints: [poolTaint("sandboxes")],
    ...{ autoscaled: true, trusted: false, rootGib: 300 },
  };
}

/** In one zone: its pods have EBS volumes, which are of one zone, and the file system is there. */
function platformPool({ minNodes, maxNodes }: Pools["platform"], target: AwsTarget): NodePool {
  return {
    ...cpuPool("platform", target, target.platform.platformInstance),
    zones: target.zones.slice(0, 1),
    scaling: { minSize: minNodes, desiredSize: minNodes, maxSize: maxNodes },
    taints: [],
    ...{ autoscaled: false, trusted: true, rootGib: 100 },
  };
}

function cpuPool(kind: "sandboxes" | "platform", target: AwsTarget, instanceType: string) {
  return {
    ...common(kind, target),
    ...{ kind, instanceType, imageId: target.platform.amis.cpu },
    ...{ capacityType: "ON_DEMAND" as const, template: {}, placementGroup: false, start: null, interfaces: [] },
    ...{ localDisks: false, hugePages: 0, repaired: true },
  };
}

function common(kind: NodePool["kind"], target: AwsTarget) {
  return { nodeGroupName: awsName(target, kind), labels: { [POOL_LABEL]: kind } };
}

const poolTaint = (kind: NodePool["kind"]) => ({ key: POOL_LABEL, value: kind, effect: "NO_SCHEDULE" as const });

/** Tags of an autoscaled group: that it is one, and what a node of it would be, which the autoscaler asks when there is none. */
export function autoscalerTags({ labels, taints }: NodePool, clusterName: string): Record<string, string> {
  const template = "k8s.io/cluster-autoscaler/node-template";
  return {
    [AUTOSCALER_TAG]: clusterName,
    ...Object.fromEntries(Object.entries(labels).map(([key, value]) => [`${template}/label/${key}`, value])),
    ...Object.fromEntries(taints.map(({ key, value }) => [`${template}/taint/${key}`, `${value}:NoSchedule`])),
  };
}
