/**
 * Instance: one kind of node with GPUs, and what planning must know of it. Sizes of AWS types as EC2 and Karpenter's
 * generated tables give them (July 2026); a cluster of one's own writes its row in its target.
 */
import { z } from "zod";

const Count = z.number().int().positive();

export const Instance = z.strictObject({
  /** e.g. "p5en.48xlarge", or any name for nodes of one's own. */
  name: z.string(),
  /** As Slurm's gres names it: h100, h200, b200 … */
  gpu: z.enum(["a100", "h100", "h200", "b200", "b300", "l40s", "rtx-pro-6000", "rtx-5090"]),
  gpus: Count,
  /** Memory of one GPU as the driver reports it, MiB. */
  gpuMemoryMib: Count,
  vcpus: Count,
  memoryMib: Count,
  /** What Kubernetes lets pods ask for, MiB; less than the memory. */
  allocatableMemoryMib: Count,
  allocatableMilliCpus: Count,
  nvmeGb: z.number().int().nonnegative(),
  /** Network cards, and EFA interfaces: not the same number (p6-b300 has 17 and 16). */
  networkCards: Count,
  efaInterfaces: z.number().int().nonnegative(),
  /** Of all cards together, Gbit/s. */
  networkGbps: Count,
  capacityBlocks: z.boolean(),
});
export type Instance = z.infer<typeof Instance>;

const eight = { gpus: 8, vcpus: 192, nvmeGb: 30_400, allocatableMilliCpus: 191_450, networkGbps: 3200 } as const;
/** Where no allocatable size is published: the share Kubernetes leaves of the neighbours in this table. */
const allocatable = (memoryMib: number) => Math.floor(memoryMib * 0.92);
const TIB2 = 2048 * 1024;

/** Instance types targets can name. */
export const INSTANCES = {
  "p4d.24xlarge": {
    ...{ name: "p4d.24xlarge", gpu: "a100", gpus: 8, gpuMemoryMib: 40_960, vcpus: 96, memoryMib: 1152 * 1024 },
    ...{ allocatableMemoryMib: 1_082_712, allocatableMilliCpus: 95_690, nvmeGb: 8000, networkCards: 4 },
    ...{ efaInterfaces: 4, networkGbps: 400, capacityBlocks: true },
  },
  "p4de.24xlarge": {
    ...{ name: "p4de.24xlarge", gpu: "a100", gpus: 8, gpuMemoryMib: 81_920, vcpus: 96, memoryMib: 1152 * 1024 },
    ...{ allocatableMemoryMib: 1_082_712, allocatableMilliCpus: 95_690, nvmeGb: 8000, networkCards: 4 },
    ...{ efaInterfaces: 4, networkGbps: 400, capacityBlocks: true },
  },
  "p5.48xlarge": {
    ...{ ...eight, name: "p5.48xlarge", gpu: "h100", gpuMemoryMib: 81_920, memoryMib: TIB2 },
    ...{ allocatableMemoryMib: 1_938_410, networkCards: 32, efaInterfaces: 32, capacityBlocks: true },
  },
  "p5e.48xlarge": {
    ...{ ...eight, name: "p5e.48xlarge", gpu: "h200", gpuMemoryMib: 144_384, memoryMib: TIB2 },
    ...{ allocatableMemoryMib: 1_937_332, networkCards: 32, efaInterfaces: 32, capacityBlocks: true },
  },
  "p5en.48xlarge": {
    ...{ ...eight, name: "p5en.48xlarge", gpu: "h200", gpuMemoryMib: 144_384, memoryMib: TIB2 },
    ...{ allocatableMemoryMib: 1_937_332, networkCards: 16, efaInterfaces: 16, capacityBlocks: true },
  },
  "p6-b200.48xlarge": {
    ...{ ...eight, name: "p6-b200.48xlarge", gpu: "b200", gpuMemoryMib: 183_359, memoryMib: TIB2 },
    ...{ allocatableMemoryMib: 1_937_332, networkCards: 8, efaInterfaces: 8, capacityBlocks: true },
  },
  "p6-b300.48xlarge": {
    ...{ ...eight, name: "p6-b300.48xlarge", gpu: "b300", gpuMemoryMib: 275_040, memoryMib: 4096 * 1024 },
    ...{
      allocatableMemoryMib: 3_877_198,
      networkCards: 17,
      efaInterfaces: 16,
      networkGbps: 6400,
      capacityBlocks: true,
    },
  },
  "g6e.12xlarge": {
    ...{ name: "g6e.12xlarge", gpu: "l40s", gpus: 4, gpuMemoryMib: 45_776, vcpus: 48, memoryMib: 384 * 1024 },
    ...{ allocatableMemoryMib: allocatable(384 * 1024), allocatableMilliCpus: 47_690, nvmeGb: 3800, networkCards: 1 },
    ...{ efaInterfaces: 1, networkGbps: 100, capacityBlocks: false },
  },
  "g6e.48xlarge": {
    ...{ name: "g6e.48xlarge", gpu: "l40s", gpus: 8, gpuMemoryMib: 45_776, vcpus: 192, memoryMib: 1536 * 1024 },
    ...{ allocatableMemoryMib: 1_449_132, allocatableMilliCpus: 191_450, nvmeGb: 7600, networkCards: 4 },
    ...{ efaInterfaces: 4, networkGbps: 400, capacityBlocks: false },
  },
  "g7e.48xlarge": {
    ...{ ...eight, name: "g7e.48xlarge", gpu: "rtx-pro-6000", gpuMemoryMib: 98_304, memoryMib: TIB2, nvmeGb: 15_200 },
    ...{ allocatableMemoryMib: allocatable(TIB2), networkCards: 4, efaInterfaces: 4, networkGbps: 1600 },
    capacityBlocks: false,
  },
} as const satisfies Record<string, Instance>;
export type InstanceName = keyof typeof INSTANCES;

