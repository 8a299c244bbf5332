/** A Kubernetes cluster of one's own with H100 nodes. Copy this file and write down your nodes as they are. */
import { kubernetesTarget } from "../../schemas/target.ts";
import { images, inCluster, ownImages } from "../cluster-defaults.ts";

export default kubernetesTarget({
  name: "kubernetes",
  kubeContext: "gpu-cluster",
  // `kubectl describe node` has the allocatable sizes, `nvidia-smi` the memory of one GPU.
  instance: {
    name: "h100-node",
    gpu: "h100",
    gpus: 8,
    gpuMemoryMib: 81_559,
    vcpus: 192,
    memoryMib: 2_097_152,
    allocatableMemoryMib: 1_980_000,
    allocatableMilliCpus: 190_000,
    nvmeGb: 15_000,
    networkCards: 8,
    efaInterfaces: 0,
    networkGbps: 3200,
    capacityBlocks: false,
  },
  maxNodes: 8,
  pricing: { kind: "owned", dollarsPerNodeHour: 0 },
  images,
  storage: { mountPath: "/shared", readGbPerSecond: 1 },
  ...inCluster, // its expertUrl is a placeholder that only planning reads (stacks/cluster-defaults.ts)
  platform: {
    nodes: {
      training: { "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3" },
      sandboxes: { "uplift.dev/pool": "sandboxes" },
      platform: {},
    },
    storage: {
      shared: { kind: "nfs", server: "nfs.example.org", path: "/export/uplift" },
      blockClass: "standard",
      objects: {
        endpoint: "https://s3.example.org",
        bucket: "uplift",
        accessKeyId: { kind: "environment", variable: "UPLIFT_S3_ACCESS_KEY_ID" },
        secretAccessKey: { kind: "environment", variable: "UPLIFT_S3_SECRET_ACCESS_KEY" },
      },
    },
    images: ownImages,
  },
});
