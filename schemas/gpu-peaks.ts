/**
 * GPU peaks: what limits its speed: dense bfloat16 FLOP/s with float32 accumulation, and memory bandwidth. NVIDIA's data
 * sheets of the parts that the instances have (SXM for p4d…p6). Peaks nobody reaches; whoever uses one says which share is.
 */
import type { Instance } from "./instance.ts";

/** Peaks of one GPU. */
export interface GpuPeaks {
  /** Dense bfloat16, 10^12 FLOP/s (data sheets print twice that, with sparsity). */
  readonly bf16Teraflops: number;
  /** Memory, GB/s. */
  readonly memoryGbPerSecond: number;
}

const PEAKS: Readonly<Record<Instance["gpu"], GpuPeaks>> = {
  // A100 80 GB SXM; the 40 GB one is below.
  a100: { bf16Teraflops: 312, memoryGbPerSecond: 2039 },
  h100: { bf16Teraflops: 989, memoryGbPerSecond: 3350 },
  // H200: H100's cores with faster memory.
  h200: { bf16Teraflops: 989, memoryGbPerSecond: 4800 },
  b200: { bf16Teraflops: 2250, memoryGbPerSecond: 8000 },
  // B300 adds FP4 speed and memory, no bfloat16 speed.
  b300: { bf16Teraflops: 2250, memoryGbPerSecond: 8000 },
  l40s: { bf16Teraflops: 362, memoryGbPerSecond: 864 },
  // Server edition's memory; bfloat16 as published for the workstation edition of the same chip.
  "rtx-pro-6000": { bf16Teraflops: 504, memoryGbPerSecond: 1597 },
  "rtx-5090": { bf16Teraflops: 210, memoryGbPerSecond: 1792 },
};
const A100_40GB: GpuPeaks = { bf16Teraflops: 312, memoryGbPerSecond: 1555 };

/** The peaks of an instance's GPUs. */
export function peaksOf(instance: Instance): GpuPeaks {
  if (instance.gpu === "a100" && instance.gpuMemoryMib < 60_000) return A100_40GB;
  return PEAKS[instance.gpu];
}