/** The row that a target names, or the one that is written out. */
export function instanceRow(instance: InstanceName | Instance): Instance {
  return typeof instance === "string" ? INSTANCES[instance] : instance;
}

/** A kind of node without GPUs, as the sandboxes' and the platform's own are. */
export interface CpuInstance {
  readonly name: string;
  readonly vcpus: number;
  readonly memoryMib: number;
  /** What Kubernetes lets pods ask for. */
  readonly allocatableMilliCpus: number;
  readonly allocatableMemoryMib: number;
  readonly maxPods: number;
  /** List price of us-east-1, Linux, on demand, on CPU_PRICES_DATE. */
  readonly dollarsPerHour: number;
}

/** Day of the CPU types' prices, which are those of Karpenter's generated table. */
export const CPU_PRICES_DATE = "2026-01-19";

/** A family's sizes have the same memory and price a vCPU. */
const CPU_FAMILIES = {
  m7i: { gibPerVcpu: 4, dollarsPerVcpu: 0.0504 },
  m7a: { gibPerVcpu: 4, dollarsPerVcpu: 0.05796 },
  c7i: { gibPerVcpu: 2, dollarsPerVcpu: 0.044625 },
  r7i: { gibPerVcpu: 8, dollarsPerVcpu: 0.06615 },
} as const;
/** Pods by the addresses of their network interfaces, as the VPC CNI counts. */
const CPU_SIZES = {
  xlarge: { vcpus: 4, maxPods: 58 },
  "2xlarge": { vcpus: 8, maxPods: 58 },
  "4xlarge": { vcpus: 16, maxPods: 234 },
  "8xlarge": { vcpus: 32, maxPods: 234 },
  "12xlarge": { vcpus: 48, maxPods: 234 },
  "16xlarge": { vcpus: 64, maxPods: 737 },
} as const;

/** CPU instance types whose size and price are known; a target may name others. */
export const CPU_INSTANCES: Readonly<Record<string, CpuInstance>> = Object.fromEntries(
  Object.entries(CPU_FAMILIES).flatMap(([family, { gibPerVcpu, dollarsPerVcpu }]) =>
    Object.entries(CPU_SIZES).map(([size, { vcpus, maxPods }]): [string, CpuInstance] => {
      const name = `${family}.${size}`;
      const memoryMib = vcpus * gibPerVcpu * 1024;
      // Amazon Linux 2023 keeps 80 milliCPUs of the first four and 2.5 of each other, 255 MiB and 11 a pod; below 100 MiB
      // it evicts. The machine itself takes up to 7.5 % of the memory (Karpenter's assumption, and its documented sizes).
      const allocatableMilliCpus = vcpus * 1000 - 80 - (vcpus - 4) * 2.5;
      const allocatableMemoryMib = Math.floor(memoryMib * 0.925 - 255 - 11 * maxPods - 100);
      const dollarsPerHour = Math.round(vcpus * dollarsPerVcpu * 1e6) / 1e6;
      return [name, { name, vcpus, memoryMib, allocatableMilliCpus, allocatableMemoryMib, maxPods, dollarsPerHour }];
    }),
  ),
);

/** What EKS's own daemons and ours ask for on each CPU node: network, disks, identity, health, the sandboxes' runtime. */
const DAEMONS = { milliCpus: 400, memoryMib: 1024, pods: 10 } as const;

/** Pods of a size that one node holds. */
export function podsPerNode(
  node: Pick<CpuInstance, "allocatableMilliCpus" | "allocatableMemoryMib" | "maxPods">,
  pod: { readonly milliCpus: number; readonly memoryMib: number },
): number {
  const byCpu = (node.allocatableMilliCpus - DAEMONS.milliCpus) / pod.milliCpus;
  const byMemory = (node.allocatableMemoryMib - DAEMONS.memoryMib) / pod.memoryMib;
  return Math.max(0, Math.floor(Math.min(byCpu, byMemory, node.maxPods - DAEMONS.pods)));
}

/** For the other pods of a node: network, device plugins, GPU metrics, storage drivers, log sidecar. */
const OTHERS_MIB = 8192;
/** libfabric takes its buffers from huge pages of 2 MiB; AWS's EFA image sets 5128 of them aside. */
const HUGEPAGES_SET_ASIDE_MIB = 5128 * 2;

/** Memory that a training pod can have of a node, GiB, with its shared memory and without huge pages. */
export function workerMemoryGib({ allocatableMemoryMib, efaInterfaces }: Instance): number {
  const aside = efaInterfaces > 0 ? HUGEPAGES_SET_ASIDE_MIB : 0;
  return Math.floor((allocatableMemoryMib - OTHERS_MIB - aside) / 1024);
}
