/**
 * Worker size: an instance → what slurmd's pod asks for of a node, which is the whole of it but for the node's own pods. Pure.
 * Slurm takes a worker's CPUs and memory from these limits, and its GPUs from the same count, so that they cannot differ.
 */
import { UserError } from "../../../schemas/error.ts";
import { type Instance, workerMemoryGib } from "../../../schemas/instance.ts";

/** For the node's other pods. */
const OTHERS_MILLI_CPUS = 4000;

/** Huge pages that a pod with EFA asks for. */
export const HUGEPAGES_MIB = 5120;

/** What a job's processes need at the very least beside shared memory. */
const PROCESSES_GIB = 16;

export interface WorkerSize {
  readonly gpus: number;
  readonly cpus: number;
  /** Without huge pages, with shared memory: a RAM disk counts against the memory limit. */
  readonly memoryGib: number;
  readonly sharedMemoryGib: number;
  readonly efaInterfaces: number;
  readonly hugepagesMib: number;
}

export function workerSize(instance: Instance, sharedMemoryGib: number): WorkerSize {
  const efa = instance.efaInterfaces > 0;
  const memoryGib = workerMemoryGib(instance);
  // Whole cores of two threads: slurmd subtracts them from the node's.
  const cpus = Math.floor((instance.allocatableMilliCpus - OTHERS_MILLI_CPUS) / 2000) * 2;
  const most = memoryGib - PROCESSES_GIB;
  if (cpus < instance.gpus || most < 1)
    throw new UserError({
      ...{ code: "worker-too-small", path: "target.instance" },
      asked: `a Slurm worker on a ${instance.name} with ${instance.gpus} GPUs`,
      found: `${Math.max(0, cpus)} CPUs and ${Math.max(0, memoryGib)} GiB are left after the node's own pods`,
      allowed: `a CPU a GPU, and more than ${PROCESSES_GIB} GiB`,
      todo: "use larger nodes, or correct allocatableMilliCpus and allocatableMemoryMib",
    });
  if (sharedMemoryGib > most)
    throw new UserError({
      ...{ code: "node-memory-exceeded", path: "target.slurm.sharedMemoryGib" },
      asked: `${sharedMemoryGib} GiB of shared memory in a Slurm worker`,
      found: `its memory limit is ${memoryGib} GiB on a ${instance.name}, and shared memory counts against it`,
      allowed: `${most} GiB or less`,
      todo: `set sharedMemoryGib to ${most} or less`,
    });
  return {
    ...{ gpus: instance.gpus, cpus, memoryGib, sharedMemoryGib, efaInterfaces: instance.efaInterfaces },
    hugepagesMib: efa ? HUGEPAGES_MIB : 0,
  };
}

/** Limits of slurmd's container; requests are the same, so that the node's kubelet never takes them back. */
export function workerLimits(size: WorkerSize): Record<string, string> {
  return {
    cpu: String(size.cpus),
    memory: `${size.memoryGib}Gi`,
    "nvidia.com/gpu": String(size.gpus),
    ...(size.efaInterfaces > 0
      ? { "vpc.amazonaws.com/efa": String(size.efaInterfaces), "hugepages-2Mi": `${size.hugepagesMib}Mi` }
      : {}),
  };
}
